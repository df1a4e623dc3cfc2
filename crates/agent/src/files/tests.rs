//! Files of a run, with the real `git`, in directories of the test's own.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use wire::agent::FileEvents;
use wire::run::{AgentLine, Event, FileChange, Level};

use super::Files;
use super::baseline::Baseline;
use crate::emit::Emitter;
use crate::session::Session;

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A home with a workspace in it.
struct Scene {
    home: TempDir,
    file_events: FileEvents,
}

/// What was told.
struct Told(Vec<Event>);

impl Scene {
    fn new() -> Scene {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("work/assets")).unwrap();
        Scene { home, file_events: FileEvents::On }
    }

    /// A workspace that is a repository with a commit.
    fn repository() -> Scene {
        let scene = Scene::new();
        scene.write("tracked", "one\n");
        scene.write(".gitignore", "*.log\n");
        scene.git(&["init", "-q"]);
        scene.git(&["add", "-A"]);
        scene.commit("first");
        scene
    }

    fn work(&self) -> std::path::PathBuf {
        self.home.path().join("work")
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn git(&self, args: &[&str]) -> String {
        git_in(&self.work(), args)
    }

    /// Runs a line of shell in the workspace.
    #[track_caller]
    fn shell(&self, line: &str) {
        let mut shell = Command::new("sh");
        assert!(shell.args(["-ec", line]).current_dir(self.work()).status().unwrap().success());
    }

    /// A repository in the workspace's, which knows it as a link to a commit.
    fn with_submodule() -> Scene {
        let scene = Scene::repository();
        scene.write("sub/f", "one\n");
        scene.write("sub/gone", "one\n");
        git_in(&scene.work().join("sub"), &["init", "-q"]);
        git_in(&scene.work().join("sub"), &["add", "-A"]);
        git_in(&scene.work().join("sub"), &["commit", "-q", "-m", "x"]);
        scene.git(&["add", "sub"]);
        scene.commit("sub");
        assert!(scene.git(&["ls-files", "--stage", "sub"]).starts_with("160000"));
        scene
    }

    fn commit(&self, message: &str) {
        self.git(&["commit", "-q", "-m", message]);
    }

    /// A run in which this happens.
    fn run(&self, deeds: impl FnOnce(&Scene)) -> Told {
        let kept = Kept::default();
        let out = Emitter::to(kept.clone());
        let mut session = Session::for_test(self.home.path(), &self.work());
        session.file_events = self.file_events;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let files = Files::begin(&session, &out).await;
            deeds(self);
            files.finish(&out).await;
        });
        let bytes = kept.0.lock().unwrap().clone();
        let lines = String::from_utf8(bytes).unwrap();
        let event = |line| serde_json::from_str::<AgentLine>(line).unwrap().event;
        Told(lines.lines().map(event).collect())
    }
}

