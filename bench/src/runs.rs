//! Runs: from the dispatch to the agent inside and to its first model call, how
//! many events pass, and what a run that waits costs. All by the scripted
//! provider or a model of our own on loopback; no key, no network.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{
    model::{Manner, Model},
    report::Finding,
    round_trip::median,
    server::Server,
    start::{descendants_kib, echo, private_kib},
};

const ROUNDS: usize = 30;
const CROWD: usize = 100;
/// Lines of the setup script of one run, and of each in a crowd.
const LINES: u64 = 100_000;
const LINES_EACH: u64 = 1_000;
const WAITING: usize = 50;

/// What they are together.
pub(crate) const ALL: &str = "runs of an agent in native sandboxes";

/// From the dispatch to the first line that the agent itself wrote.
pub(crate) fn first_line() -> Result<Finding> {
    let server = Server::start("native", &["--pool", "4"])?;
    let mut connection = server.connect()?;
    let body = scripted("true");
    let (mut ours, mut commands) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // The pool fills up again between two claims.
        thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        let mut first = None;
        connection.lines("/stream", RAW, &body, |line| {
            // Only what came from inside has the number of the agent's line.
            if first.is_none() && line.contains("\"line\":1,") {
                first = Some(began.elapsed());
            }
        })?;
        ours.push(first.context("the agent wrote nothing")?);
        commands.push(connection.first_output(&echo(Some(&server.sandbox_id)))?);
    }
    let (ours, command) = (median(ours), median(commands));
    Ok(Finding {
        what: "a dispatch to the first line of the agent inside, from the pool, median of 30",
        ours: format!("{ours:.2?}"),
        peer: format!("{command:.2?} (a command in a running sandbox)"),
        ratio: format!("{:.1} times", ours.as_secs_f64() / command.as_secs_f64()),
        goal: "at most 50 ms",
        met: ours <= Duration::from_millis(50),
    })
}

/// From the dispatch to the moment when the model's server has the first call.
pub(crate) fn first_model_call() -> Result<Finding> {
    let server = Server::start("native", &["--pool", "4"])?;
    let mut connection = server.connect()?;
    let model = Model::start(Manner::Brief)?;
    let config = json!({"model": model.config()});
    let body = json!({"prompt": "hello", "config": config}).to_string().into_bytes();
    let mut taken = Vec::new();
    for _ in 0..ROUNDS {
        thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        let mut result = false;
        connection.lines("/stream", ENVELOPE, &body, |line| {
            result |= line.contains("\"type\":\"result\"");
        })?;
        ensure!(result, "a run had no result");
        taken.push(model.calls.recv()?.duration_since(began));
    }
    let taken = median(taken);
    Ok(Finding {
        what: "a dispatch to the first model call, from the pool, median of 30",
        ours: format!("{taken:.2?}"),
        peer: "none".to_owned(),
        ratio: "the model is on loopback".to_owned(),
        goal: "none",
        met: true,
    })
}

/// Events through one run, and through a hundred at once.
pub(crate) fn events() -> Result<Finding> {
    let server = Server::start("native", &["--max-sandboxes", "150"])?;
    let began = Instant::now();
    let one = count(&server, LINES)?;
    let alone = one as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    let counts: Vec<Result<u64>> = thread::scope(|scope| {
        let runs: Vec<_> = (0..CROWD).map(|_| scope.spawn(|| count(&server, LINES_EACH))).collect();
        runs.into_iter().filter_map(|run| run.join().ok()).collect()
    });
    let took = began.elapsed();
    let finished = counts.iter().filter(|count| count.is_ok()).count();
    let together =
        counts.into_iter().filter_map(Result::ok).sum::<u64>() as f64 / took.as_secs_f64();
    Ok(Finding {
        what: "events of runs to their callers, from setup scripts that print lines",
        ours: format!("{alone:.0} a second through one run"),
        peer: format!("{together:.0} a second through 100 runs at once, starts and ends included"),
        ratio: format!("{finished} of {CROWD} finished"),
        goal: "all finish, every line arrives",
        met: finished == CROWD && one >= LINES,
    })
}

/// Memory of a run whose agent waits for a tool.
pub(crate) fn waiting() -> Result<Finding> {
    let server = Server::start("native", &["--max-sandboxes", "150"])?;
    let before = private_kib(server.pid())?;
    let body = json!({
        "prompt": "wait",
        "on_disconnect": "continue",
        "config": {"model": {"provider": "scripted", "name": "scripted"}},
        "env": {"variables": {}, "setup_script": "echo waiting; sleep 600"},
    });
    let body = body.to_string().into_bytes();
    for _ in 0..WAITING {
        let mut connection = server.connect()?;
        connection.lines_until("/stream", ENVELOPE, &body, |line| line.contains("waiting"))?;
    }
    let share = private_kib(server.pid())?.saturating_sub(before);
    let inside = descendants_kib(server.pid())?;
    let each = (inside + share) as f64 / WAITING as f64 / 1024.0;
    Ok(Finding {
        what: "50 runs that wait: keeper, envd, agent, its script and their share of the server (USS)",
        ours: format!("{each:.2} MiB each"),
        peer: "none".to_owned(),
        ratio: format!("{} KiB of it in the server", share / WAITING as u64),
        goal: "at most 16 MiB each",
        met: each <= 16.0,
    })
}

pub(crate) const RAW: &str = "application/vnd.mayfly.run+ndjson";
const ENVELOPE: &str = "application/x-ndjson";

/// A run that prints lines before anything else, and how many of them came.
fn count(server: &Server, lines: u64) -> Result<u64> {
    let mut counted = 0;
    let mut result = false;
    let body = scripted(&format!("seq {lines}"));
    server.connect()?.lines("/stream", ENVELOPE, &body, |line| {
        counted += u64::from(line.contains("\"type\":\"log\""));
        result |= line.contains("\"type\":\"result\"");
    })?;
    ensure!(result && counted >= lines, "{counted} of {lines} lines came");
    Ok(counted)
}

fn scripted(setup: &str) -> Vec<u8> {
    let config = json!({"model": {"provider": "scripted", "name": "scripted"}});
    let env = json!({"variables": {}, "setup_script": setup});
    json!({"prompt": "hello", "config": config, "env": env}).to_string().into_bytes()
}
