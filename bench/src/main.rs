//! Ratios against peers, measured side by side in one run on one machine.
//!
//! `cargo run --release -p mayfly-bench [-- --json]` after `cargo xtask build`.
//! `--workspace` is for the workspace's part alone, and `--database URL` has it
//! on an empty PostgreSQL database instead of SQLite.
//! Absolute times are for reading; only the ratios mean something elsewhere.

mod client;
mod gvisor;
mod internet;
mod loopback;
mod model;
mod report;
mod round_trip;
mod runs;
mod server;
mod start;
mod throughput;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    report::{Format, Line},
    server::Server,
};

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let database = arguments.iter().skip_while(|argument| *argument != "--database").nth(1);
    let format = if has("--json") { Format::Json } else { Format::Text };
    let mut all_good = true;
    let mut say = |line: Line| {
        line.print(format);
        all_good &= line.is_good();
    };
    if !has("--workspace") {
        sandboxes(&mut say)?;
    }
    if start::is_root() {
        say(Line::Found(workspace::turn(database)?));
        say(Line::Found(workspace::deltas(database)?));
        say(Line::Found(workspace::crowd(database)?));
        say(Line::Found(workspace::waiting(database)?));
    } else {
        say(Line::Skipped { what: workspace::ALL, reason: "walls need root" });
    }
    say(Line::Found(workspace::upload(database)?));
    say(Line::Found(workspace::zip(database)?));
    Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sandboxes, and the runs in them.
fn sandboxes(say: &mut impl FnMut(Line)) -> Result<()> {
    let server = Server::start("process", &[])?;
    say(Line::Found(round_trip::measure(&server)?));
    say(Line::Found(throughput::blobs(&server)?));
    say(Line::Found(throughput::lines(&server)?));
    drop(server);
    match start::lacks() {
        None => {
            say(Line::Found(start::cold()?));
            say(Line::Found(start::from_the_pool()?));
            say(Line::Found(start::burst()?));
            say(Line::Found(start::idle()?));
        }
        Some(reason) => say(Line::Skipped { what: start::ALL, reason }),
    }
    if start::is_root() {
        say(Line::Found(runs::first_line()?));
        say(Line::Found(runs::first_model_call()?));
        say(Line::Found(runs::events()?));
        say(Line::Found(runs::waiting()?));
    } else {
        say(Line::Skipped { what: runs::ALL, reason: "walls need root" });
    }
    match internet::lacks() {
        None => say(Line::Found(internet::cold()?)),
        Some(reason) => say(Line::Skipped { what: internet::COLD, reason }),
    }
    match gvisor::lacks() {
        None => say(Line::Found(gvisor::cold()?)),
        Some(reason) => say(Line::Skipped { what: gvisor::COLD, reason }),
    }
    Ok(())
}
