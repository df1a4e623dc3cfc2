//! Ratios against peers, measured side by side in one run on one machine.
//!
//! `cargo run --release -p mayfly-bench [-- --json]` after `cargo xtask build`.
//! Absolute times are for reading; only the ratios mean something elsewhere.

mod client;
mod gvisor;
mod internet;
mod report;
mod round_trip;
mod runs;
mod server;
mod start;
mod throughput;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    report::{Format, Line},
    server::Server,
};

fn main() -> Result<ExitCode> {
    let json = std::env::args().any(|argument| argument == "--json");
    let format = if json { Format::Json } else { Format::Text };
    let mut all_good = true;
    let mut say = |line: Line| {
        line.print(format);
        all_good &= line.is_good();
    };
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
    Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
