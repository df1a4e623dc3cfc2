//! The files and limits a server needs on this host.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use sandbox::{Addition, Templates};

use super::Check;

/// Below this a handful of sandboxes fill the disk.
const ENOUGH_DISK: u64 = 5 << 30;

/// A sandbox with a few streams holds about ten; 200 of them are the default.
const ENOUGH_FILES: u64 = 4096;

pub(super) fn envd(path: &Path) -> Check {
    const NAME: &str = "envd";
    const REMEDY: &str = "cargo build --release --workspace, or name it with --envd";
    let shown = path.display();
    if access(path, AccessFlags::X_OK).is_err() || !path.is_file() {
        return Check::missing(NAME, format!("no program at {shown}"), REMEDY);
    }
    match start_of(path).map(|start| linkage(&start)) {
        Ok(Linkage::Static) => Check::ok(NAME, format!("{shown}, static")),
        Ok(Linkage::Dynamic) => Check::limited(
            NAME,
            format!("{shown} needs shared libraries, so only the process tier can start it"),
            "cargo build --release -p mayfly-envd with RUSTFLAGS='-C target-feature=+crt-static'",
        ),
        Ok(Linkage::Unknown) => {
            Check::limited(NAME, format!("{shown} is not an ELF program"), REMEDY)
        }
        Err(err) => Check::missing(NAME, format!("cannot read {shown}: {err}"), REMEDY),
    }
}

pub(super) fn data_directory(data: &Path) -> Check {
    const NAME: &str = "data directory";
    let shown = data.display();
    let place = existing(data);
    let allowed = access(place, AccessFlags::W_OK | AccessFlags::X_OK);
    match (place.is_dir(), allowed) {
        (true, Ok(())) if place == data => Check::ok(NAME, format!("{shown}, writable")),
        (true, Ok(())) => Check::ok(NAME, format!("{shown} can be made")),
        (false, _) => Check::missing(
            NAME,
            format!("{} is not a directory", place.display()),
            "name another with --data",
        ),
        (true, Err(err)) => Check::missing(
            NAME,
            format!("cannot write in {}: {}", place.display(), err.desc()),
            "name another with --data, or change its owner",
        ),
    }
}

/// The coding agents that there are templates for.
pub(super) fn harnesses(data: &Path) -> Check {
    const NAME: &str = "harnesses";
    let found = Templates::additions_in(&data.join("templates"));
    if found.is_empty() {
        return Check::ok(NAME, "builtin; `mayfly template add-harness claude-code` adds another");
    }
    let found: Vec<String> = found
        .iter()
        .map(|(name, Addition { harness, version, .. })| match name == harness {
            true => format!("{harness} {version}"),
            false => format!("{harness} {version} in `{name}`"),
        })
        .collect();
    Check::ok(NAME, format!("builtin, {}", found.join(", ")))
}

pub(super) fn free_disk(data: &Path) -> Check {
    const NAME: &str = "free disk";
    let place = existing(data);
    match statvfs(place) {
        Ok(disk) => {
            let free = disk.blocks_available() * disk.fragment_size();
            let detail =
                format!("{:.1} GiB at {}", free as f64 / f64::from(1 << 30), place.display());
            if free >= ENOUGH_DISK {
                Check::ok(NAME, detail)
            } else {
                Check::limited(NAME, detail, "free some, or name another place with --data")
            }
        }
        Err(err) => Check::limited(NAME, format!("cannot tell: {err}"), "try another --data"),
    }
}

pub(super) fn disk_limit() -> Check {
    const NAME: &str = "disk limit";
    match isolate::disk_limit() {
        Ok(()) => Check::ok(NAME, "disks of tier native have a size; other tiers' have none"),
        Err(why) => Check::limited(
            NAME,
            format!("not enforced: {why}"),
            "without it a sandbox can fill the disk of the host",
        ),
    }
}

pub(super) fn open_files() -> Check {
    const NAME: &str = "open files";
    const REMEDY: &str = "ulimit -n 65536, or LimitNOFILE=65536 in the service";
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => {
            let detail = format!("{soft}, at most {hard}");
            if soft >= ENOUGH_FILES {
                Check::ok(NAME, detail)
            } else {
                Check::limited(NAME, detail, REMEDY)
            }
        }
        Err(err) => Check::limited(NAME, format!("cannot tell: {err}"), REMEDY),
    }
}

/// The path itself, or what of it is there already.
fn existing(path: &Path) -> &Path {
    let mut ancestors = path.ancestors();
    match ancestors.find(|ancestor| !ancestor.as_os_str().is_empty() && ancestor.exists()) {
        Some(ancestor) => ancestor,
        None => Path::new("."),
    }
}

fn start_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut start)?;
    Ok(start)
}

/// How a program finds its libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    Static,
    Dynamic,
    Unknown,
}

/// A 64-bit program that names no interpreter needs no shared library.
fn linkage(start: &[u8]) -> Linkage {
    const INTERPRETER: [u8; 4] = 3u32.to_le_bytes();
    if !start.starts_with(b"\x7fELF\x02\x01") {
        return Linkage::Unknown;
    }
    let number =
        |at: usize| start.get(at..at + 2).map(|b| usize::from(b[0]) | usize::from(b[1]) << 8);
    // Offset of the program headers (it fits two bytes: they follow the file's
    // header), their size and their count.
    let (Some(offset), Some(size), Some(count)) = (number(32), number(54), number(56)) else {
        return Linkage::Unknown;
    };
    let mut kinds = (0..count).map(|index| start.get(offset + index * size..));
    match kinds.try_fold(false, |found, header| {
        header.map(|header| found || header.starts_with(&INTERPRETER))
    }) {
        Some(true) => Linkage::Dynamic,
        Some(false) => Linkage::Static,
        None => Linkage::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Linkage, existing, linkage, start_of};

    #[test]
    fn this_test_is_dynamic_and_a_script_is_no_program() {
        let this = std::env::current_exe().unwrap();
        assert_eq!(linkage(&start_of(&this).unwrap()), Linkage::Dynamic);
        assert_eq!(linkage(b"#!/bin/sh\n"), Linkage::Unknown);
    }

    #[test]
    fn no_start_of_a_program_panics() {
        let this = start_of(&std::env::current_exe().unwrap()).unwrap();
        for length in 0..this.len().min(300) {
            linkage(&this[..length]);
        }
        // One header that is a segment to load, not an interpreter.
        let mut program = b"\x7fELF\x02\x01".to_vec();
        program.resize(64, 0);
        (program[32], program[54], program[56]) = (64, 56, 1);
        program.extend([1, 0, 0, 0]);
        program.resize(120, 0);
        assert_eq!(linkage(&program), Linkage::Static);
    }

    #[test]
    fn a_path_that_is_not_there_is_judged_by_its_parent() {
        assert_eq!(existing(Path::new("/tmp/nothing-here/below")), Path::new("/tmp"));
        assert_eq!(existing(Path::new("nothing-here")), Path::new("."));
    }
}
