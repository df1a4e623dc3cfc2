//! Reading totals from what the test runners print.

use std::ops::AddAssign;

/// How many tests did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Whose output is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Runner {
    Cargo,
    Pytest,
    Node,
}

impl Runner {
    /// What one line of output adds to the totals; most lines add nothing.
    pub(crate) fn read(self, line: &str) -> Tally {
        match self {
            // `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; …`
            Runner::Cargo => match line.trim_start().strip_prefix("test result: ") {
                Some(rest) => counts(rest, ';'),
                None => Tally::default(),
            },
            // `==== 1 failed, 3 passed, 1 skipped in 0.12s ====`
            Runner::Pytest => {
                let inner = line.trim_matches('=').trim();
                let is_summary = line.starts_with('=') && inner.contains(" in ");
                if is_summary { counts(inner, ',') } else { Tally::default() }
            }
            // `ℹ pass 3`
            Runner::Node => match line.strip_prefix("ℹ ").and_then(|rest| rest.split_once(' ')) {
                Some((word, count)) => one(word, count),
                None => Tally::default(),
            },
        }
    }
}

fn counts(text: &str, separator: char) -> Tally {
    let mut total = Tally::default();
    for part in text.split(separator) {
        let words: Vec<&str> = part.split_whitespace().collect();
        for pair in words.windows(2) {
            total += one(pair[1], pair[0]);
        }
    }
    total
}

fn one(word: &str, count: &str) -> Tally {
    let mut tally = Tally::default();
    let Ok(count) = count.parse::<u32>() else {
        return tally;
    };
    match word {
        "pass" | "passed" => tally.passed = count,
        "fail" | "failed" | "error" | "errors" | "cancelled" => tally.failed = count,
        "ignored" | "skipped" | "todo" => tally.skipped = count,
        _ => {}
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::{Runner, Tally};

    #[track_caller]
    fn check(runner: Runner, output: &str, passed: u32, failed: u32, skipped: u32) {
        let mut total = Tally::default();
        for line in output.lines() {
            total += runner.read(line);
        }
        assert_eq!(total, Tally { passed, failed, skipped }, "{output}");
    }

    #[test]
    fn every_runners_summary_is_read() {
        let cargo = "test a ... ok\n\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; \
                     0 filtered out; finished in 0.00s\ntest result: FAILED. 0 passed; 2 failed; \
                     0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        check(Runner::Cargo, cargo, 3, 2, 1);
        check(Runner::Pytest, "=== 1 failed, 3 passed, 2 skipped, 1 error in 0.12s ===", 3, 2, 2);
        check(Runner::Pytest, "=== 12 passed, 1 warning in 61.00s (0:01:01) ===", 12, 0, 0);
        check(Runner::Node, "✔ it runs\nℹ tests 5\nℹ pass 3\nℹ fail 1\nℹ skipped 1", 3, 1, 1);
    }

    #[test]
    fn output_of_the_tests_themselves_is_not_counted() {
        check(Runner::Cargo, "3 passed; 0 failed", 0, 0, 0);
        check(Runner::Pytest, "3 passed in 1s", 0, 0, 0);
        check(Runner::Node, "pass 3", 0, 0, 0);
    }
}
