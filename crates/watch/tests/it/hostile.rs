//! Trees that nobody would make who means well.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};
use watch::{Kind, Note};

use crate::fold::{Scene, listing};

#[test]
fn pipes_and_sockets_hold_nobody_up_and_are_not_told() {
    let pipe = |path: PathBuf| mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let mut scene = Scene::with(|root| pipe(root.join("before")), |_| {});
    pipe(scene.path("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).unwrap();
    scene.write("file", "1");
    scene.wait(Kind::Create, "file");
    scene.finish();
    assert!(scene.events.iter().all(|event| event.path == Path::new("file")));
}

#[test]
fn names_of_any_bytes_and_of_full_length_are_told() {
    let mut scene = Scene::new();
    let long = "n".repeat(255);
    scene.write(&long, "1");
    let odd = OsStr::from_bytes(b"\xff\xfe \n\"'");
    fs::create_dir(scene.root().join(odd)).unwrap();
    fs::write(scene.root().join(odd).join(odd), "1").unwrap();
    scene.finish();
    assert_eq!(scene.comings_and_goings(&long), [Kind::Create]);
    assert!(scene.files.contains(&PathBuf::from(odd).join(odd)));
}

#[test]
fn a_tree_deeper_than_any_path_is_said_once_and_holds_nothing_up() {
    let mut scene = Scene::new();
    let name = "d".repeat(200);
    let open = |directory, name: &str| {
        openat(directory, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    };
    let mut directory = open(CWD, scene.root().to_str().unwrap());
    for _ in 0..40 {
        mkdirat(&directory, &name, Mode::RWXU).unwrap();
        let below = openat(&directory, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        directory = below.unwrap();
    }
    scene.write("shallow", "1");
    scene.wait(Kind::Create, "shallow");
    scene.end();
    assert_eq!(scene.notes, [Note::TooDeep]);
    // The standard library cannot remove it by its path.
    let status = std::process::Command::new("rm").arg("-rf").arg(scene.path(&name)).status();
    assert!(status.unwrap().success());
}

#[test]
fn files_over_the_cap_are_said_once_and_those_within_go_on() {
    let mut scene = Scene::with(|_| {}, |options| options.most_files = 100);
    for number in 0..300 {
        scene.write(&format!("{number:03}"), "1");
    }
    scene.wait(Kind::Create, "099");
    scene.write("000", "changed");
    scene.wait(Kind::Change, "000");
    scene.end();
    assert_eq!(scene.notes, [Note::TooManyFiles(100)]);
    assert_eq!(scene.files.len(), 100);
    assert!(scene.files.is_subset(&listing(scene.root())));
}

#[test]
fn without_enough_watches_the_tree_is_looked_through_and_that_is_said() {
    let mut scene = Scene::with(|_| {}, |options| options.most_watches = 3);
    for number in 0..6 {
        fs::create_dir(scene.path(&number.to_string())).unwrap();
        scene.write(&format!("{number}/file"), "1");
    }
    scene.wait(Kind::Create, "5/file");
    scene.write("5/file", "changed");
    scene.wait(Kind::Change, "5/file");
    fs::rename(scene.path("5"), scene.path("six")).unwrap();
    scene.wait(Kind::Create, "six/file");
    scene.write("6", "1");
    scene.finish();
    assert_eq!(scene.notes, [Note::NoWatches]);
}

#[test]
fn a_directory_that_is_not_there_cannot_be_watched() {
    let options = watch::Options::of("/nonexistent/directory");
    assert!(watch::Watcher::start(options, |_| {}).is_err());
}
