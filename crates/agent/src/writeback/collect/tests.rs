//! Directories as tools leave them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use wire::agent::AgentLimits;

use super::{Asset, CollectError, collect};

const LIMITS: AgentLimits = AgentLimits {
    upload_files: 5,
    upload_file_bytes: 100,
    upload_total_bytes: 200,
    ..AgentLimits::STANDARD
};

fn directory(files: &[(&str, usize)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, size) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![b'x'; *size]).unwrap();
    }
    directory
}

fn names(directory: &Path) -> (Result<Vec<String>, CollectError>, usize) {
    let mut skipped = 0;
    let assets = collect(directory, &LIMITS, |_| skipped += 1);
    (assets.map(|assets| assets.into_iter().map(|asset| asset.name).collect()), skipped)
}

#[test]
fn files_keep_their_last_name_unless_two_have_it() {
    let files = [("b.txt", 1), ("a/c.txt", 2), ("x/same", 3), ("y/z/same", 4)];
    let directory = directory(&files);
    let (names, skipped) = names(directory.path());
    assert_eq!(names.unwrap(), ["c.txt", "b.txt", "x-same", "y-z-same"]);
    assert_eq!(skipped, 0);
}

#[test]
fn size_and_hash_are_those_of_the_bytes() {
    let directory = directory(&[("abc", 0)]);
    fs::write(directory.path().join("abc"), b"abc").unwrap();
    let assets = collect(directory.path(), &LIMITS, |_| {}).unwrap();
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
    let path = directory.path().join("abc");
    assert_eq!(assets, [Asset { path, name: "abc".into(), size: 3, sha256 }]);
}

#[test]
fn links_and_pipes_are_left_out() {
    let directory = directory(&[("real", 1)]);
    symlink("/etc/passwd", directory.path().join("link")).unwrap();
    symlink("/etc", directory.path().join("linked")).unwrap();
    let pipe = directory.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let (names, skipped) = names(directory.path());
    assert_eq!(names.unwrap(), ["real"]);
    assert_eq!(skipped, 3);
}

#[test]
fn a_directory_that_is_missing_or_a_link_has_no_files() {
    let directory = directory(&[("real/file", 1)]);
    assert_eq!(names(&directory.path().join("missing")).0.unwrap(), Vec::<String>::new());
    let link = directory.path().join("link");
    symlink(directory.path().join("real"), &link).unwrap();
    assert_eq!(names(&link).0.unwrap(), Vec::<String>::new());
}

#[test]
fn every_limit_is_kept_and_named() {
    let check = |files: &[(&str, usize)], message: &str| {
        let refused = names(directory(files).path()).0.unwrap_err().to_string();
        assert_eq!(refused, message);
    };
    let six = [("1", 1), ("2", 1), ("3", 1), ("4", 1), ("5", 1), ("6", 1)];
    check(&six, "there are more than 5 files");
    check(&[("a/big", 101)], "`a/big` has 101 bytes; the limit of a file is 100");
    check(&[("a", 100), ("b", 100), ("c", 1)], "with `c` the files have more than 200 bytes");
    assert!(names(directory(&[("a", 100), ("b", 100)]).path()).0.is_ok());
}
