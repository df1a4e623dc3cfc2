//! What lies in the assets directory at the end, and who takes it.

use serde_json::{Value, json};
use wire::run::{ErrorCode, Event, Outcome};

use crate::host::{Asked, Host, Reply};
use crate::program::{Agent, OTP_UPLOAD, Said};
use crate::zips::sha256;

const RESULTS: &str = "POST /agent/results";

fn stored(name: &str, content: &[u8]) -> Value {
    json!({"id": format!("id_{name}"), "name": name, "mimeType": "text/plain",
           "size": content.len(), "sha256": sha256(content), "storageKey": format!("bag/{name}")})
}

/// The outcome of the step `writeback`, when there is one.
fn writeback(said: &Said) -> Option<&Outcome> {
    let mut step = None;
    for event in &said.events {
        if let Event::StepStarted { id, name, .. } = event
            && name == "writeback"
        {
            assert!(step.is_none(), "written back twice");
            step = Some(id);
        }
        if let Event::StepEnded { id, outcome, .. } = event
            && step == Some(id)
        {
            return Some(outcome);
        }
    }
    None
}

#[track_caller]
fn failed(said: &Said) -> &str {
    match writeback(said) {
        Some(Outcome::Failed { error, .. }) => error,
        other => panic!("not failed: {other:?}"),
    }
}

