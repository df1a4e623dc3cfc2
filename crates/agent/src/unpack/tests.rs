//! Zips made to do harm, written by a library and by hand.

use std::fs;
use std::io::{Cursor, Seek, Write};
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{Reason, UnpackError, Unpacked, unpack};

const LIMIT: u64 = 32 << 20;

type Writer = ZipWriter<Cursor<Vec<u8>>>;

fn zip(build: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    build(&mut writer);
    writer.finish().unwrap().into_inner()
}

fn stored() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Stored)
}

fn file(writer: &mut Writer, name: &str, content: &[u8]) {
    writer.start_file(name, stored()).unwrap();
    writer.write_all(content).unwrap();
}

fn run(bytes: &[u8], limit: u64) -> (TempDir, Result<Unpacked, UnpackError>) {
    let directory = tempfile::tempdir().unwrap();
    let mut archive = tempfile::tempfile().unwrap();
    archive.write_all(bytes).unwrap();
    archive.rewind().unwrap();
    let unpacked = unpack(&archive, &directory.path().join("in"), limit);
    (directory, unpacked)
}

#[track_caller]
fn refused(bytes: &[u8], name: &str, reason: &Reason) {
    let (directory, unpacked) = run(bytes, LIMIT);
    let err = unpacked.unwrap_err();
    let UnpackError::Entry { name: seen, reason: why } = &err else {
        panic!("refused otherwise: {err}")
    };
    assert_eq!((seen.as_str(), why), (name, reason));
    // Nothing may ever lie beside the directory.
    let outside: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert!(outside.len() <= 1, "{outside:?}");
}

/// Replaces every copy of a name, in local and central headers, by another
/// of the same length.
fn renamed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut place = 0;
    while let Some(found) =
        bytes[place..].windows(from.len()).position(|window| window == from.as_bytes())
    {
        place += found;
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

/// Sets the file type in the external attributes of the only entry.
fn with_mode(bytes: &[u8], mode: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let central = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes[central + 5] = 3;
    bytes[central + 38..central + 42].copy_from_slice(&(mode << 16).to_le_bytes());
    bytes
}

#[test]
fn an_honest_zip_is_unpacked_with_its_directories_and_run_bits() {
    let bytes = zip(|writer| {
        file(writer, "a.txt", b"one");
        writer.add_directory("empty/", stored()).unwrap();
        let script = SimpleFileOptions::default().unix_permissions(0o4755);
        writer.start_file("deep/er/run.sh", script).unwrap();
        writer.write_all(&b"echo\n".repeat(1000)).unwrap();
        file(writer, "ünï.txt", b"");
    });
    let (directory, unpacked) = run(&bytes, LIMIT);
    assert_eq!(unpacked.unwrap(), Unpacked { files: 3, bytes: 5003 });
    let inside = directory.path().join("in");
    assert_eq!(fs::read(inside.join("a.txt")).unwrap(), b"one");
    assert!(inside.join("empty").is_dir());
    assert_eq!(fs::read(inside.join("deep/er/run.sh")).unwrap().len(), 5000);
    let mode = |name: &str| fs::metadata(inside.join(name)).unwrap().permissions().mode() & 0o7777;
    // The setuid bit is gone, and nothing but we may write.
    assert_eq!(mode("deep/er/run.sh"), 0o755);
    assert_eq!(mode("a.txt"), 0o644);
}

#[test]
fn a_name_that_leaves_the_directory_is_refused() {
    let plain = zip(|writer| file(writer, "aaaaaaaa", b"x"));
    let check = |name: &str, reason: Reason| {
        refused(&renamed(&plain, "aaaaaaaa", name), &name.escape_debug().to_string(), &reason);
    };
    check("../../aa", Reason::Parent);
    check("aa/../bb", Reason::Parent);
    check("/etc/abc", Reason::Absolute);
    check("..\\..\\aa", Reason::Backslash);
    check("aaa//bbb", Reason::BadName);
    check("aaaa\0bbb", Reason::BadName);
    check("./aaaaaa", Reason::BadName);
}

#[test]
fn links_and_special_files_are_refused() {
    let link = zip(|writer| writer.add_symlink("link", "/etc/passwd", stored()).unwrap());
    refused(&link, "link", &Reason::Symlink);
    let plain = zip(|writer| file(writer, "a", b"x"));
    for special in [0o010_644, 0o020_644, 0o060_644, 0o140_644, 0o040_755] {
        refused(&with_mode(&plain, special), "a", &Reason::Special);
    }
    refused(&with_mode(&plain, 0o120_777), "a", &Reason::Symlink);
}

#[test]
fn a_link_that_lies_in_the_way_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("in");
    fs::create_dir_all(&inside).unwrap();
    fs::write(directory.path().join("outside"), b"keep").unwrap();
    std::os::unix::fs::symlink(directory.path().join("outside"), inside.join("a")).unwrap();
    std::os::unix::fs::symlink(directory.path(), inside.join("dir")).unwrap();
    let unpack = |bytes: Vec<u8>| {
        let mut archive = tempfile::tempfile().unwrap();
        archive.write_all(&bytes).unwrap();
        super::unpack(&archive, &inside, LIMIT)
    };
    unpack(zip(|writer| file(writer, "a", b"new"))).unwrap();
    assert_eq!(fs::read(directory.path().join("outside")).unwrap(), b"keep");
    assert_eq!(fs::read(inside.join("a")).unwrap(), b"new");
    let through = unpack(zip(|writer| file(writer, "dir/b", b"new")));
    assert!(matches!(through, Err(UnpackError::Write { .. })), "{through:?}");
    assert!(!directory.path().join("b").exists());
}

