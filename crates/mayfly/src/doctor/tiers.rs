//! The tiers, judged by the other rows.

use isolate::Privilege;

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

pub(super) fn native(rows: &[&Check], privilege: Privilege) -> Check {
    const NAME: &str = "tier native";
    match privilege {
        Privilege::Root => {
            let needs = ["user namespaces", "overlayfs", "cgroups", "seccomp"];
            walls(NAME, &needs, "namespaces, own ids, cgroups, a system call filter", rows)
        }
        Privilege::User => {
            let walls = walls(NAME, &["user namespaces", "overlayfs", "seccomp"], "", rows);
            if !walls.state.is_usable() {
                return walls;
            }
            let detail = "without root: memory, processors and disk are not limited, there is no \
                          network and one user, and no packages can be installed";
            Check::limited(NAME, detail, "run as root")
        }
    }
}

pub(super) fn gvisor(rows: &[&Check], privilege: Privilege) -> Check {
    let needs = ["runsc", "overlayfs", "cgroups"];
    of_root("tier gvisor", &needs, "a kernel of its own in user space", rows, privilege)
}

pub(super) fn runc(rows: &[&Check], privilege: Privilege) -> Check {
    let needs = ["runc", "overlayfs", "cgroups", "seccomp"];
    let good = "containers as Docker makes them, without ids of their own";
    of_root("tier runc", &needs, good, rows, privilege)
}

pub(super) fn kubernetes() -> Check {
    Check::missing("tier kubernetes", "not in this version", "use --tier native")
}

/// A tier whose walls need root.
fn of_root(
    name: &'static str,
    needs: &[&str],
    good: &str,
    rows: &[&Check],
    privilege: Privilege,
) -> Check {
    let walls = walls(name, needs, good, rows);
    match privilege {
        Privilege::User if walls.state.is_usable() => {
            Check::missing(name, "building its walls needs root", "run as root")
        }
        Privilege::Root | Privilege::User => walls,
    }
}

/// A tier with walls. Every tier needs envd and a place, besides.
fn walls(name: &'static str, needs: &[&str], good: &str, rows: &[&Check]) -> Check {
    let lacking: Vec<&str> = rows
        .iter()
        .filter(|row| ["envd", "data directory"].contains(&row.check) || needs.contains(&row.check))
        .filter(|row| !row.state.is_usable())
        .map(|row| row.check)
        .collect();
    if !lacking.is_empty() {
        return Check::missing(name, format!("lacks {}", lacking.join(", ")), "see the rows below");
    }
    Check::ok(name, good)
}

#[cfg(test)]
mod tests {
    use isolate::Privilege::{Root, User};

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
        assert_eq!(native(&[&there, &gone], Root).detail, "lacks overlayfs");
        assert_eq!(native(&[&there, &gone], User).detail, "lacks overlayfs");
        assert_eq!(native(&[&there], Root).state, State::Ok);
        assert_eq!(native(&[&there], User).state, State::Limited);
        assert_eq!(gvisor(&[&there], User).state, State::Missing);
        let runtime = Check::missing("runsc", "", "");
        assert_eq!(gvisor(&[&there, &runtime], Root).detail, "lacks runsc");
        assert_eq!(native(&[&there, &runtime], Root).state, State::Ok);
    }
}
