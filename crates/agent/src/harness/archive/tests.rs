//! Sessions that go to the host and come back.

use std::fs::{self, File};
use std::io::{Cursor, Seek, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use wire::agent::Harness;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Session, is_id, pack, place, place_all};

fn archive(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn session(home: &Path, harness: Harness) -> Session {
    let mut session = Session::for_test(home, home);
    session.harness = harness;
    session
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_session_comes_back_to_its_place_in_another_home() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = PathBuf::from(".codex/sessions/2026/11/16/rollout-x-id.jsonl");
    write(&old.path().join(&file), "{}\n");
    let packed = pack(old.path(), &[old.path().join(&file)]).unwrap().unwrap();
    let session = session(new.path(), Harness::Codex);
    assert_eq!(place_all(&session, "id", &archive(&packed)).unwrap(), 1);
    assert_eq!(fs::read_to_string(new.path().join(&file)).unwrap(), "{}\n");
    assert!(!new.path().join(".mayfly/session").exists());
}

#[test]
fn links_and_files_from_elsewhere_are_not_kept() {
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let secret = elsewhere.path().join("secret");
    write(&secret, "secret");
    let link = home.path().join("link");
    symlink(&secret, &link).unwrap();
    let missing = home.path().join("missing");
    let files = [link, secret, missing, home.path().to_owned()];
    assert_eq!(pack(home.path(), &files).unwrap(), None);
}

#[test]
fn nothing_but_the_session_is_written_when_it_comes_back() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let file = ".codex/sessions/2026/11/16/rollout-x-id.jsonl";
    let other = ".codex/sessions/2026/11/16/rollout-x-other.jsonl";
    for name in [".bashrc", ".codex/config.toml", other, file] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(b"x").unwrap();
    }
    let packed = writer.finish().unwrap().into_inner();
    let session = session(home.path(), Harness::Codex);
    assert_eq!(place_all(&session, "id", &archive(&packed)).unwrap(), 1);
    assert!(home.path().join(file).exists());
    assert!(!home.path().join(other).exists());
    assert!(!home.path().join(".bashrc").exists());
    assert!(!home.path().join(".codex/config.toml").exists());
}

#[test]
fn every_harness_has_files_of_its_own_and_no_others() {
    let check = |harness: Harness, kept: &str, expected: bool| {
        let session = session(Path::new("/root"), harness);
        assert_eq!(place(&session, "id", Path::new(kept)).is_some(), expected, "{kept}");
    };
    check(Harness::ClaudeCode, ".claude/projects/-w/id.jsonl", true);
    check(Harness::ClaudeCode, ".claude/settings.json", false);
    check(Harness::Codex, ".codex/sessions/2026/11/16/rollout-1-id.jsonl", true);
    check(Harness::Codex, ".codex/sessions/2026/11/16/rollout-1-other.jsonl", false);
    check(Harness::Codex, ".codex/sessions2/2026/11/16/rollout-1-id.jsonl", false);
    check(Harness::Opencode, ".local/share/opencode/opencode.db", true);
    check(Harness::Opencode, ".local/share/opencode/opencode.db-wal", true);
    check(Harness::Opencode, ".local/share/opencode/auth.json", false);
    check(Harness::Opencode, ".local/share/opencode/bin/rg", false);
    check(Harness::GrokBuild, ".grok/sessions/w/id/summary.json", true);
    check(Harness::GrokBuild, ".grok/sessions/w/other/summary.json", false);
    check(Harness::GrokBuild, ".grok/config.toml", false);
    check(Harness::Builtin, ".codex/sessions/a.jsonl", false);
}

#[test]
fn an_id_is_safe_in_a_path() {
    for good in ["a", "0b9c-4f", "ses_1.2", &"a".repeat(128)] {
        assert!(is_id(good), "{good}");
    }
    for bad in ["", ".", "..", ".a", "-a", "--help", "a/b", "a b", "ä", "a\n", &"a".repeat(129)] {
        assert!(!is_id(bad), "{bad:?}");
    }
}
