//! Files of a conversation: one in, against `cp` and `sha256sum`, and many out
//! as the zip that a sandbox fetches, against `tar` and `gzip`.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{CHAT, made, message, options, over};
use crate::{
    client::{Connection, JSON, Request},
    loopback,
    report::Finding,
    round_trip::median,
    runs::RAW,
    server::Server,
};

const ROUNDS: usize = 5;
const LARGE: u64 = 64 << 20;
/// As many files as a bag may have, in forms as large as they may be.
const FORMS: usize = 10;
const FILES_EACH: usize = 1_000;
const SMALL: usize = 4 << 10;
const BOUNDARY: &str = "a-boundary-of-the-benchmark";
/// How long the server may take to dispatch a turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// A large file into a bag.
pub(crate) fn upload(database: Option<&String>) -> Result<Finding> {
    let server = Server::start("process", &options(database, &[]))?;
    let mut connection = server.connect()?;
    let place = tempfile::tempdir()?;
    let mut bytes = Vec::new();
    File::open("/dev/urandom")?.take(LARGE).read_to_end(&mut bytes)?;
    fs::write(place.path().join("large"), &bytes)?;
    let (mut ours, mut copies, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let chat = made(&mut connection, "/api/assistant/conversations", &json!({}))?;
        let path = format!("/api/assistant/conversations/{chat}/files/large");
        let began = Instant::now();
        let put = Request { method: "PUT", path: &path, headers: "", body: &bytes };
        let stored: Value = serde_json::from_slice(&connection.ask(&put)?)?;
        ours.push(began.elapsed());
        ensure!(stored["size"] == LARGE, "not all of it was stored: {stored}");
        let name = format!("copy-{}", ours.len());
        copies.push(shell(place.path(), &format!("cp large {name} && sha256sum {name}"))?);
        let name = format!("kept-{}", ours.len());
        let keep = format!("cp large {name} && sync {name} && sha256sum {name}");
        kept.push(shell(place.path(), &keep)?);
    }
    let (ours, copy, kept) = (median(ours), median(copies), median(kept));
    Ok(Finding {
        what: "64 MiB into a bag by PUT: hashed, typed, flushed to disk; median of 5",
        ours: format!("{ours:.2?}"),
        peer: format!("{copy:.2?} (cp, sha256sum), {kept:.2?} (cp, sync, sha256sum)"),
        ratio: format!("{:.2} and {:.2} times", over(ours, copy), over(ours, kept)),
        goal: "none",
        met: true,
    })
}

/// Ten thousand small files out of a bag.
pub(crate) fn zip(database: Option<&String>) -> Result<Finding> {
    let (runner, dispatches) = runner()?;
    let server = Server::start("process", &options(database, &["--sandbox-url", &runner]))?;
    let mut connection = server.connect()?;
    let chat = made(&mut connection, "/api/assistant/conversations", &json!({}))?;
    let place = tempfile::tempdir()?;
    let mut size = 0;
    for form in 0..FORMS {
        size += fill(&mut connection, &chat, place.path(), form)?;
    }
    let mut turn = server.connect()?;
    let headers = format!("{JSON}Accept: text/event-stream\r\n");
    let body = message(&chat);
    turn.begin(&Request { method: "POST", path: CHAT, headers: &headers, body: &body })?;
    let dispatch = dispatches.recv_timeout(PATIENCE).context("nothing was dispatched")?;
    let path = zip_path(&mut connection, &dispatch)?;
    // From here on the server's peak is the zip's.
    fs::write(format!("/proc/{}/clear_refs", server.pid()), "5")?;
    let before = memory_kib(&server, "VmRSS:")?;
    let (mut ours, mut theirs, mut packed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let get = Request { method: "GET", path: &path, headers: "", body: &[] };
        packed = server.connect()?.count(&get)?;
        ours.push(began.elapsed());
        theirs.push(shell(place.path(), "tar -cz . | cat")?);
    }
    let grown = memory_kib(&server, "VmHWM:")?.saturating_sub(before);
    let (ours, theirs) = (median(ours), median(theirs));
    let speed = |time: Duration| size as f64 / 1e6 / time.as_secs_f64();
    Ok(Finding {
        what: "the zip of a bag with 10,000 files of 4 KiB, median of 5",
        ours: format!(
            "{:.0} MB/s, {:.0} MB become {:.0}; the server's peak grows by {:.1} MiB",
            speed(ours),
            size as f64 / 1e6,
            packed as f64 / 1e6,
            grown as f64 / 1024.0
        ),
        peer: format!("{:.0} MB/s (tar -cz)", speed(theirs)),
        ratio: format!("{:.2} times as fast", over(theirs, ours)),
        goal: "the peak grows by less than the bag",
        met: grown * 1024 < size as u64,
    })
}

