//! One command's output through `Start`, to a reader that only counts.

use std::{process::Command, time::Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{client::Request, report::Finding, server::Server};

const MEGABYTE: f64 = 1e6;
const BLOB: u64 = 1_000_000_000;
const LINES: u64 = 400_000_000;

/// Bytes without newlines, against encoding them with coreutils.
pub(crate) fn blobs(server: &Server) -> Result<Finding> {
    let produce = format!("head -c {BLOB} /dev/zero");
    let ours = speed(server, &produce, BLOB)?;
    let began = Instant::now();
    let peer = format!("{produce} | base64 -w0 | cat > /dev/null");
    ensure!(Command::new("/bin/bash").args(["-c", &peer]).status()?.success(), "base64 failed");
    let theirs = BLOB as f64 / began.elapsed().as_secs_f64() / MEGABYTE;
    Ok(Finding {
        what: "1 GB without newlines through Start (JSON)",
        ours: format!("{ours:.0} MB/s"),
        peer: format!("{theirs:.0} MB/s (base64 -w0 | cat)"),
        ratio: format!("{:.2} times", ours / theirs),
        goal: "at least 0.3 times",
        met: ours >= 0.3 * theirs,
    })
}

/// Lines of 80 bytes, each an event of its own.
pub(crate) fn lines(server: &Server) -> Result<Finding> {
    let line = "x".repeat(79);
    let ours = speed(server, &format!("yes {line} | head -c {LINES}"), LINES)?;
    Ok(Finding {
        what: "400 MB in lines of 80 bytes through Start (JSON)",
        ours: format!("{ours:.0} MB/s"),
        peer: "none: every line is an event".to_owned(),
        ratio: format!("{:.0} thousand events a second", ours * 1e3 / 80.0),
        goal: "at least 60 MB/s",
        met: ours >= 60.0,
    })
}

/// Megabytes a second of the command's own output.
fn speed(server: &Server, script: &str, size: u64) -> Result<f64> {
    let message = json!({
        "process": {"cmd": "/bin/bash", "args": ["-c", script]},
        "stdin": false,
    })
    .to_string();
    let mut body = vec![0];
    body.extend(u32::try_from(message.len())?.to_be_bytes());
    body.extend(message.as_bytes());
    let headers = format!(
        "Content-Type: application/connect+json\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 49983\r\nConnect-Protocol-Version: 1\r\n",
        server.sandbox_id
    );
    let connection = server.connect()?;
    let began = Instant::now();
    let path = "/process.Process/Start";
    let request = Request { method: "POST", path, headers: &headers, body: &body };
    let received = connection.count(&request)?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(received > size, "{received} bytes arrived for {size}");
    Ok(size as f64 / seconds / MEGABYTE)
}
