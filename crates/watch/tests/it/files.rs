//! What is told of single files.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use watch::{Kind, MERGED_WITHIN};

use crate::fold::Scene;

#[test]
fn a_file_comes_changes_and_goes() {
    let mut scene = Scene::new();
    scene.write("a", "one");
    scene.wait(Kind::Create, "a");
    scene.write("a", "longer");
    scene.wait(Kind::Change, "a");
    fs::remove_file(scene.path("a")).unwrap();
    scene.wait(Kind::Delete, "a");
    scene.finish();
}

#[test]
fn what_was_there_at_the_start_is_not_told_but_what_becomes_of_it_is() {
    let prepare = |root: &std::path::Path| {
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/old"), "1").unwrap();
        fs::write(root.join("still"), "1").unwrap();
    };
    let mut scene = Scene::with(prepare, |_| {});
    scene.write("d/old", "12");
    scene.wait(Kind::Change, "d/old");
    fs::remove_file(scene.path("d/old")).unwrap();
    scene.finish();
    assert_eq!(scene.of("still"), []);
    assert_eq!(scene.of("d/old").last(), Some(&Kind::Delete));
}

#[test]
fn nothing_that_comes_and_goes_at_once_is_lost() {
    let mut scene = Scene::new();
    for _ in 0..200 {
        scene.write("a", "1");
        fs::remove_file(scene.path("a")).unwrap();
    }
    scene.finish();
    let told = scene.of("a");
    assert_eq!(told.iter().filter(|kind| **kind == Kind::Create).count(), 200);
    assert_eq!(told.iter().filter(|kind| **kind == Kind::Delete).count(), 200);
}

#[test]
fn a_rename_is_a_deletion_and_a_creation_or_a_change_of_what_it_replaces() {
    let mut scene = Scene::new();
    scene.write("a", "1");
    fs::rename(scene.path("a"), scene.path("b")).unwrap();
    scene.wait(Kind::Create, "b");
    assert_eq!(scene.comings_and_goings("a"), [Kind::Create, Kind::Delete]);
    scene.write("c", "2");
    scene.wait(Kind::Create, "c");
    fs::rename(scene.path("c"), scene.path("b")).unwrap();
    scene.finish();
    assert_eq!(scene.of("c").last(), Some(&Kind::Delete));
    assert_eq!(scene.comings_and_goings("b"), [Kind::Create]);
    assert_eq!(scene.of("b").last(), Some(&Kind::Change));
}

#[test]
fn many_changes_of_one_path_are_told_as_few_and_the_last_is_among_them() {
    let mut scene = Scene::new();
    let mut file = File::create(scene.path("a")).unwrap();
    let began = Instant::now();
    while began.elapsed() < MERGED_WITHIN * 4 {
        file.write_all(b"x").unwrap();
        // Writes of different ticks of the clock, as a program's would be.
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let lasted = began.elapsed();
    drop(file);
    scene.finish();
    let changes = scene.of("a").iter().filter(|kind| **kind == Kind::Change).count() as u128;
    assert!(changes >= 2, "{changes}");
    let most = lasted.as_millis() / MERGED_WITHIN.as_millis() + 3;
    assert!(changes <= most, "{changes} changes in {lasted:?}");
}

#[test]
fn a_change_that_is_held_back_is_told_without_anything_else_happening() {
    let mut scene = Scene::new();
    scene.write("a", "");
    scene.wait(Kind::Create, "a");
    let mut file = OpenOptions::new().append(true).open(scene.path("a")).unwrap();
    file.write_all(b"1").unwrap();
    scene.wait(Kind::Change, "a");
    file.write_all(b"2").unwrap();
    scene.wait(Kind::Change, "a");
    scene.finish();
}

#[test]
fn links_are_told_and_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "1").unwrap();
    let mut scene = Scene::new();
    symlink(outside.path(), scene.path("link")).unwrap();
    symlink("nowhere", scene.path("dangling")).unwrap();
    symlink(".", scene.path("loop")).unwrap();
    scene.wait(Kind::Create, "loop");
    fs::write(outside.path().join("new"), "1").unwrap();
    fs::write(outside.path().join("secret"), "changed").unwrap();
    scene.finish();
    let paths: Vec<_> = scene.events.iter().map(|event| event.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["link", "dangling", "loop"]);
}

#[test]
fn version_control_and_packages_are_left_out_at_any_depth() {
    let mut scene = Scene::with(|root| fs::create_dir(root.join(".git")).unwrap(), |_| {});
    scene.write(".git/index", "1");
    fs::create_dir_all(scene.path("web/node_modules/left-pad")).unwrap();
    scene.write("web/node_modules/left-pad/index.js", "1");
    scene.write("web/.git", "gitdir: elsewhere");
    scene.write("web/index.js", "1");
    fs::rename(scene.path("web"), scene.path("site")).unwrap();
    scene.finish();
    let told = |event: &watch::Event| event.path.to_str().unwrap().ends_with("b/index.js");
    assert!(scene.events.iter().all(|event| told(event) || event.path.starts_with("site")));
    assert_eq!(scene.comings_and_goings("site/index.js"), [Kind::Create]);
}