/// Puts files into the bag, and the same into a directory; how many bytes.
fn fill(connection: &mut Connection, chat: &str, place: &Path, form: usize) -> Result<usize> {
    let (mut body, mut size) = (Vec::new(), 0);
    for number in 0..FILES_EACH {
        let (name, content) = (format!("{form}-{number}.txt"), text(form * FILES_EACH + number)?);
        write!(body, "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; ")?;
        write!(body, "filename=\"{name}\"\r\n\r\n{content}\r\n")?;
        size += content.len();
        fs::write(place.join(name), content)?;
    }
    write!(body, "--{BOUNDARY}--\r\n")?;
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let path = format!("/api/assistant/conversations/{chat}/files");
    connection.post(&path, &kind, &body)?;
    Ok(size)
}

/// Text that shrinks about as much as a table of numbers does.
fn text(number: usize) -> Result<String> {
    let (mut text, mut value) = (String::new(), number as u64);
    while text.len() < SMALL {
        // A linear congruential generator, as Knuth has it.
        value =
            value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        writeln!(text, "row {}, value {}", text.len(), value >> 40)?;
    }
    text.truncate(SMALL);
    Ok(text)
}

/// A runner that never says anything, so that no sandbox is needed; and what is
/// dispatched to it.
fn runner() -> Result<(String, mpsc::Receiver<Value>)> {
    let (dispatch, dispatches) = mpsc::channel();
    let url = loopback::serve(move |asked, stream| {
        if asked.line.starts_with("POST /stream ") {
            dispatch.send(serde_json::from_slice(&asked.body)?)?;
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type:";
            write!(stream, "{head} {RAW}\r\n\r\n")?;
        } else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
        }
        Ok(())
    })?;
    Ok((url, dispatches))
}

/// Where the zip is, as the sandbox of the dispatch is told.
fn zip_path(connection: &mut Connection, dispatch: &Value) -> Result<String> {
    let field = |name: &str| dispatch[name].as_str().with_context(|| format!("no {name}"));
    let path = format!("{}/config", path_of(field("agent_url")?)?);
    let headers = format!("Authorization: {}\r\n", field("otp_run")?);
    let request = Request { method: "GET", path: &path, headers: &headers, body: &[] };
    let config: Value = serde_json::from_slice(&connection.ask(&request)?)?;
    let url = config["assets"]["url"].as_str().context("the bag has no address")?;
    Ok(path_of(url)?.to_owned())
}

fn path_of(url: &str) -> Result<&str> {
    let start = url.match_indices('/').nth(2).context("an address without a path")?.0;
    Ok(&url[start..])
}

/// How long a script takes.
fn shell(place: &Path, script: &str) -> Result<Duration> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).current_dir(place).stdout(Stdio::null());
    let began = Instant::now();
    ensure!(command.status()?.success(), "{script} failed");
    Ok(began.elapsed())
}

fn memory_kib(server: &Server, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|line| line.split_whitespace().next()).context("no such field")?;
    Ok(value.parse()?)
}
