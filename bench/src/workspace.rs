//! Turns of the workspace, against the runs that they are made of: how long one
//! takes, how fast its pieces pass, many at once, and what one that waits costs.
//!
//! Turns and runs use the same server, agent and model; what a turn has in
//! addition is its callbacks, its rows and its own stream.

mod bag;
mod hearing;

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    client::{Connection, JSON, Request},
    model::{Manner, Model},
    report::Finding,
    round_trip::median,
    runs::RAW,
    server::Server,
    start::private_kib,
};

use hearing::{Heard, heard, ran};

pub(crate) use bag::{upload, zip};

/// What they are together.
pub(crate) const ALL: &str = "turns of the workspace in native sandboxes";

const ROUNDS: usize = 50;
const DELTAS: usize = 20_000;
const DELTA_ROUNDS: usize = 5;
const CROWD: usize = 50;
const WAITING: usize = 200;
/// An agent gives a silent model up after a minute; by then all is measured.
const PATIENCE: Duration = Duration::from_secs(45);

const CHAT: &str = "/api/assistant/chat/stream";
const STREAM: &str = "/stream";
const PROMPT: &str = "You are brief.";

/// From the message to `done`, against the same run from its dispatch to its result.
pub(crate) fn turn(database: Option<&String>) -> Result<Finding> {
    let server = Server::start("native", &options(database, &["--pool", "4"]))?;
    let mut connection = server.connect()?;
    let agent = agent(&mut connection, &json!({"provider": "scripted"}))?;
    let run = run(&json!({"provider": "scripted", "name": "scripted"}));
    let (mut turns, mut runs, mut assistants) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let message = message(&conversation(&mut connection, &agent)?);
        refill();
        turns.push(heard(&mut connection, &message)?.whole()?);
        refill();
        runs.push(ran(&mut connection, &run)?.whole()?);
        let message = json!({"message": "hello"}).to_string().into_bytes();
        refill();
        assistants.push(heard(&mut connection, &message)?.whole()?);
    }
    let (turn, run, assistant) = (median(turns), median(runs), median(assistants));
    Ok(Finding {
        what: "a turn over the chat stream to `done`, from the pool, median of 50",
        ours: format!("{turn:.2?} (an agent without skills), {assistant:.2?} (the Assistant)"),
        peer: format!("{run:.2?} (the same run by POST /stream)"),
        ratio: format!("{:.2} and {:.2} times", over(turn, run), over(assistant, run)),
        goal: "none",
        met: true,
    })
}

/// A long answer in small pieces, from the call of the model to the end. A turn's
/// first event may hold many of them, so its own time says nothing.
pub(crate) fn deltas(database: Option<&String>) -> Result<Finding> {
    let server = Server::start("native", &options(database, &["--pool", "4"]))?;
    let mut connection = server.connect()?;
    let model = Model::start(Manner::Talkative(DELTAS))?;
    let agent = agent(&mut connection, &remote(&model))?;
    let run = run(&model.config());
    let (mut turns, mut runs, mut events) = (Vec::new(), Vec::new(), 0);
    for _ in 0..DELTA_ROUNDS {
        let message = message(&conversation(&mut connection, &agent)?);
        refill();
        let turn = heard(&mut connection, &message)?;
        turns.push(turn.since(model.calls.recv()?)?);
        refill();
        let run = ran(&mut connection, &run)?;
        runs.push(run.since(model.calls.recv()?)?);
        for heard in [&turn, &run] {
            ensure!(heard.pieces == DELTAS, "{} of {DELTAS} pieces came", heard.pieces);
        }
        events += turn.texts;
    }
    let (turn, run) = (median(turns), median(runs));
    let each = events / DELTA_ROUNDS;
    let speed = |count: usize, time: Duration| count as f64 / time.as_secs_f64();
    let (ours, shown) = (speed(DELTAS, turn), speed(each, turn));
    Ok(Finding {
        what: "20,000 small deltas of a model to one reader of the chat stream, median of 5",
        ours: format!("{ours:.0} deltas a second, in {each} events ({shown:.0} a second)"),
        peer: format!("{:.0} lines a second (raw POST /stream)", speed(DELTAS, run)),
        ratio: format!("{:.2} times as fast", over(run, turn)),
        goal: "every delta arrives",
        met: true,
    })
}

/// Fifty conversations with a turn each, all at once.
pub(crate) fn crowd(database: Option<&String>) -> Result<Finding> {
    let server = Server::start("native", &options(database, &["--max-sandboxes", "150"]))?;
    let mut connection = server.connect()?;
    let agent = agent(&mut connection, &json!({"provider": "scripted"}))?;
    let mut messages = Vec::new();
    for _ in 0..CROWD {
        messages.push(message(&conversation(&mut connection, &agent)?));
    }
    let run = run(&json!({"provider": "scripted", "name": "scripted"}));
    let (turned, turns) = at_once(&messages, |body| heard(&mut server.connect()?, body))?;
    // What the turns left behind is taken down before the peer starts.
    thread::sleep(Duration::from_secs(2));
    let (ran, runs) = at_once(&vec![run; CROWD], |body| ran(&mut server.connect()?, body))?;
    let speed = |time: Duration| CROWD as f64 / time.as_secs_f64();
    Ok(Finding {
        what: "50 conversations with a turn each at once",
        ours: format!("{turned} done in {turns:.2?}, {:.1} turns a second", speed(turns)),
        peer: format!("{ran} done in {runs:.2?}, {:.1} a second (by POST /stream)", speed(runs)),
        ratio: format!("{:.2} times", over(turns, runs)),
        goal: "all finish",
        met: turned == CROWD && ran == CROWD,
    })
}

