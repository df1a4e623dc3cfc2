//! One small command in a running sandbox, against the same argv without us.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{report::Finding, server::Server};

const ROUNDS: usize = 300;
const PROGRAM: &str = "/bin/true";

pub(crate) fn measure(server: &Server) -> Result<Finding> {
    let mut connection = server.connect()?;
    let body = json!({"cmd": PROGRAM, "args": [], "sandbox_id": server.sandbox_id}).to_string();
    let (mut ours, mut direct) = (Vec::new(), Vec::new());
    // Interleaved, so that a noisy minute is noisy for both.
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let answer = connection.post("/commands", "application/json", body.as_bytes())?;
        ours.push(began.elapsed());
        ensure!(answer.ends_with(b"\"exit_code\":0}\n"), "the command failed");
        let began = Instant::now();
        ensure!(Command::new(PROGRAM).status()?.success(), "the command failed");
        direct.push(began.elapsed());
    }
    let (ours, direct) = (median(ours), median(direct));
    Ok(Finding {
        what: "POST /commands in a running sandbox, median of 300",
        ours: format!("{ours:.2?}"),
        peer: format!("{direct:.2?} (spawn and wait)"),
        ratio: format!("{:.2} times", ours.as_secs_f64() / direct.as_secs_f64()),
        goal: "at most 2 times plus 1 ms",
        met: ours <= direct * 2 + Duration::from_millis(1),
    })
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
