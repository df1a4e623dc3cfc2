//! The tiers, judged by the other rows. One that this version has not is
//! missing, whatever the host could do; the detail says what it could.

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

pub(super) fn native(rows: &[Check]) -> Check {
    let needs = ["user namespaces", "overlayfs", "cgroups", "seccomp", "landlock", "nft"];
    not_in_this_version("tier native", rows, &needs)
}

pub(super) fn gvisor(rows: &[Check]) -> Check {
    not_in_this_version("tier gvisor", rows, &["runsc", "cgroups"])
}

pub(super) fn kubernetes() -> Check {
    Check::missing("tier kubernetes", "not in this version", "use --tier process")
}

fn not_in_this_version(name: &'static str, rows: &[Check], needs: &[&str]) -> Check {
    let (there, lacking): (Vec<&Check>, Vec<&Check>) =
        rows.iter().filter(|row| needs.contains(&row.check)).partition(|row| row.state.is_usable());
    let names = |rows: &[&Check]| rows.iter().map(|row| row.check).collect::<Vec<_>>().join(", ");
    let mut detail = "not in this version".to_owned();
    if !there.is_empty() {
        detail.push_str(&format!("; this host has {}", names(&there)));
    }
    if !lacking.is_empty() {
        detail.push_str(&format!("; it lacks {}", names(&lacking)));
    }
    Check::missing(name, detail, "use --tier process")
}

#[cfg(test)]
mod tests {
    use super::{native, process};
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
    fn a_tier_of_the_future_says_what_the_host_would_have() {
        let rows = [Check::ok("seccomp", ""), Check::missing("nft", "", ""), Check::ok("runc", "")];
        let detail = native(&rows).detail;
        assert_eq!(detail, "not in this version; this host has seccomp; it lacks nft");
    }
}
