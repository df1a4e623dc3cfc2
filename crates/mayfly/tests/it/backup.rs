//! A data directory is saved to a file and comes back from it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::program::Program;

#[test]
fn what_is_saved_comes_back_into_an_empty_directory_only() {
    let program = Program::new();
    let made = program.succeed_json(&["keys", "create", "--json"]);
    let blobs = program.path("mayfly-data/blobs/workspace-files/default");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join("a.txt"), "kept").unwrap();
    fs::create_dir_all(program.path("mayfly-data/sandboxes/gone")).unwrap();

    let saved = program.succeed_json(&["backup", "b.tar", "--json"]);
    assert_eq!((&saved["file"], &saved["files"]), (&"b.tar".into(), &2.into()));
    assert_eq!(fs::metadata(program.path("b.tar")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!program.path("b.tar.part").exists() && !program.path("b.tar.rows").exists());

    let said = program.succeed(&["restore", "b.tar", "--data", "new"]);
    assert!(said.starts_with("Restored 2 files"), "{said}");
    let keys = program.succeed_json(&["keys", "list", "--json", "--data", "new"]);
    assert_eq!(keys[0]["id"], made["id"]);
    let kept = program.path("new/blobs/workspace-files/default/a.txt");
    assert_eq!(fs::read_to_string(kept).unwrap(), "kept");
    assert!(!program.path("new/sandboxes").exists());

    let again = program.fail(&["restore", "b.tar", "--data", "new"]);
    assert!(again.contains("`new` is not empty"), "{again}");
}

#[test]
fn what_is_no_backup_or_no_data_is_said() {
    let program = Program::new();
    let nowhere = program.fail(&["backup", "b.tar"]);
    assert!(nowhere.contains("there is no Mayfly data in `./mayfly-data`"), "{nowhere}");
    program.succeed(&["keys", "create"]);
    let unwritable = program.fail(&["backup", "absent/b.tar"]);
    assert!(unwritable.contains("cannot write `absent/b.tar.part`"), "{unwritable}");

    program.write("text.tar", &"no archive ".repeat(100));
    let damaged = program.fail(&["restore", "text.tar", "--data", "new"]);
    assert!(damaged.contains("the backup is cut off or damaged"), "{damaged}");
    let absent = program.fail(&["restore", "absent.tar", "--data", "newer"]);
    assert!(absent.contains("cannot read `absent.tar`"), "{absent}");
    assert!(!program.path("newer").exists());
}