fn git_in(directory: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    let output = Command::new("git")
        .args(who)
        .args(args)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Told {
    fn customs(&self, wanted: &str) -> Vec<&Value> {
        let mut found = Vec::new();
        for event in &self.0 {
            if let Event::Custom { name, value } = event
                && name == wanted
            {
                found.push(value);
            }
        }
        found
    }

    /// The whole difference, of which there has to be one, as the last event.
    #[track_caller]
    fn changed(&self) -> &Value {
        let found = self.customs("file.changed");
        assert_eq!(found.len(), 1, "{:?}", self.0);
        assert!(
            matches!(self.0.last(), Some(Event::Custom { name, .. }) if name == "file.changed")
        );
        assert_eq!(found[0]["path"], ".");
        found[0]
    }

    #[track_caller]
    fn diff(&self) -> &str {
        let changed = self.changed();
        assert_eq!(changed.get("truncated"), None);
        changed["diff"].as_str().unwrap()
    }

    fn files(&self) -> Vec<(FileChange, &str)> {
        let mut found = Vec::new();
        for event in &self.0 {
            if let Event::File { change, path } = event {
                found.push((*change, path.as_str()));
            }
        }
        found
    }

    /// The last difference of a single file.
    #[track_caller]
    fn last_diff(&self, path: &str) -> &str {
        let found = self.customs("sandbox.file.diff");
        let last = found.iter().rfind(|value| value["path"] == path);
        last.unwrap_or_else(|| panic!("no {path} in {:?}", self.0))["diff"].as_str().unwrap()
    }

    fn warnings(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for event in &self.0 {
            if let Event::Log { level: Level::Warn, message } = event {
                found.push(message.as_str());
            }
        }
        found
    }
}

/// The paths that a difference is about.
fn paths(diff: &str) -> Vec<&str> {
    let heads = diff.lines().filter_map(|line| line.strip_prefix("diff --git a/"));
    heads.map(|head| head.split(" b/").next().unwrap()).collect()
}

#[test]
fn a_run_that_leaves_an_empty_workspace_empty_says_nothing_and_starts_nothing() {
    let scene = Scene::new();
    let told = scene.run(|scene| fs::create_dir(scene.work().join("empty")).unwrap());
    assert_eq!(told.0, []);
    assert!(!scene.home.path().join(".mayfly").exists());
}

#[test]
fn files_of_an_empty_workspace_are_told_and_are_all_of_the_difference() {
    let scene = Scene::new();
    let told = scene.run(|scene| {
        scene.write("a.txt", "hello\n");
        scene.write("assets/b.txt", "there\n");
        scene.write("gone", "x");
        fs::remove_file(scene.work().join("gone")).unwrap();
        scene.write("node_modules/p/index.js", "x");
    });
    let files = told.files();
    assert!(files.contains(&(FileChange::Create, "a.txt")), "{files:?}");
    assert!(files.contains(&(FileChange::Create, "assets/b.txt")), "{files:?}");
    assert!(files.contains(&(FileChange::Delete, "gone")), "{files:?}");
    assert!(files.iter().all(|(_, path)| !path.contains("node_modules")));
    assert_eq!(paths(told.diff()), ["a.txt", "assets/b.txt"]);
    assert!(told.diff().contains("new file mode 100644"));
    assert!(told.diff().contains("\n+hello\n"));
    assert_eq!(told.warnings(), Vec::<&str>::new());
}

#[test]
fn a_repository_is_compared_with_the_commit_of_the_start_and_is_not_touched() {
    let scene = Scene::repository();
    scene.write("staged", "by the user\n");
    scene.git(&["add", "staged"]);
    let index = fs::read(scene.work().join(".git/index")).unwrap();
    let objects = scene.git(&["count-objects"]);
    let told = scene.run(|scene| {
        scene.write("tracked", "one\ntwo\n");
        scene.write("new/file", "new\n");
        scene.write("noise.log", "ignored\n");
    });
    assert_eq!(paths(told.diff()), ["new/file", "staged", "tracked"]);
    assert!(told.diff().contains("\n one\n+two\n"), "{}", told.diff());
    assert_eq!(fs::read(scene.work().join(".git/index")).unwrap(), index);
    assert_eq!(scene.git(&["count-objects"]), objects);
    // The event of an ignored file is told all the same.
    assert!(told.files().contains(&(FileChange::Create, "noise.log")));
}

#[test]
fn what_the_agent_commits_is_in_the_difference() {
    let scene = Scene::repository();
    let told = scene.run(|scene| {
        scene.write("tracked", "two\n");
        scene.git(&["mv", "tracked", "renamed"]);
        scene.write("more", "more\n");
        scene.git(&["add", "-A"]);
        scene.commit("second");
        scene.write("after", "after\n");
        scene.git(&["gc", "-q", "--prune=now"]);
    });
    assert_eq!(paths(told.diff()), ["after", "more", "renamed", "tracked"]);
    let unchanged = scene.run(|_| {});
    assert_eq!(paths(unchanged.diff()), ["after"]);
}

#[test]
fn a_clean_repository_in_which_nothing_happens_has_no_difference() {
    let scene = Scene::repository();
    assert_eq!(scene.run(|_| {}).0, []);
    // Neither has one whose files were only touched.
    let told = scene.run(|scene| scene.write("tracked", "one\n"));
    assert_eq!(told.customs("file.changed"), Vec::<&Value>::new());
}

#[test]
fn without_a_repository_the_files_of_the_start_are_the_baseline() {
    let scene = Scene::new();
    scene.write("kept", "same\n");
    scene.write("edited", "before\n");
    scene.write("gone", "going\n");
    scene.write(".gitignore", "secret\n");
    let told = scene.run(|scene| {
        scene.write("edited", "after\n");
        fs::remove_file(scene.work().join("gone")).unwrap();
        scene.write("secret", "ignored\n");
        symlink("kept", scene.work().join("link")).unwrap();
    });
    assert_eq!(paths(told.diff()), ["edited", "gone", "link"]);
    assert!(told.diff().contains("-before\n+after\n"));
    assert!(told.diff().contains("new file mode 120000"));
    assert!(!scene.work().join(".git").exists());
    assert_eq!(scene.run(|_| {}).0, [], "nothing is left of the run before");
}

#[test]
fn a_repository_without_a_commit_has_a_baseline_too() {
    let scene = Scene::new();
    scene.git(&["init", "-q"]);
    scene.write("before", "1\n");
    let told = scene.run(|scene| {
        scene.write("after", "2\n");
        scene.git(&["add", "-A"]);
        scene.commit("first");
    });
    assert_eq!(paths(told.diff()), ["after"]);
}

#[test]
fn repositories_below_the_workspace_are_directories_like_any_other() {
    let scene = Scene::new();
    let told = scene.run(|scene| {
        for name in ["clone", "deep/unborn"] {
            let place = scene.work().join(name);
            fs::create_dir_all(&place).unwrap();
            git_in(&place, &["init", "-q"]);
            fs::write(place.join("file"), "1\n").unwrap();
            fs::write(place.join(".gitignore"), "ignored\n").unwrap();
            fs::write(place.join("ignored"), "1\n").unwrap();
        }
        git_in(&scene.work().join("clone"), &["add", "-A"]);
        git_in(&scene.work().join("clone"), &["commit", "-q", "-m", "x"]);
    });
    let expected = ["clone/.gitignore", "clone/file", "deep/unborn/.gitignore", "deep/unborn/file"];
    assert_eq!(paths(told.diff()), expected);
}

#[test]
fn binary_files_are_told_as_git_tells_them_and_large_ones_are_not_copied() {
    let scene = Scene::new();
    let told = scene.run(|scene| {
        fs::write(scene.work().join("binary"), b"\0\x01\xff").unwrap();
        let large = fs::File::create(scene.work().join("large")).unwrap();
        large.set_len(40 << 20).unwrap();
    });
    assert_eq!(paths(told.diff()), ["binary", "large"]);
    assert!(told.diff().contains("Binary files /dev/null and b/binary differ"));
    assert!(told.diff().contains("Binary files /dev/null and b/large differ"));
}

#[test]
fn what_was_too_large_or_too_much_at_the_start_is_not_new_at_the_end() {
    let scene = Scene::new();
    let sized = |scene: &Scene, name: &str, size: u64| {
        fs::File::create(scene.work().join(name)).unwrap().set_len(size).unwrap();
    };
    for name in ["a", "b", "c", "d"] {
        sized(&scene, name, 30 << 20);
    }
    sized(&scene, "large", 40 << 20);
    let told = scene.run(|scene| {
        sized(scene, "c", 10);
        sized(scene, "large", 10);
    });
    let expected = ["c", "large"].map(|name| {
        format!("diff --git a/{name} b/{name}\nBinary files a/{name} and b/{name} differ\n")
    });
    assert_eq!(told.diff(), expected.concat());
}

#[tokio::test]
async fn a_file_that_is_compared_all_day_does_not_fill_the_disk() {
    let scene = Scene::new();
    scene.write("other", "1\n");
    let (work, path) = (scene.work(), std::path::PathBuf::from("log"));
    let baseline = Baseline::take(&work, scene.home.path()).await.unwrap();
    for number in 0..20 {
        scene.write("log", &format!("{number}{}", "x".repeat(8 << 20)));
        let found = baseline.differences(std::slice::from_ref(&path), 100).await.unwrap().found;
        assert!(found[0].1.text.contains("new file"), "{found:?}");
    }
    let mut shell = Command::new("du");
    let output = shell.arg("-sm").arg(scene.home.path().join(".mayfly")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mebibytes: u64 = text.split_whitespace().next().unwrap().parse().unwrap();
    assert!((8..100).contains(&mebibytes), "{text}");
}

#[test]
fn a_huge_difference_is_cut_at_a_line_and_says_so() {
    let scene = Scene::new();
    let told = scene.run(|scene| scene.write("huge", &"\"a line\"\n".repeat(400_000)));
    let changed = told.changed();
    assert_eq!(changed["truncated"], true);
    let diff = changed["diff"].as_str().unwrap();
    assert!(diff.ends_with("+\"a line\"\n"));
    let encoded = serde_json::to_vec(changed).unwrap().len();
    assert!((1_000_000..=1 << 20).contains(&encoded), "{encoded}");
}

#[test]
fn programs_of_a_repository_do_not_run() {
    let scene = Scene::repository();
    let trap = scene.home.path().join("trap");
    let program = scene.home.path().join("program");
    fs::write(&program, format!("#!/bin/sh\necho $0 $* >> {}\ncat\n", trap.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    scene.write(".gitattributes", "* filter=evil diff=evil\n");
    let path = program.to_str().unwrap();
    for name in ["filter.evil.clean", "diff.evil.textconv", "diff.external", "core.fsmonitor"] {
        scene.git(&["config", name, path]);
    }
    let told = scene.run(|scene| scene.write("tracked", "two\n"));
    assert_eq!(paths(told.diff()), [".gitattributes", "tracked"]);
    assert!(!trap.exists(), "{}", fs::read_to_string(&trap).unwrap());
}

#[test]
fn an_index_that_nobody_could_read_to_its_end_is_made_up() {
    let ours = "mkfifo ../../.mayfly/baseline/index; git read-tree HEAD";
    for trap in ["mkfifo index", "ln -s /dev/zero index", "truncate -s 1T index", ours] {
        let scene = Scene::repository();
        let told = scene.run(|scene| {
            scene.write("tracked", "two\n");
            let trap = format!("rm index; {trap}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &trap]).current_dir(scene.work().join(".git"));
            assert!(shell.status().unwrap().success(), "{trap}");
        });
        assert_eq!(paths(told.diff()), ["tracked"], "{trap}");
    }
}

#[test]
fn git_may_warn_of_every_file() {
    let scene = Scene::repository();
    scene.write(".gitattributes", "* text=auto\n");
    let told = scene.run(|scene| {
        for number in 0..2000 {
            scene.write(&format!("{number}-{}", "long".repeat(20)), "one\r\ntwo\r\n");
        }
    });
    assert_eq!(told.warnings(), Vec::<&str>::new());
    assert_eq!(paths(told.diff()).len(), 2001);
}

#[test]
fn a_repository_that_is_thrown_away_is_a_warning() {
    let scene = Scene::repository();
    let told = scene.run(|scene| fs::remove_dir_all(scene.work().join(".git")).unwrap());
    assert_eq!(told.customs("file.changed"), Vec::<&Value>::new());
    assert_eq!(told.warnings().len(), 1, "{:?}", told.warnings());
}

#[test]
fn without_events_there_is_still_a_difference() {
    let mut scene = Scene::new();
    scene.file_events = FileEvents::Off;
    let told = scene.run(|scene| scene.write("a", "1\n"));
    assert_eq!(told.files(), []);
    assert_eq!(paths(told.diff()), ["a"]);
}

#[test]
fn each_file_has_its_own_difference_when_that_is_asked_for() {
    let mut scene = Scene::repository();
    scene.file_events = FileEvents::Diff;
    let long = "a line\n".repeat(20_000);
    let told = scene.run(|scene| {
        scene.write("tracked", "two\n");
        scene.write("x y/ä", "new\n");
        scene.write("noise.log", "ignored\n");
        scene.write("long", &long);
        scene.write("passing", "1\n");
        fs::remove_file(scene.work().join("passing")).unwrap();
    });
    let found = told.customs("sandbox.file.diff");
    let last = |path: &str| {
        found.iter().rfind(|value| value["path"] == path).unwrap_or_else(|| panic!("{found:?}"))
    };
    assert!(last("tracked")["diff"].as_str().unwrap().ends_with("-one\n+two\n"));
    assert!(last("x y/ä")["diff"].as_str().unwrap().ends_with("+new\n"));
    assert_eq!(last("noise.log")["diff"], "");
    assert_eq!(last("passing")["diff"], "");
    assert_eq!(last("long")["truncated"], true);
    assert!(last("long")["diff"].as_str().unwrap().len() <= 64 << 10);
    assert_eq!(paths(told.diff()), ["long", "tracked", "x y/ä"]);
}

#[test]
fn many_files_have_their_differences_in_an_empty_workspace_too() {
    let mut scene = Scene::new();
    scene.file_events = FileEvents::Diff;
    let told = scene.run(|scene| {
        for number in 0..500 {
            scene.write(&format!("d{}/{number}", number % 7), &format!("{number}\n"));
        }
    });
    let found = told.customs("sandbox.file.diff");
    for number in 0..500 {
        let path = format!("d{}/{number}", number % 7);
        let value = found.iter().rfind(|value| value["path"] == path.as_str()).unwrap();
        assert!(value["diff"].as_str().unwrap().ends_with(&format!("+{number}\n")), "{value}");
    }
}

#[test]
fn a_path_that_git_cannot_name_costs_no_other_file_its_difference() {
    let mut scene = Scene::repository();
    scene.file_events = FileEvents::Diff;
    scene.write("d/tracked", "one\n");
    scene.git(&["add", "-A"]);
    scene.commit("second");
    let told = scene.run(|scene| {
        scene.shell("echo x > d/x; echo new > other; mv d e; ln -s e d");
        scene.shell("echo y > ':(exclude)y'; echo z > '*'; echo n > ':(nonsense'");
    });
    assert_eq!(told.warnings(), Vec::<&str>::new());
    assert!(told.last_diff("other").ends_with("+new\n"));
    assert!(told.last_diff(":(exclude)y").ends_with("+y\n"));
    assert!(told.last_diff(":(nonsense").ends_with("+n\n"));
    assert!(told.last_diff("*").ends_with("+z\n"));
    assert!(told.last_diff("d").contains("new file mode 120000"));
    assert!(told.last_diff("d/tracked").contains("deleted file"));
    assert!(told.last_diff("e/x").ends_with("+x\n"));
}

#[test]
fn a_file_that_makes_way_for_a_directory_or_a_pipe_is_deleted() {
    let mut scene = Scene::repository();
    scene.file_events = FileEvents::Diff;
    scene.write("f", "one\n");
    scene.git(&["add", "-A"]);
    scene.commit("second");
    let told = scene.run(|scene| {
        scene.shell("rm f tracked; mkdir f; echo i > f/i; mkfifo tracked");
    });
    assert!(told.last_diff("f").contains("deleted file"));
    assert!(told.last_diff("tracked").contains("deleted file"));
    assert!(told.last_diff("f/i").ends_with("+i\n"));
}

#[test]
fn files_of_a_submodule_are_compared_with_those_of_the_start() {
    let mut scene = Scene::with_submodule();
    assert_eq!(scene.run(|_| {}).0, []);
    scene.file_events = FileEvents::Diff;
    let told = scene.run(|scene| {
        scene.shell("echo two > sub/f; rm sub/gone; echo new > sub/new; echo other > other");
    });
    assert_eq!(told.warnings(), Vec::<&str>::new());
    assert_eq!(paths(told.diff()), ["other", "sub/f", "sub/gone", "sub/new"]);
    assert!(told.diff().contains("-one\n+two\n"), "{}", told.diff());
    assert!(told.last_diff("sub/f").ends_with("-one\n+two\n"));
    assert!(told.last_diff("other").ends_with("+other\n"));
}

#[test]
fn a_repository_that_becomes_a_submodule_is_told_by_its_files() {
    let scene = Scene::repository();
    let told = scene.run(|scene| {
        scene.write("clone/file", "1\n");
        git_in(&scene.work().join("clone"), &["init", "-q"]);
        git_in(&scene.work().join("clone"), &["add", "-A"]);
        git_in(&scene.work().join("clone"), &["commit", "-q", "-m", "x"]);
        scene.git(&["add", "clone"]);
        scene.commit("clone");
    });
    assert_eq!(paths(told.diff()), ["clone/file"]);
}

#[test]
fn a_file_that_git_fails_for_is_left_out_by_its_name_and_no_other_is() {
    for tracked in [true, false] {
        let mut scene = Scene::repository();
        scene.file_events = FileEvents::Diff;
        if tracked {
            scene.write("a.txt", "plain\n");
            scene.git(&["add", "-A"]);
            scene.commit("plain");
        }
        let told = scene.run(|scene| {
            scene.write(".gitattributes", "*.txt working-tree-encoding=UTF-16\n");
            scene.write("a.txt", "still plain\n");
            scene.write("tracked", "two\n");
            for number in 0..20 {
                scene.write(&format!("new-{number}"), "new\n");
            }
        });
        let found = paths(told.diff());
        assert_eq!(found.len(), 22, "{found:?}");
        assert!(!found.contains(&"a.txt") && found.contains(&"tracked"));
        let warnings = told.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("`sandbox.file.diff` of `a.txt` is not told: "));
        assert!(warnings[1].starts_with("`file.changed` leaves out `a.txt`: "), "{warnings:?}");
        assert!(told.last_diff("new-7").ends_with("+new\n"));
    }
}

#[test]
fn a_file_that_git_failed_for_at_the_start_is_not_new_at_the_end() {
    let scene = Scene::new();
    scene.write(".gitattributes", "*.txt working-tree-encoding=UTF-16\n");
    scene.write("a.txt", "plain\n");
    scene.write("b.txt", "plain\n");
    let told = scene.run(|scene| {
        scene.write(".gitattributes", "");
        scene.write("b.txt", "changed\n");
    });
    assert_eq!(paths(told.diff()), [".gitattributes", "b.txt"]);
    assert_eq!(told.warnings().len(), 2, "{:?}", told.warnings());
}

#[test]
fn what_a_git_that_was_killed_leaves_behind_stops_no_other() {
    let mut scene = Scene::repository();
    scene.file_events = FileEvents::Diff;
    let told = scene.run(|scene| {
        let ours = scene.home.path().join(".mayfly/baseline");
        fs::write(ours.join("index.lock"), "").unwrap();
        fs::write(ours.join("files-index.lock"), "").unwrap();
        scene.write("tracked", "two\n");
    });
    assert_eq!(paths(told.diff()), ["tracked"]);
    assert!(told.last_diff("tracked").ends_with("-one\n+two\n"));
}

#[test]
fn repositories_beyond_those_that_count_are_a_warning() {
    let scene = Scene::new();
    let told = scene.run(|scene| {
        scene.git(&["init", "-q", "r0"]);
        scene.shell("for n in $(seq 70); do cp -r r0 r$n; echo 1 > r$n/file; done");
    });
    let changed = told.changed();
    assert_eq!(changed["truncated"], true);
    assert!((63..=64).contains(&paths(changed["diff"].as_str().unwrap()).len()));
    assert_eq!(told.warnings().len(), 1, "{:?}", told.warnings());
    assert!(told.warnings()[0].contains("more than 64 repositories"));
}