/// Name, file name and content of each part of a form.
fn parts(asked: &Asked) -> Vec<(String, Vec<u8>)> {
    let content_type = asked.content_type.as_deref().unwrap();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let (open, close) = (format!("--{boundary}\r\n"), format!("--{boundary}--\r\n"));
    let body = asked.body.strip_suffix(close.as_bytes()).unwrap();
    let mut rest = body;
    let mut parts = Vec::new();
    while let Some(part) = rest.strip_prefix(open.as_bytes()) {
        let end = find(part, open.as_bytes()).unwrap_or(part.len());
        let head_end = find(part, b"\r\n\r\n").unwrap();
        let head = String::from_utf8(part[..head_end].to_vec()).unwrap();
        let content = part[head_end + 4..end].strip_suffix(b"\r\n").unwrap();
        parts.push((head, content.to_vec()));
        rest = &part[end..];
    }
    assert!(rest.is_empty());
    parts
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[test]
fn files_are_written_back_byte_for_byte_before_the_terminal_event() {
    let host = Host::new();
    host.env(
        json!({}),
        "mkdir -p assets/charts; head -c 90000 /dev/zero | tr '\\0' z > assets/big.bin; \
         printf 'a,b\\n' > assets/charts/t.csv; echo no > outside.txt; \
         ln -s /etc/passwd assets/link",
    );
    let big = vec![b'z'; 90000];
    let files = json!([stored("big.bin", &big), stored("t.csv", b"a,b\n")]);
    host.on(RESULTS, Reply::Json(200, json!({"files": files})));
    let said = Agent::new(&host).run();

    let asked = host.asked().pop().unwrap();
    assert_eq!(asked.line, RESULTS);
    assert_eq!(asked.authorization.as_deref(), Some(OTP_UPLOAD));
    assert_eq!(asked.content_length, u64::try_from(asked.body.len()).ok());
    let parts = parts(&asked);
    let disposition =
        |name: &str| format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
    assert_eq!(parts.len(), 2);
    assert!(parts[0].0.starts_with(&disposition("big.bin")), "{}", parts[0].0);
    assert!(parts[1].0.starts_with(&disposition("t.csv")), "{}", parts[1].0);
    assert_eq!(sha256(&parts[0].1), sha256(&big));
    assert_eq!(parts[1].1, b"a,b\n");

    let Some(Outcome::Succeeded { result, .. }) = writeback(&said) else { panic!("{said:?}") };
    assert_eq!(*result, json!({"files": files}));
    let [.., Event::Uploaded { files }, Event::Result { message }] = &said.events[..] else {
        panic!("{:?}", said.events)
    };
    assert_eq!(
        files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(),
        ["big.bin", "t.csv"]
    );
    assert_eq!(files[0].sha256, sha256(&big));
    assert_eq!(message, "done");
    assert!(said.logs().iter().any(|line| line.contains("link is not a file")));
}

#[test]
fn nothing_to_send_or_no_token_sends_nothing() {
    for script in ["", "mkdir -p assets", "echo outside > a.txt", "mkdir -p assets/a/b"] {
        let host = Host::new();
        host.env(json!({}), script);
        let said = Agent::new(&host).run();
        assert_eq!(said.result(), "done");
        assert!(writeback(&said).is_none());
        assert_eq!(host.lines(), ["GET /agent/env", "GET /agent/config"]);
    }
    let host = Host::new();
    host.env(json!({}), "mkdir -p assets; echo a > assets/a");
    let mut agent = Agent::new(&host);
    agent.bootstrap["source"]["otp_upload"] = Value::Null;
    assert!(writeback(&agent.run()).is_none());
    assert_eq!(host.lines().len(), 2);
}

#[test]
fn a_refused_upload_is_a_failed_step_and_the_result_goes_out() {
    let check = |reply: Reply, reason: &str| {
        let host = Host::new();
        host.env(json!({}), "mkdir -p assets; printf abc > assets/a");
        host.on(RESULTS, reply);
        let said = Agent::new(&host).impatient().run();
        assert_eq!(said.result(), "done");
        let error = failed(&said);
        assert!(error.contains(reason), "{error}");
        assert!(!said.events.iter().any(|event| matches!(event, Event::Uploaded { .. })));
        // The token is used once, whatever came of it.
        assert_eq!(host.lines().iter().filter(|line| *line == RESULTS).count(), 1);
    };
    check(Reply::Json(401, json!({"code": "otp_expired"})), "refused the files: 401 (otp_expired)");
    check(Reply::Json(413, json!({"error": "too large"})), "413 (too large)");
    check(Reply::Json(500, json!({})), "refused the files: 500");
    check(Reply::Never, "POST /agent/results: no answer after");
    check(Reply::Bytes(b"{".to_vec()), "its answer cannot be read");
    check(Reply::Endless, "larger than");
    check(Reply::Json(200, json!({"files": []})), "names 0 files, and 1 were sent");
    let other = stored("a", b"abd");
    check(Reply::Json(200, json!({"files": [other]})), "stored other bytes as `a`");
}

#[test]
fn files_over_a_limit_are_a_failed_step_and_nothing_is_sent() {
    let check = |script: &str, reason: &str| {
        let host = Host::new();
        host.env(json!({}), &format!("mkdir -p assets; cd assets; {script}"));
        let said = Agent::new(&host).run();
        assert_eq!(said.result(), "done");
        assert_eq!(failed(&said), reason);
        assert_eq!(host.lines().len(), 2);
    };
    check("touch 1 2 3 4", "there are more than 3 files");
    check("head -c 100001 /dev/zero > a", "`a` has 100001 bytes; the limit of a file is 100000");
    check("head -c 80000 /dev/zero | tee a > b", "with `b` the files have more than 150000 bytes");
}

#[test]
fn files_of_a_turn_that_failed_are_written_back_too() {
    let host = Host::new();
    host.env(json!({}), "mkdir -p assets; printf abc > assets/a");
    let call = json!({"tool_calls": [{"name": "shell", "args": {"command": "true"}}]});
    host.config(
        json!({"max_rounds": 1, "model": {"provider": "scripted", "script": [call, call]}}),
    );
    host.on(RESULTS, Reply::Json(200, json!({"files": [stored("a", b"abc")]})));
    let said = Agent::new(&host).run();
    said.error(ErrorCode::MaxRounds);
    assert!(matches!(writeback(&said), Some(Outcome::Succeeded { .. })));
}

#[test]
fn a_run_that_never_began_writes_nothing_back() {
    let host = Host::new();
    host.env(json!({}), "mkdir -p assets; printf abc > assets/a; exit 1");
    let said = Agent::new(&host).run();
    said.error(ErrorCode::SetupFailed);
    assert_eq!(host.lines().len(), 2);
}
