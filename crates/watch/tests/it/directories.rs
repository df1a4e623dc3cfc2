//! What becomes of files when their directories come, move and go.

use std::fs;

use watch::Kind;

use crate::fold::Scene;

#[test]
fn files_in_a_new_directory_are_told_however_fast_they_come() {
    let mut scene = Scene::new();
    for round in 0..50 {
        let deep = scene.path(&format!("{round}/a/b/c"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "1").unwrap();
        fs::write(deep.join("../file"), "1").unwrap();
    }
    scene.wait(Kind::Create, "49/a/b/file");
    // Later ones too: the directories are watched by now.
    scene.write("0/a/b/c/later", "1");
    scene.wait(Kind::Create, "0/a/b/c/later");
    scene.finish();
    assert_eq!(scene.files.len(), 101);
}

#[test]
fn a_directory_that_moves_takes_its_files_along() {
    let prepare = |root: &std::path::Path| {
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/one"), "1").unwrap();
        fs::write(root.join("a/b/two"), "2").unwrap();
    };
    let mut scene = Scene::with(prepare, |_| {});
    fs::rename(scene.path("a"), scene.path("z")).unwrap();
    scene.wait(Kind::Create, "z/one");
    assert_eq!(scene.of("a/one"), [Kind::Delete]);
    assert_eq!(scene.of("a/b/two"), [Kind::Delete]);
    // Its watches stand for the new path.
    scene.write("z/b/three", "3");
    scene.wait(Kind::Create, "z/b/three");
    // And a new one of the old name is another.
    fs::create_dir(scene.path("a")).unwrap();
    scene.write("a/one", "1");
    scene.wait(Kind::Create, "a/one");
    fs::write(scene.path("z/one"), "changed").unwrap();
    scene.wait(Kind::Change, "z/one");
    scene.finish();
}

#[test]
fn directories_that_change_places_are_not_confused() {
    let prepare = |root: &std::path::Path| {
        for name in ["a", "b"] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join(name), name).unwrap();
        }
    };
    let mut scene = Scene::with(prepare, |_| {});
    for _ in 0..25 {
        fs::rename(scene.path("a"), scene.path("c")).unwrap();
        fs::rename(scene.path("b"), scene.path("a")).unwrap();
        fs::rename(scene.path("c"), scene.path("b")).unwrap();
    }
    scene.write("a/new", "1");
    scene.wait(Kind::Create, "a/new");
    scene.write("b/new", "1");
    scene.wait(Kind::Create, "b/new");
    scene.finish();
}

#[test]
fn a_directory_that_leaves_the_tree_is_forgotten_and_one_that_comes_in_is_found() {
    let outside = tempfile::tempdir().unwrap();
    let mut scene = Scene::new();
    fs::create_dir_all(scene.path("d/e")).unwrap();
    scene.write("d/e/file", "1");
    scene.wait(Kind::Create, "d/e/file");
    fs::rename(scene.path("d"), outside.path().join("d")).unwrap();
    scene.wait(Kind::Delete, "d/e/file");
    // Nothing is said of what happens outside.
    scene.write("mark", "1");
    scene.wait(Kind::Create, "mark");
    fs::write(outside.path().join("d/e/other"), "1").unwrap();
    fs::rename(outside.path().join("d"), scene.path("back")).unwrap();
    scene.wait(Kind::Create, "back/e/file");
    fs::remove_dir_all(scene.path("back")).unwrap();
    scene.wait(Kind::Delete, "back/e/file");
    scene.finish();
    assert_eq!(scene.of("d/e/other"), []);
}

#[test]
fn a_file_that_becomes_a_directory_and_back_is_followed() {
    let mut scene = Scene::new();
    for _ in 0..20 {
        scene.write("x", "1");
        fs::remove_file(scene.path("x")).unwrap();
        fs::create_dir(scene.path("x")).unwrap();
        scene.write("x/y", "1");
        fs::remove_dir_all(scene.path("x")).unwrap();
    }
    scene.write("x", "1");
    scene.finish();
    assert_eq!(scene.files.len(), 1);
}

#[test]
fn a_root_that_is_replaced_is_watched_again_even_while_somebody_stays_in_the_old_one() {
    let mut scene = Scene::new();
    let root = scene.root().to_owned();
    scene.write("old", "1");
    scene.wait(Kind::Create, "old");
    // An open descriptor keeps the old directory, as a process in it would.
    let held = fs::File::open(&root).unwrap();
    fs::remove_dir_all(&root).unwrap();
    fs::create_dir(&root).unwrap();
    fs::write(root.join("new"), "1").unwrap();
    scene.wait(Kind::Create, "new");
    fs::write(root.join("newer"), "1").unwrap();
    scene.wait(Kind::Create, "newer");
    drop(held);
    scene.finish();
    assert_eq!(scene.comings_and_goings("old"), [Kind::Create, Kind::Delete]);
}
