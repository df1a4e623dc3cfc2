//! `cargo xtask test`: everything that has to hold, in one command.
//!
//! A step that fails does not stop the ones after it, unless they would test
//! programs that could not be built. The last line has the true totals.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;

use crate::step::{cargo, follow, root, run, timed};
use crate::tally::{Runner, Tally};
use crate::{binary, install};

/// Pytest's exit code when a filter leaves nothing to run.
const NOTHING_SELECTED: i32 = 5;

struct Row {
    name: &'static str,
    duration: Duration,
    tally: Tally,
}

#[derive(Default)]
struct Report {
    rows: Vec<Row>,
}

/// Installs, builds, checks and tests. A filter picks tests by name.
pub(crate) fn test_all(filter: Option<&str>) -> Result<ExitCode> {
    let mut report = Report::default();
    let ready = report.step("install", install::install_missing)
        && report.step("build", binary::build_all)
        && {
            report.step("format", || run(&mut cargo(["fmt", "--all", "--check"])?));
            report.step("clippy", || run(&mut clippy()?));
            report.tests("cargo test", Runner::Cargo, cargo_test(filter)?);
            report.step("static programs", binary::build_static)
        };
    if ready {
        let mut plain = pytest("conformance/python", filter)?;
        plain.env("MAYFLY_TEST_TIER", "process");
        report.tests("python sdk", Runner::Pytest, plain);
        // Walls need root; without it these suites say so and skip.
        let mut walled = pytest("conformance/python", filter)?;
        walled.env("MAYFLY_TEST_TIER", "native");
        report.tests("same, native", Runner::Pytest, walled);
        report.tests("walls", Runner::Pytest, pytest("conformance/walls", filter)?);
        // With walls where there can be walls.
        report.tests("runs", Runner::Pytest, pytest("conformance/runs", filter)?);
        // The real agents, from npm; one that cannot be installed says so and skips.
        report.tests("harnesses", Runner::Pytest, pytest("conformance/harness", filter)?);
        report.tests("workspace", Runner::Pytest, pytest("conformance/workspace", filter)?);
        report.tests("node sdk", Runner::Node, node("conformance/js", filter)?);
        report.tests("ag-ui clients", Runner::Node, node("conformance/agui", filter)?);
    }
    Ok(report.print())
}

impl Report {
    /// A step without tests of its own: it counts only when it fails.
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> bool {
        let (outcome, duration) = timed(name, work);
        if let Err(error) = &outcome {
            println!("    {name} failed: {error:#}");
        }
        let failed = u32::from(outcome.is_err());
        self.rows.push(Row { name, duration, tally: Tally { failed, ..Tally::default() } });
        outcome.is_ok()
    }

    /// A test runner, whose totals are taken from its own summary.
    fn tests(&mut self, name: &'static str, runner: Runner, mut command: Command) {
        let mut tally = Tally::default();
        let (code, duration) =
            timed(name, || follow(&mut command, |line| tally += runner.read(line)));
        let ended_well = match (&code, runner) {
            (Ok(0), _) | (Ok(NOTHING_SELECTED), Runner::Pytest) => true,
            (Ok(_) | Err(_), Runner::Cargo | Runner::Pytest | Runner::Node) => false,
        };
        if let Err(error) = &code {
            println!("    {name} failed: {error:#}");
        }
        // A runner that breaks before it counts is a failure all the same.
        if !ended_well && tally.failed == 0 {
            tally.failed = 1;
        }
        self.rows.push(Row { name, duration, tally });
    }

    fn print(&self) -> ExitCode {
        let mut total = Tally::default();
        println!("\n{:<14}{:>9}{:>9}{:>9}{:>11}", "step", "passed", "failed", "skipped", "seconds");
        for Row { name, duration, tally } in &self.rows {
            total += *tally;
            let Tally { passed, failed, skipped } = tally;
            let seconds = duration.as_secs_f64();
            println!("{name:<14}{passed:>9}{failed:>9}{skipped:>9}{seconds:>11.1}");
        }
        println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
        if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn clippy() -> Result<Command> {
    cargo(["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn cargo_test(filter: Option<&str>) -> Result<Command> {
    let mut command = cargo(["test", "--release", "--workspace", "--no-fail-fast"])?;
    command.args(filter);
    Ok(command)
}

fn pytest(suite: &str, filter: Option<&str>) -> Result<Command> {
    let root = root()?;
    let mut command = Command::new(root.join(".venv/bin/python"));
    command.args(["-m", "pytest", "-ra", "--color=no", "."]).current_dir(root.join(suite));
    if let Some(filter) = filter {
        command.args(["-k", filter]);
    }
    Ok(command)
}

fn node(suite: &str, filter: Option<&str>) -> Result<Command> {
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=spec"]).current_dir(root()?.join(suite));
    if let Some(filter) = filter {
        command.arg(format!("--test-name-pattern={filter}"));
    }
    Ok(command)
}