/// The server's memory for turns whose model does not answer.
pub(crate) fn waiting(database: Option<&String>) -> Result<Finding> {
    let options = options(database, &["--max-sandboxes", "300"]);
    let model = Model::start(Manner::Silent)?;
    let server = Server::start("native", &options)?;
    let mut connection = server.connect()?;
    let agent = agent(&mut connection, &remote(&model))?;
    let mut messages = Vec::new();
    for _ in 0..=WAITING {
        messages.push(message(&conversation(&mut connection, &agent)?));
    }
    let accept = format!("{JSON}Accept: text/event-stream\r\n");
    let (turns, turn) = memory(&server, &model, CHAT, &accept, &messages)?;
    drop(server);
    let server = Server::start("native", &options)?;
    let accept = format!("{JSON}Accept: {RAW}\r\n");
    let bodies = vec![run(&model.config()); WAITING + 1];
    let (runs, run) = memory(&server, &model, STREAM, &accept, &bodies)?;
    Ok(Finding {
        what: "200 turns that wait for their model: their share of the server (USS)",
        ours: format!("{turn:.0} KiB each of {turns}"),
        peer: format!("{run:.0} KiB each of {runs} (runs by POST /stream)"),
        ratio: format!("{:.2} times", turn / run),
        goal: "at least 50 of each wait",
        met: turns >= 50 && runs >= 50,
    })
}

/// Starts as many as wait in time; how many that were, and KiB of each.
fn memory(
    server: &Server,
    model: &Model,
    path: &str,
    headers: &str,
    bodies: &[Vec<u8>],
) -> Result<(usize, f64)> {
    let began = Instant::now();
    let (mut waiting, mut before) = (Vec::new(), 0);
    for body in bodies {
        if began.elapsed() > PATIENCE {
            break;
        }
        let mut connection = server.connect()?;
        let request = Request { method: "POST", path, headers, body };
        if connection.begin(&request).is_err() || model.calls.recv_timeout(PATIENCE).is_err() {
            break;
        }
        if waiting.is_empty() {
            // The first brings along what all of them share.
            before = private_kib(server.pid())?;
        }
        waiting.push(connection);
    }
    let count = waiting.len().saturating_sub(1);
    ensure!(count > 0, "nothing waits");
    let grown = private_kib(server.pid())?.saturating_sub(before);
    Ok((count, grown as f64 / count as f64))
}

/// Asks all of it at once; how many were answered, and when the last was.
fn at_once(
    bodies: &[Vec<u8>],
    ask: impl Fn(&[u8]) -> Result<Heard> + Sync,
) -> Result<(usize, Duration)> {
    let began = Instant::now();
    let answered = thread::scope(|scope| {
        let asking: Vec<_> = bodies.iter().map(|body| scope.spawn(|| ask(body))).collect();
        asking.into_iter().filter_map(|one| one.join().ok()?.ok()).count()
    });
    ensure!(answered > 0, "none was answered");
    Ok((answered, began.elapsed()))
}

/// The pool fills up again between two claims, and what was used is taken down.
fn refill() {
    thread::sleep(Duration::from_millis(200));
}

fn over(ours: Duration, theirs: Duration) -> f64 {
    ours.as_secs_f64() / theirs.as_secs_f64()
}

fn options<'a>(database: Option<&'a String>, more: &[&'a str]) -> Vec<&'a str> {
    let database = database.into_iter().flat_map(|url| ["--database", url.as_str()]);
    database.chain(more.iter().copied()).collect()
}

/// The body of a run like the turns of `agent`.
fn run(model: &Value) -> Vec<u8> {
    let config = json!({"system_prompt": PROMPT, "model": model});
    json!({"prompt": "hello", "config": config}).to_string().into_bytes()
}

/// The body of a turn.
fn message(conversation: &str) -> Vec<u8> {
    json!({"message": "hello", "conversationId": conversation}).to_string().into_bytes()
}

/// A model of ours as the workspace is told of it.
fn remote(model: &Model) -> Value {
    json!({"provider": "openai", "modelName": "m", "baseUrl": model.url, "apiKey": "k"})
}

/// Makes an agent without skills that thinks by this model.
fn agent(connection: &mut Connection, model: &Value) -> Result<String> {
    // A database may know those of the server before.
    let name = format!("{:?}", Instant::now());
    let mut model = model.clone();
    model["name"] = json!(name);
    let model = made(connection, "/api/models", &model)?;
    let agent = json!({"name": name, "systemPrompt": PROMPT, "modelId": model});
    made(connection, "/api/agents", &agent)
}

fn conversation(connection: &mut Connection, agent: &str) -> Result<String> {
    made(connection, "/api/assistant/conversations", &json!({"agentId": agent}))
}

/// Makes something and gives its id.
fn made(connection: &mut Connection, path: &str, body: &Value) -> Result<String> {
    let answer = connection.post_json(path, body)?;
    answer["id"].as_str().map(str::to_owned).with_context(|| format!("nothing was made: {answer}"))
}
