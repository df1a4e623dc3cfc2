//! Ratios against peers, measured side by side in one run on one machine.
//!
//! `cargo run --release -p mayfly-bench [-- --json]` after `cargo xtask build`.
//! Absolute times are for reading; only the ratios mean something elsewhere.

mod client;
mod round_trip;
mod server;
mod start;
mod throughput;

use std::process::ExitCode;

use anyhow::Result;

use crate::server::Server;

/// One line of the report.
struct Finding {
    what: &'static str,
    ours: String,
    peer: String,
    ratio: String,
    goal: &'static str,
    met: bool,
}

fn main() -> Result<ExitCode> {
    let json = std::env::args().any(|argument| argument == "--json");
    let server = Server::start("process", &[])?;
    let mut findings = vec![
        round_trip::measure(&server)?,
        throughput::blobs(&server)?,
        throughput::lines(&server)?,
    ];
    drop(server);
    // Walls need root, and the comparison bubblewrap.
    if start::possible() {
        findings.push(start::cold()?);
        findings.push(start::from_the_pool()?);
        findings.push(start::burst()?);
        findings.push(start::idle()?);
    }
    print(&findings, json);
    let all_met = findings.iter().all(|finding| finding.met);
    Ok(if all_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[expect(clippy::print_stdout, reason = "the report is what this program is for")]
fn print(findings: &[Finding], json: bool) {
    for finding in findings {
        let Finding { what, ours, peer, ratio, goal, met } = finding;
        if json {
            let line = serde_json::json!({
                "what": what, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met,
            });
            println!("{line}");
        } else {
            let verdict = if *met { "met" } else { "NOT MET" };
            println!("{what}\n  ours {ours}\n  peer {peer}\n  {ratio}; goal {goal}: {verdict}\n");
        }
    }
}
