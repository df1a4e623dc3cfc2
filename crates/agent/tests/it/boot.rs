//! Skills, bag and setup script: what lies on disk before the first model call.

use std::fs;
use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use wire::run::{ErrorCode, Event};

use crate::host::{Host, Reply};
use crate::program::Agent;
use crate::zips::{sha256, zip, zip_of_link};

fn attach(host: &Host, id: &str, bytes: &[u8], version: &str) -> Value {
    let path = format!("/skills/{id}/{version}");
    host.on(&format!("GET {path}"), Reply::Bytes(bytes.to_vec()));
    json!({"id": id, "version": version, "url": format!("{}{path}", host.link)})
}

fn with_bag(host: &Host, reply: Reply) {
    host.config(json!({"assets": {"url": format!("{}/assets", host.link)}}));
    host.on("GET /assets", reply);
}

#[test]
fn a_skill_is_on_disk_under_its_version_and_fetched_once() {
    let host = Host::new();
    let bytes = zip(&[("SKILL.md", b"# One"), ("recipes/add.sh", b"echo 1")]);
    let version = sha256(&bytes);
    let skill = attach(&host, "one", &bytes, &version.to_uppercase());
    let lowercase = attach(&host, "one", &bytes, &version);
    host.config(json!({"skills": [lowercase]}));
    let agent = Agent::new(&host);
    assert!(agent.run().logs().contains(&"Loaded 1 skill"));
    let kept = agent.path(&format!(".mayfly/skills/one/{version}"));
    assert_eq!(fs::read_to_string(kept.join("SKILL.md")).unwrap(), "# One");
    assert_eq!(fs::read_to_string(kept.join("recipes/add.sh")).unwrap(), "echo 1");
    // The same home again: nothing is asked for, however the version is written.
    host.config(json!({"skills": [skill]}));
    agent.run().result();
    let asked = host.lines().iter().filter(|line| line.starts_with("GET /skills")).count();
    assert_eq!(asked, 1);
    // Only the version is left: no zip and nothing half done.
    let names = |path| -> Vec<_> {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(agent.path(".mayfly/skills/one")), [version.as_str()]);
}

#[test]
fn a_skill_with_another_hash_is_refused_before_it_is_unpacked() {
    let host = Host::new();
    let version = sha256(b"something else");
    let skill = attach(&host, "one", &zip(&[("SKILL.md", b"# One")]), &version);
    host.config(json!({"skills": [skill]}));
    let agent = Agent::new(&host);
    let said = agent.run();
    let message = said.error(ErrorCode::BootstrapFailed);
    assert!(message.starts_with(&format!("GET /skills/one/{version}: the SHA-256")), "{message}");
    assert_eq!(fs::read_dir(agent.path(".mayfly/skills/one")).unwrap().count(), 0);
}

