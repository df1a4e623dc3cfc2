//! Templates from opening to removal, on a made-up host.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use chrono::DateTime;
use store::SandboxRow;
use tempfile::TempDir;
use wire::SandboxId;

use super::{
    Label, TemplateError, Templates, dev::tests::fake_host, import::tests::Tarball, layer::Owners,
};

#[test]
fn opening_makes_dev_once_and_again_when_the_host_changed() {
    let room = Room::new();
    let first = room.open();
    let before = first.get("dev").unwrap();
    let made = before.layers[0].metadata().unwrap().ino();
    assert_eq!(room.open().get("dev").unwrap(), before);
    assert_eq!(before.layers[0].metadata().unwrap().ino(), made);
    assert!(before.host_usr() && before.host_usr_layer.as_ref().unwrap().join("local").is_dir());
    assert_eq!(room.directory().metadata().unwrap().mode() & 0o777, 0o700);

    fs::write(room.host.path().join("var/lib/dpkg/status"), "Package: new\n").unwrap();
    let second = room.open();
    let after = second.get("dev").unwrap();
    assert_ne!(after.layers, before.layers);
    assert!(before.layers[0].is_dir(), "a sandbox may still run on it");
    second.prune(&before.layers).unwrap();
    assert!(before.layers[0].is_dir());
    second.prune(&[]).unwrap();
    assert!(!before.layers[0].exists() && after.layers[0].is_dir());
}

#[test]
fn a_template_is_imported_listed_used_and_removed() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let templates = room.open();
    assert_eq!(templates.get("base").unwrap().name, "dev");
    let source = room.tarball(&Tarball::system().plain());
    let mut calls = 0;
    let made = templates.import("base", &source, &mut |_| calls += 1).unwrap();
    assert!(calls > 0 && !made.host_usr());
    assert_eq!(made.layers, [room.directory().join("base/rootfs")]);
    assert_eq!(templates.get("base").unwrap(), made);
    assert_eq!(templates.get("dev").unwrap().name, "dev");

    let list = templates.list().unwrap();
    let names: Vec<(&str, Label)> =
        list.iter().map(|info| (info.name.as_str(), info.label)).collect();
    assert_eq!(names, [("dev", Label::Dev), ("base", Label::Imported)]);
    assert!(list.iter().all(|info| info.size_bytes > 0 && info.layers == 1));
    assert_eq!(list[1].defaults.workdir, "/home/user");

    let again = templates.import("base", &source, &mut |_| {}).unwrap_err();
    assert!(matches!(again, TemplateError::Exists(_)), "{again}");
    let refused = templates.remove("base", &[row("i1", "dev"), row("i2", "base")]).unwrap_err();
    assert_eq!(refused.to_string(), "template `base` is in use by `i2`; end them first");
    assert!(made.layers[0].is_dir());
    templates.remove("base", &[row("i1", "dev")]).unwrap();
    assert_eq!(room.names(), ["dev"]);
    assert_eq!(templates.get("base").unwrap().name, "dev");
    assert!(matches!(templates.remove("base", &[]), Err(TemplateError::Unknown(_))));
}

#[test]
fn a_failed_import_leaves_nothing() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let templates = room.open();
    let whole = Tarball::system().plain();
    let source = room.tarball(&whole[..whole.len() / 3]);
    let error = templates.import("mine", &source, &mut |_| {}).unwrap_err();
    assert!(matches!(error, TemplateError::Import(_)), "{error}");
    assert_eq!(room.names(), ["dev"]);
    assert!(matches!(templates.get("mine"), Err(TemplateError::Unknown(_))));
}

#[test]
fn two_changes_at_once_are_refused_and_leftovers_are_swept() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let templates = room.open();
    let source = room.tarball(&Tarball::system().plain());
    let mut refused = false;
    let other = room.open();
    templates
        .import("mine", &source, &mut |_| {
            refused = matches!(other.remove("mine", &[]), Err(TemplateError::Busy));
            // Whoever opens meanwhile must not take the half-made one for rubbish.
            room.open();
        })
        .unwrap();
    assert!(refused);
    for leftover in ["lost.partial", "old.removed"] {
        fs::create_dir(room.directory().join(leftover)).unwrap();
    }
    room.open();
    assert_eq!(room.names(), ["dev", "mine"]);
}

#[test]
fn a_leftover_of_any_depth_is_swept() {
    let room = Room::new();
    room.open();
    // Built from the bottom: a path to its end would be too long to name.
    let (leftover, next) = (room.directory().join("deep.partial"), room.data.path().join("next"));
    fs::create_dir(&leftover).unwrap();
    for _ in 0..5_000 {
        fs::create_dir(&next).unwrap();
        fs::rename(&leftover, next.join("inner")).unwrap();
        fs::rename(&next, &leftover).unwrap();
    }
    room.open();
    assert_eq!(room.names(), ["dev"]);
}

#[test]
fn dev_is_neither_imported_nor_removed_and_a_bad_name_is_nobodys() {
    let room = Room::new();
    let templates = room.open();
    let source = Path::new("/nowhere");
    assert!(matches!(templates.remove("dev", &[]), Err(TemplateError::Reserved)));
    let import = |name| templates.import(name, source, &mut |_| {});
    assert!(matches!(import("dev"), Err(TemplateError::Reserved)));
    for name in ["", "..", "a/b", "dev.partial", "Base"] {
        assert!(matches!(templates.get(name), Err(TemplateError::Name(_))), "{name}");
        assert!(matches!(templates.remove(name, &[]), Err(TemplateError::Name(_))), "{name}");
        assert!(matches!(import(name), Err(TemplateError::Name(_))), "{name}");
    }
    assert!(matches!(templates.get("other"), Err(TemplateError::Unknown(_))));
}

/// Says so when a test has to be left out.
pub(super) fn is_root() -> bool {
    let root = Owners::possible() == Owners::AsGiven;
    if !root {
        println!("skipped: owners of files can only be set by root");
    }
    root
}

/// A sandbox that lives.
fn row(id: &str, template: &str) -> SandboxRow {
    SandboxRow {
        id: SandboxId::parse(id).unwrap(),
        team: "team".to_owned(),
        template: template.to_owned(),
        tier: "native".to_owned(),
        metadata: BTreeMap::new(),
        started_at: DateTime::UNIX_EPOCH,
        deadline: DateTime::UNIX_EPOCH,
        network: "\"none\"".to_owned(),
        ended_at: None,
        end_reason: None,
    }
}

struct Room {
    host: TempDir,
    data: TempDir,
}

impl Room {
    fn new() -> Room {
        Room { host: fake_host(), data: tempfile::tempdir().unwrap() }
    }

    fn directory(&self) -> PathBuf {
        self.data.path().join("templates")
    }

    fn open(&self) -> Templates {
        Templates::open_on(self.directory(), self.host.path()).unwrap()
    }

    fn tarball(&self, content: &[u8]) -> PathBuf {
        let path = self.data.path().join("source.tar");
        fs::write(&path, content).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
