//! What a sandbox leaves on a host: processes, mounts, groups, directories.

use std::{fs, path::Path};

use wire::SandboxId;

/// What is there, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Traces(Vec<String>);

impl Traces {
    /// Looks for whatever has the sandbox's name.
    pub(crate) fn of(id: &SandboxId, root: &Path) -> Traces {
        let mut found = processes(id.as_str());
        found.extend(mounts(id.as_str()));
        found.extend(groups(id.as_str()));
        let mut places = vec![root.to_owned()];
        while let Some(place) = places.pop() {
            for entry in fs::read_dir(place).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.contains(id.as_str()) {
                    found.push(format!("directory {}", entry.path().display()));
                } else if name.starts_with('.') {
                    places.push(entry.path());
                }
            }
        }
        Traces(found)
    }

    #[track_caller]
    pub(crate) fn assert_some(&self) {
        assert!(!self.0.is_empty(), "a living sandbox leaves no trace: the test sees nothing");
    }

    #[track_caller]
    pub(crate) fn assert_none(&self) {
        assert!(self.0.is_empty(), "left: {:#?}", self.0);
    }
}

/// Those whose image is or was below `place`.
pub(crate) fn loop_devices(place: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let image = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if image.starts_with(&*place.to_string_lossy()) {
            found.push(format!("{} with {}", entry.file_name().display(), image.trim()));
        }
    }
    found
}

/// By command line, or by cgroup for those that do not have it there.
fn processes(id: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let group = String::from_utf8_lossy(&read("cgroup")).into_owned();
        if line.contains(id) || group.contains(id) {
            found.push(format!("process {} {line}", entry.file_name().display()));
        }
    }
    found
}

fn mounts(id: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().filter(|line| line.contains(id)).map(|line| format!("mount {line}")).collect()
}

fn groups(id: &str) -> Vec<String> {
    let mut found = Vec::new();
    let trees = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    for tree in trees.map(|entry| entry.path()).chain([Path::new("/sys/fs/cgroup").to_owned()]) {
        let group = tree.join("mayfly").join(id);
        if group.exists() {
            found.push(format!("cgroup {}", group.display()));
        }
    }
    found
}