#[test]
fn a_skill_that_cannot_be_had_ends_the_run() {
    let check = |bytes: &[u8], reason: &str| {
        let host = Host::new();
        let skill = attach(&host, "one", bytes, &sha256(bytes));
        host.config(json!({"skills": [skill]}));
        let agent = Agent::new(&host);
        let said = agent.run();
        let message = said.error(ErrorCode::BootstrapFailed);
        assert!(message.starts_with("GET /skills/one/") && message.contains(reason), "{message}");
        assert!(!agent.path("evil").exists());
    };
    check(b"no zip", "not a zip");
    check(&zip_of_link("SKILL.md", "/etc/passwd"), "entry `SKILL.md`: it is a symbolic link");
    check(&zip(&[("big", &[7; 100_001])]), "entry `big`: with it the files weigh more");
    for (reply, reason) in [
        (Reply::Json(404, json!({})), "it answered 404"),
        (Reply::Never, "no answer after 300 ms"),
        (Reply::Endless, "the zip is larger than"),
        (Reply::Dripping, "no answer after 300 ms"),
    ] {
        let host = Host::new();
        let version = sha256(b"");
        let skill = attach(&host, "one", b"", &version);
        host.config(json!({"skills": [skill]}));
        host.on(&format!("GET /skills/one/{version}"), reply);
        let said = Agent::new(&host).impatient().run();
        let message = said.error(ErrorCode::BootstrapFailed);
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn the_bag_is_in_the_workspace_before_setup_and_turn() {
    let host = Host::new();
    with_bag(&host, Reply::Bytes(zip(&[("notes.txt", b"from the bag"), ("data/x.csv", b"1")])));
    host.env(json!({}), "cat notes.txt; echo; pwd");
    let agent = Agent::new(&host);
    let said = agent.run();
    assert!(said.logs().contains(&"from the bag"), "{:?}", said.logs());
    let workspace = fs::canonicalize(agent.path("workspace")).unwrap();
    assert!(said.logs().contains(&workspace.to_str().unwrap()));
    assert_eq!(fs::read(agent.path("workspace/data/x.csv")).unwrap(), b"1");
}

#[test]
fn a_bag_that_would_do_harm_is_refused_with_the_entrys_name() {
    let check = |bytes: Vec<u8>, message: &str| {
        let host = Host::new();
        with_bag(&host, Reply::Bytes(bytes));
        let agent = Agent::new(&host);
        let said = agent.run();
        assert_eq!(
            said.error(ErrorCode::AssetsRejected),
            format!("the bag was refused: {message}")
        );
        assert!(!agent.path("evil").exists());
        // The place for files that go back is there, and nothing of the bag.
        let entries = fs::read_dir(agent.path("workspace")).unwrap();
        let inside: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(inside, ["assets"], "something was unpacked before {message}");
    };
    check(
        zip(&[("ok", b""), ("../evil", b"x")]),
        "entry `../evil`: its name leads out of the directory",
    );
    check(zip(&[("/etc/evil", b"x")]), "entry `/etc/evil`: its name is absolute");
    check(zip(&[("..\\evil", b"x")]), "entry `..\\\\evil`: its name has a backslash");
    check(zip_of_link("link", ".."), "entry `link`: it is a symbolic link");
    check(zip(&[("a", b""), ("A", b"")]), "entry `A`: it differs from `a` in case only");
    check(zip(&[("a", b""), ("a/b", b"")]), "entry `a/b`: it is a file and a directory at once");
    let large = vec![7; 600_000];
    check(
        zip(&[("one", &large), ("two", &large)]),
        "entry `two`: with it the files weigh more than 1000000 bytes",
    );
}

#[test]
fn a_bag_without_end_is_refused_and_one_that_never_comes_is_said() {
    let check = |reply: Reply, code: ErrorCode, reason: &str| {
        let host = Host::new();
        with_bag(&host, reply);
        let said = Agent::new(&host).impatient().run();
        let message = said.error(code);
        assert!(message.contains(reason), "{message}");
    };
    check(Reply::Endless, ErrorCode::AssetsRejected, "GET /assets: the zip is larger than");
    check(Reply::Never, ErrorCode::BootstrapFailed, "GET /assets: no answer after 300 ms");
    check(Reply::Json(403, json!({})), ErrorCode::BootstrapFailed, "GET /assets: it answered 403");
    check(Reply::Bytes(b"no zip".to_vec()), ErrorCode::AssetsRejected, "not a zip");
}

#[test]
fn setup_lines_come_as_they_are_written() {
    let host = Host::new();
    host.env(
        json!({"NAME": "a value"}),
        "echo one; echo \"two $NAME\" >&2; until [ -e go ]; do sleep 0.02; done; printf three",
    );
    let agent = Agent::new(&host);
    let mut running = agent.start();
    let mut lines = Vec::new();
    while let Some(line) = running.next_line() {
        let second = matches!(&line.event, Event::Log { message, .. } if message == "two a value");
        lines.push(line);
        if second {
            // The script waits for this, so the lines before came while it ran.
            fs::write(agent.path("workspace/go"), "").unwrap();
        }
    }
    let said = running.finish(lines);
    let logs = said.logs();
    let first = logs.iter().position(|line| *line == "one").unwrap();
    assert_eq!(logs[first..first + 3], ["one", "two a value", "three"]);
    // The model has not said a word before all of this.
    let is_last_line =
        |event: &Event| matches!(event, Event::Log { message, .. } if message == "three");
    let over = said.events.iter().position(is_last_line).unwrap();
    let spoken = said.events.iter().position(|event| matches!(event, Event::Text { .. }));
    assert!(spoken.unwrap() > over);
}

#[test]
fn a_setup_that_fails_ends_the_run_with_its_last_words() {
    let check = |script: &str, expected: &str| {
        let host = Host::new();
        host.env(json!({}), script);
        let said = Agent::new(&host).run();
        assert_eq!(said.error(ErrorCode::SetupFailed), expected);
    };
    check(
        "echo before; echo wrong >&2; exit 3",
        "the setup script ended with exit status 3:\nbefore\nwrong",
    );
    check("false; echo not reached", "the setup script ended with exit status 1");
    check("kill -9 $$", "the setup script ended with signal 9");
    if fs::exists("/bin/bash").unwrap() {
        check("false | true", "the setup script ended with exit status 1");
    }
    let host = Host::new();
    host.env(json!({}), "for i in $(seq 2000); do echo line $i; done; exit 1");
    let said = Agent::new(&host).run();
    let message = said.error(ErrorCode::SetupFailed);
    assert!(message.ends_with("line 1999\nline 2000"), "{message}");
    assert!(message.len() < 2200, "{}", message.len());
    assert!(said.logs().contains(&"line 1"));
}

#[test]
fn what_setup_starts_in_the_background_lives_on_and_holds_nothing_up() {
    let host = Host::new();
    let script =
        "(until [ -e stop ]; do echo noise; sleep 0.02; done; echo > stopped) & echo $! > pid";
    host.env(json!({}), script);
    host.config(json!({"model": {"provider": "scripted", "script": [
        {"tool_calls": [{"name": "shell", "args": {"command": "kill -0 $(cat pid) && echo alive"}}]},
        {"text": "still there"}
    ]}}));
    let agent = Agent::new(&host);
    let said = agent.run();
    fs::write(agent.path("workspace/stop"), "").unwrap();
    assert_eq!(said.result(), "still there");
    let alive = said.events.iter().any(|event| {
        matches!(event, Event::StepEnded { outcome, .. }
            if format!("{outcome:?}").contains("alive"))
    });
    assert!(alive, "{:?}", said.events);
    // The test leaves nothing behind: it waits until the loop has gone.
    let pid = fs::read_to_string(agent.path("workspace/pid")).unwrap();
    let gone = || fs::metadata(format!("/proc/{}", pid.trim()));
    while gone().map_err(|err| err.kind()).err() != Some(io::ErrorKind::NotFound) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_script_is_gone_when_it_is_over() {
    let host = Host::new();
    host.env(json!({}), "stat -c %a \"$0\"");
    let agent = Agent::new(&host);
    assert!(agent.run().logs().contains(&"700"));
    assert_eq!(fs::read_dir(agent.path(".mayfly/setup")).unwrap().count(), 0);
}

#[test]
fn tools_see_the_variables_of_the_contract() {
    let host = Host::new();
    host.env(json!({"MINE": "1", "WORKSPACE_DIR": "overridden"}), "env");
    let workspace = format!("{}/workspace", host.link);
    host.config(json!({"workspace": {"url": workspace, "bearer": "asbx_1"}}));
    let agent = Agent::new(&host);
    let said = agent.run();
    let logs = said.logs();
    for line in [
        "MINE=1".to_owned(),
        format!("WORKSPACE_DIR={}", agent.path("workspace").display()),
        format!("AGENT_URL={}/agent", host.link),
        format!("WORKSPACE_API_URL={workspace}"),
        "WORKSPACE_API_TOKEN=asbx_1".to_owned(),
        format!("HOME={}", agent.path("").display().to_string().trim_end_matches('/')),
    ] {
        assert!(logs.contains(&line.as_str()), "{line} is not in {logs:?}");
    }
}