#[test]
fn entries_on_one_path_are_refused() {
    let two = zip(|writer| {
        file(writer, "aaaa", b"1");
        file(writer, "bbbb", b"2");
    });
    refused(&renamed(&two, "bbbb", "aaaa"), "aaaa", &Reason::Twice);
    refused(&renamed(&two, "bbbb", "AAAA"), "AAAA", &Reason::CaseOnly("aaaa".into()));
    let both = zip(|writer| {
        file(writer, "a", b"1");
        file(writer, "a/b", b"2");
    });
    refused(&both, "a/b", &Reason::FileAndDirectory);
}

#[test]
fn declared_sizes_over_the_limit_are_refused_before_writing() {
    let bytes = zip(|writer| {
        file(writer, "one", &[7; 600]);
        file(writer, "two", &[7; 600]);
    });
    let (directory, unpacked) = run(&bytes, 1000);
    let refused = unpacked.unwrap_err().to_string();
    assert_eq!(refused, "entry `two`: with it the files weigh more than 1000 bytes");
    assert!(!directory.path().join("in").exists());
    assert!(run(&bytes, 1200).1.is_ok());
}

#[test]
fn a_bomb_is_refused_by_its_ratio() {
    let bomb = zip(|writer| {
        let options = SimpleFileOptions::default();
        writer.start_file("zeros", options).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..17 {
            writer.write_all(&zeros).unwrap();
        }
    });
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    refused(&bomb, "zeros", &Reason::Ratio(200));
}

#[test]
fn more_bytes_than_declared_are_refused() {
    let honest = zip(|writer| {
        writer.start_file("liar", SimpleFileOptions::default()).unwrap();
        writer.write_all(&[0; 100_000]).unwrap();
    });
    let mut bytes = honest;
    // The size unpacked, in the local header and in the central one.
    let central = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    for place in [22, central + 24] {
        assert_eq!(bytes[place..place + 4], 100_000u32.to_le_bytes());
        bytes[place..place + 4].copy_from_slice(&10u32.to_le_bytes());
    }
    let (directory, unpacked) = run(&bytes, LIMIT);
    let refused = unpacked.unwrap_err().to_string();
    assert!(refused.starts_with("entry `liar`: "), "{refused}");
    let written = fs::metadata(directory.path().join("in/liar")).map_or(0, |file| file.len());
    assert!(written <= 10, "{written} bytes were written");
}

#[test]
fn a_changed_byte_is_noticed() {
    let mut bytes = zip(|writer| file(writer, "a", b"contents"));
    let place = bytes.windows(8).position(|window| window == b"contents").unwrap();
    bytes[place] = b'C';
    let refused = run(&bytes, LIMIT).1.unwrap_err().to_string();
    assert!(refused.starts_with("entry `a`: "), "{refused}");
}

#[test]
fn overlapping_entries_are_refused() {
    // Both central headers point at the first local one.
    let mut bytes = zip(|writer| {
        file(writer, "same", b"content");
        file(writer, "Zame", b"content");
    });
    let second = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    bytes[second + 42..second + 46].copy_from_slice(&0u32.to_le_bytes());
    let refused = run(&bytes, LIMIT).1.unwrap_err().to_string();
    // The library sees the other name first; without it the overlap is seen.
    assert!(refused.contains("header") || refused.contains("another entry"), "{refused}");
}

#[test]
fn too_many_entries_and_what_is_no_zip_are_refused() {
    let many = zip(|writer| {
        for number in 0..10_001 {
            file(writer, &format!("{number}"), b"");
        }
    });
    let refused = run(&many, LIMIT).1.unwrap_err().to_string();
    assert_eq!(refused, "it has 10001 entries; the limit is 10000");
    for bytes in [&b""[..], b"PK", b"<html>", &many[..many.len() - 30], &[0; 5000]] {
        assert!(matches!(run(bytes, LIMIT).1, Err(UnpackError::NotZip(_))));
    }
}

#[test]
fn encrypted_entries_are_refused() {
    let mut bytes = zip(|writer| file(writer, "a", b"x"));
    let central = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes[6] |= 1;
    bytes[central + 8] |= 1;
    refused(&bytes, "a", &Reason::Encrypted);
}
