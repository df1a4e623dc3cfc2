//! What only blobs on disk promise: who can see them, what is left after a
//! crash, and what happens when there is no space.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use store::{Blobs, OpenBlobsError, PutError};
use tempfile::TempDir;

use super::{LIMIT, MIB, Place, chunks, content, read};

pub(super) struct Disk {
    directory: TempDir,
    blobs: Blobs,
}

/// Blobs in a directory of their own.
pub(super) fn fresh() -> Disk {
    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::disk(&directory.path().join("data/blobs")).unwrap();
    Disk { directory, blobs }
}

impl Place for Disk {
    fn blobs(&self) -> Blobs {
        self.blobs.clone()
    }

    fn everything(&self) -> Vec<String> {
        files_below(self.directory.path())
    }
}

#[tokio::test]
async fn nobody_else_can_look_into_the_directory() {
    let disk = fresh();
    let mode = fs::metadata(disk.directory.path().join("data/blobs")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn what_an_interrupted_server_left_is_removed_and_the_rest_is_kept() {
    let disk = fresh();
    let directory = disk.directory.path().join("data/blobs");
    let odd = format!("bag/{}#7", "x".repeat(300));
    for key in ["bag/a", &odd] {
        disk.blobs.put(key, chunks(b"kept"), LIMIT).await.unwrap();
    }
    let finished = disk.everything();
    for left in finished.iter().map(|path| format!("{path}#1")) {
        fs::write(left, "half of").unwrap();
    }
    fs::create_dir_all(directory.join("other/chat#1")).unwrap();
    fs::write(directory.join("other/chat#1/b.txt#23"), "").unwrap();

    let blobs = Blobs::disk(&directory).unwrap();
    assert_eq!(disk.everything(), finished);
    for key in ["bag/a", &odd] {
        assert_eq!(read(&blobs, key).await, b"kept");
    }
}

#[tokio::test]
async fn a_directory_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = Blobs::disk(&file).unwrap_err();
    assert!(matches!(refused, OpenBlobsError::Directory { path, .. } if path == file));
}

/// The test runs itself again where a disk of 12 MiB is mounted, which goes
/// away with that process.
#[tokio::test]
async fn a_full_disk_is_said_to_be_full_and_nothing_is_left() {
    if let Some(disk) = std::env::var_os("MAYFLY_SMALL_DISK") {
        return fill(Path::new(&disk)).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let mounted = Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg("mount -t tmpfs -o size=12m small \"$MAYFLY_SMALL_DISK\" || exit 77; exec \"$@\"")
        .arg("sh")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "blobs::disk::a_full_disk_is_said_to_be_full_and_nothing_is_left"])
        .env("MAYFLY_SMALL_DISK", directory.path())
        .output();
    match mounted {
        Ok(done) if done.status.success() => {
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(said.contains("1 passed"), "{said}");
        }
        Ok(done) if done.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&done.stdout));
        }
        Ok(_) | Err(_) => println!("skipped: only root can mount a small disk"),
    }
}

async fn fill(disk: &Path) {
    let directory = disk.join("blobs");
    let blobs = Blobs::disk(&directory).unwrap();
    blobs.put("bag/first", chunks(&content(5 * MIB)), LIMIT).await.unwrap();
    let before = files_below(disk);
    // In one piece, and in parts of which the first one fits.
    for size in [8 * MIB - 1, 20 * MIB] {
        let refused = blobs.put("bag/second", chunks(&content(size)), LIMIT).await.unwrap_err();
        assert!(matches!(refused, PutError::Full(_)), "{refused:?}");
        assert_eq!(files_below(disk), before);
    }
    blobs.put("bag/third", chunks(&content(5 * MIB)), LIMIT).await.unwrap();
    assert_eq!(read(&blobs, "bag/first").await, content(5 * MIB));
}

fn files_below(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path.to_str().unwrap().to_owned());
        }
    }
    files.sort();
    files
}
