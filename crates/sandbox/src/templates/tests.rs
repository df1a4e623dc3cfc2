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
    Addition, Label, Replace, Template, TemplateError, Templates, dev::tests::fake_host,
    import::tests::Tarball, layer::Owners,
};

#[test]
fn opening_makes_dev_once_and_again_when_the_host_changed() {
    let room = Room::new();
    let first = room.open();
    let before = first.get("dev").unwrap();
    let made = before.layers[0].metadata().unwrap().ino();
    assert_eq!(room.open().get("dev").unwrap(), before);
    assert_eq!(before.layers[0].metadata().unwrap().ino(), made);
    assert!(
        before.host_usr() && before.host_usr_layers.as_ref().unwrap()[0].join("local").is_dir()
    );
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

#[test]
fn programs_are_laid_over_dev_and_follow_it_when_the_host_changes() {
    let room = Room::new();
    let templates = room.open();
    let made = room.add(&templates, "claude-code", "base", Replace::Never).unwrap();
    let dev = templates.get("dev").unwrap();
    let over = made.host_usr_layers.clone().unwrap();
    assert_eq!((over.len(), &over[1..]), (2, &dev.host_usr_layers.unwrap()[..]));
    assert_eq!((made.layers, made.memory_mib), (dev.layers, Some(2048)));
    let program = over[0].join("local/bin/agent");
    assert_eq!(fs::read(&program).unwrap(), b"program");
    assert_eq!(program.metadata().unwrap().mode() & 0o7777, 0o755);
    let open = over[0].join("local").metadata().unwrap();
    assert_eq!(open.mode() & 0o7777, 0o777, "as in the base, or `npm` could not install there");
    assert_eq!(room.names(), ["claude-code", "dev"]);

    fs::write(room.host.path().join("var/lib/dpkg/status"), "Package: new\n").unwrap();
    let later = room.open();
    let (dev, after) = (later.get("dev").unwrap(), later.get("claude-code").unwrap());
    assert_eq!(after.layers, dev.layers);
    assert_eq!(after.host_usr_layers.unwrap()[1..], dev.host_usr_layers.unwrap()[..]);
    let info = later.list().unwrap().pop().unwrap();
    assert_eq!((info.label, info.size_bytes), (Label::Harness, 7));
    let addition = info.addition.unwrap();
    assert_eq!(addition.base, "dev");
    let found = Templates::additions_in(&room.directory());
    assert_eq!(found, [("claude-code".to_owned(), addition)]);
}

#[test]
fn templates_can_be_laid_over_each_other_but_not_in_a_circle() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let templates = room.open();
    let source = room.tarball(&Tarball::system().plain());
    templates.import("mine", &source, &mut |_| {}).unwrap();
    room.add(&templates, "one", "mine", Replace::Never).unwrap();
    let two = room.add(&templates, "two", "one", Replace::Never).unwrap();
    let layers = ["two/layer", "one/layer", "mine/rootfs"].map(|path| room.directory().join(path));
    assert_eq!((two.layers, two.host_usr_layers), (layers.to_vec(), None));

    let circle = room.add(&templates, "one", "two", Replace::Harness).unwrap_err();
    let told = "template `one` cannot be laid over `two`, which is laid over it";
    assert_eq!(circle.to_string(), told);
    let used = templates.draft("one", addition("mine"), Replace::Harness, &[row("i1", "two")]);
    assert!(matches!(used, Err(TemplateError::InUse { .. })), "its layers are below");
    let below = templates.remove("mine", &[]).unwrap_err();
    assert_eq!(below.to_string(), "template `mine` is below `one`, `two`; remove them first");
    for name in ["two", "one", "mine"] {
        templates.remove(name, &[]).unwrap();
    }
    assert_eq!(room.names(), ["dev"]);
}

#[test]
fn only_a_template_that_was_made_so_is_replaced_and_none_that_is_in_use() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let templates = room.open();
    room.add(&templates, "codex", "dev", Replace::Never).unwrap();
    let again = room.add(&templates, "codex", "dev", Replace::Never).unwrap_err();
    assert!(matches!(again, TemplateError::Exists(_)), "{again}");
    room.add(&templates, "codex", "dev", Replace::Harness).unwrap();
    let used = templates.draft("codex", addition("dev"), Replace::Harness, &[row("i1", "codex")]);
    assert!(matches!(used, Err(TemplateError::InUse { .. })));
    let source = room.tarball(&Tarball::system().plain());
    templates.import("mine", &source, &mut |_| {}).unwrap();
    let imported = room.add(&templates, "mine", "dev", Replace::Harness).unwrap_err();
    assert!(matches!(imported, TemplateError::Exists(_)), "{imported}");
    let reserved = room.add(&templates, "dev", "base", Replace::Harness).unwrap_err();
    assert!(matches!(reserved, TemplateError::Reserved), "{reserved}");
    drop(templates.draft("codex", addition("dev"), Replace::Harness, &[]).unwrap());
    assert_eq!(room.names(), ["codex", "dev", "mine"], "a draft leaves nothing and takes nothing");
}

fn addition(base: &str) -> Addition {
    let (harness, version, base) = ("codex".to_owned(), "1.0".to_owned(), base.to_owned());
    Addition { harness, version, base, memory_mib: 2048 }
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

    /// A template with one small program over `base`.
    fn add(
        &self,
        templates: &Templates,
        name: &str,
        base: &str,
        replace: Replace,
    ) -> Result<Template, TemplateError> {
        let mut draft = templates.draft(name, addition(base), replace, &[])?;
        fs::write(draft.staging().join("download"), "rubbish").unwrap();
        draft.program("agent", &mut &b"program"[..])?;
        draft.publish()
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
