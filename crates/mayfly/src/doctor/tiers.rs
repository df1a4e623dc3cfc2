//! The tiers, judged by the other rows.

use super::Check;

pub(super) fn process(needed: &[Check]) -> Check {
    const NAME: &str = "tier process";
    let lacking: Vec<&str> =
        needed.iter().filter(|row| !row.state.is_usable()).map(|row| row.check).collect();
    if lacking.is_empty() {
        Check::ok(NAME, "no walls: on loopback, for development with code you trust")
    } else {
        Check::missing(NAME, format!("lacks {}", lacking.join(", ")), "see the rows below")
    }
}

pub(super) fn native(rows: &[&Check], is_root: bool) -> Check {
    let needs = ["user namespaces", "overlayfs", "cgroups", "seccomp"];
    let good = "namespaces, own ids, cgroups, a system call filter";
    walls("tier native", &needs, good, rows, is_root)
}

pub(super) fn gvisor(rows: &[&Check], is_root: bool) -> Check {
    let needs = ["runsc", "overlayfs", "cgroups"];
    walls("tier gvisor", &needs, "a kernel of its own in user space", rows, is_root)
}

pub(super) fn runc(rows: &[&Check], is_root: bool) -> Check {
    let needs = ["runc", "overlayfs", "cgroups", "seccomp"];
    let good = "containers as Docker makes them, without ids of their own";
    walls("tier runc", &needs, good, rows, is_root)
}

pub(super) fn kubernetes() -> Check {
    Check::missing("tier kubernetes", "not in this version", "use --tier native")
}

/// A tier with walls: they need root, and every tier needs envd and a place.
fn walls(name: &'static str, needs: &[&str], good: &str, rows: &[&Check], is_root: bool) -> Check {
    let lacking: Vec<&str> = rows
        .iter()
        .filter(|row| ["envd", "data directory"].contains(&row.check) || needs.contains(&row.check))
        .filter(|row| !row.state.is_usable())
        .map(|row| row.check)
        .collect();
    if !lacking.is_empty() {
        return Check::missing(name, format!("lacks {}", lacking.join(", ")), "see the rows below");
    }
    if !is_root {
        return Check::missing(name, "building walls needs root", "run as root");
    }
    Check::ok(name, good)
}

#[cfg(test)]
mod tests {
    use super::{gvisor, native, process};
    use crate::doctor::{Check, State};

    #[test]
    fn serving_is_impossible_only_without_what_it_needs() {
        let there = Check::ok("envd", "");
        let limited = Check::limited("envd", "", "");
        let gone = Check::missing("data directory", "", "");
        assert_eq!(process(&[there]).state, State::Ok);
        assert_eq!(process(&[limited]).state, State::Ok);
        let row = process(&[gone]);
        assert_eq!((row.state, row.detail.as_str()), (State::Missing, "lacks data directory"));
    }

    #[test]
    fn a_tier_with_walls_says_what_it_lacks() {
        let there = Check::ok("seccomp", "");
        let gone = Check::missing("overlayfs", "", "");
        assert_eq!(native(&[&there, &gone], true).detail, "lacks overlayfs");
        assert_eq!(native(&[&there], true).state, State::Ok);
        assert_eq!(native(&[&there], false).state, State::Missing);
        let runtime = Check::missing("runsc", "", "");
        assert_eq!(gvisor(&[&there, &runtime], true).detail, "lacks runsc");
        assert_eq!(native(&[&there, &runtime], true).state, State::Ok);
    }
}
