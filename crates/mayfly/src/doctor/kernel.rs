//! What the kernel gives, tried rather than looked up where that is possible.

use std::fs;

use super::Check;
use crate::probe::{self, Subject};

/// The controllers that limits need.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

pub(super) fn cgroups() -> Check {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let layout = cgroup_layout(&mounts, &|path| fs::read_to_string(path).unwrap_or_default());
    describe_cgroups(&layout)
}

pub(super) fn user_namespaces() -> Check {
    const NAME: &str = "user namespaces";
    match probe::run(Subject::UserNamespace) {
        Ok(_) => Check::ok(NAME, "a child became root of its own"),
        Err(reason) => Check::missing(
            NAME,
            reason,
            "sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone and \
             kernel.apparmor_restrict_unprivileged_userns; in Docker also the seccomp profile",
        ),
    }
}

pub(super) fn overlay() -> Check {
    const NAME: &str = "overlayfs";
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.split_whitespace().any(|word| word == "overlay") {
        return Check::missing(NAME, "the kernel does not have it", "modprobe overlay");
    }
    match probe::run(Subject::Overlay) {
        Ok(_) => Check::ok(NAME, "mounted one in a user namespace"),
        Err(reason) => Check::limited(
            NAME,
            reason,
            "overlays then need root; kernel 5.11 or newer mounts them in a user namespace",
        ),
    }
}

pub(super) fn seccomp() -> Check {
    const NAME: &str = "seccomp";
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            Check::ok(NAME, format!("filters with {}", actions.trim()))
        }
        Ok(_) | Err(_) => {
            Check::missing(NAME, "the kernel has no filters", "a kernel with CONFIG_SECCOMP_FILTER")
        }
    }
}

pub(super) fn landlock() -> Check {
    const NAME: &str = "landlock";
    match probe::run(Subject::SecurityModules) {
        Ok(modules) if modules.split(',').any(|module| module == "landlock") => {
            Check::ok(NAME, format!("switched on ({modules})"))
        }
        Ok(modules) => Check::missing(
            NAME,
            format!("not among the security modules ({modules})"),
            "add landlock to the kernel's `lsm=` parameter",
        ),
        Err(reason) => {
            Check::limited(NAME, format!("cannot tell: {reason}"), "run the doctor as root once")
        }
    }
}

/// Which versions are mounted, and which needed controllers each has.
#[derive(Debug, Default, PartialEq, Eq)]
struct CgroupLayout {
    v1: Option<Vec<&'static str>>,
    v2: Option<Vec<&'static str>>,
}

fn cgroup_layout(mounts: &str, read: &dyn Fn(&str) -> String) -> CgroupLayout {
    let mut layout = CgroupLayout::default();
    for mount in mounts.lines() {
        // Fields before the dash: the fifth is the mount point. After it: the
        // type, the source, the options of the file system.
        let Some((before, after)) = mount.split_once(" - ") else { continue };
        let Some(point) = before.split(' ').nth(4) else { continue };
        let mut after = after.split(' ');
        match (after.next(), after.nth(1)) {
            (Some("cgroup"), Some(options)) => {
                let found = among_needed(options.split(','));
                layout.v1.get_or_insert_default().extend(found);
            }
            (Some("cgroup2"), _) => {
                let controllers = read(&format!("{point}/cgroup.controllers"));
                layout.v2 = Some(among_needed(controllers.split_whitespace()));
            }
            _ => {}
        }
    }
    if let Some(found) = &mut layout.v1 {
        found.sort_unstable();
    }
    layout
}

fn among_needed<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<&'static str> {
    NEEDED.into_iter().filter(|needed| names.clone().any(|name| name == *needed)).collect()
}

fn describe_cgroups(layout: &CgroupLayout) -> Check {
    const NAME: &str = "cgroups";
    const REMEDY: &str = "mount the controllers, or boot with systemd.unified_cgroup_hierarchy=1";
    let (version, found) = match (&layout.v1, &layout.v2) {
        (None, None) => return Check::missing(NAME, "none are mounted", REMEDY),
        (None, Some(v2)) => ("v2", v2.clone()),
        (Some(v1), None) => ("v1", v1.clone()),
        (Some(v1), Some(v2)) => ("hybrid", [v1.as_slice(), v2.as_slice()].concat()),
    };
    let lacking: Vec<&str> = NEEDED.into_iter().filter(|name| !found.contains(name)).collect();
    if lacking.is_empty() {
        Check::ok(NAME, format!("{version}, with {}", found.join(", ")))
    } else {
        Check::limited(NAME, format!("{version}, without {}", lacking.join(", ")), REMEDY)
    }
}

#[cfg(test)]
mod tests {
    use super::{cgroup_layout, describe_cgroups};
    use crate::doctor::State;

    #[track_caller]
    fn check(mounts: &str, controllers: &str, state: State, detail: &str) {
        let layout = cgroup_layout(mounts, &|_| controllers.to_owned());
        let row = describe_cgroups(&layout);
        assert_eq!((row.state, row.detail.as_str()), (state, detail));
    }

    #[test]
    fn cgroups_of_every_layout_are_told_apart() {
        let v1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuset\n\
                  33 31 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                  34 31 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let hybrid = format!("{v1}{v2}");
        check("", "", State::Missing, "none are mounted");
        check(v1, "", State::Ok, "v1, with cpu, cpuset, memory, pids");
        check(&hybrid, "hugetlb", State::Ok, "hybrid, with cpu, cpuset, memory, pids");
        check(v2, "cpuset cpu io memory pids", State::Ok, "v2, with cpu, cpuset, memory, pids");
        check(v2, "cpu memory", State::Limited, "v2, without cpuset, pids");
    }
}
