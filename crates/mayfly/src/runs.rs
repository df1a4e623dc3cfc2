//! `mayfly runs`: what a server ran, and what it runs.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use reqwest::{Method, header};
use serde_json::Value;

use crate::client::{Server, ServerArguments};
use crate::run::{self, RAW};
use crate::{files, output};

/// What `runs` takes.
#[derive(Debug, Args)]
pub(crate) struct RunsArguments {
    #[command(subcommand)]
    command: Option<RunsCommand>,
    #[command(flatten)]
    server: ServerArguments,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

/// What can be done to runs.
#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List runs, the newest first (the default)
    List {
        /// How many at most
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show a run from its beginning, and follow it if it still runs
    ///
    /// Ctrl-C cancels a run that still runs.
    Follow {
        /// Its id
        id: String,
        /// Begin behind this event
        #[arg(long, default_value_t = 0)]
        after: u64,
    },
    /// End a run that still runs
    Cancel {
        /// Its id
        id: String,
    },
    /// Fetch the files that a run left
    Files {
        /// Its id
        id: String,
        /// Where to put them
        #[arg(long, value_name = "DIR", default_value = ".")]
        output: PathBuf,
    },
}

/// Does what was asked.
pub(crate) fn command(arguments: RunsArguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::new(&arguments.server)?;
        match arguments.command.unwrap_or(RunsCommand::List { limit: 20 }) {
            RunsCommand::List { limit } => {
                let page: Value = server.get(&format!("/runs?limit={limit}")).await?;
                if arguments.json {
                    output::print_json(&page)?;
                } else {
                    output::print(&list(&page))?;
                }
            }
            RunsCommand::Follow { id, after } => {
                let live = io::stdout().is_terminal() && !arguments.json;
                let request = server
                    .request(Method::GET, &format!("/runs/{id}/stream?after={after}"))
                    .header(header::ACCEPT, RAW);
                let answer = server.send(request).await?;
                return Ok(run::follow(&server, &id, answer, live).await?.exit_code());
            }
            RunsCommand::Cancel { id } => {
                let cancel = server.request(Method::POST, &format!("/runs/{id}/cancel"));
                server.send(cancel).await?;
            }
            RunsCommand::Files { id, output } => files::fetch(&server, &id, &output).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn list(page: &Value) -> String {
    let runs = page["runs"].as_array().map_or(&[][..], Vec::as_slice);
    if runs.is_empty() {
        return "There are no runs. `mayfly run` begins one.\n".to_owned();
    }
    let text = |run: &Value, field: &str| run[field].as_str().unwrap_or("-").to_owned();
    let head = ["ID", "STATE", "STARTED", "ENDED", "PROMPT"].map(str::to_owned);
    let rows = runs.iter().map(|run| {
        let state = match run["code"].as_str() {
            Some(code) => format!("{} ({code})", text(run, "state")),
            None => text(run, "state"),
        };
        let prompt = shown(&text(run, "prompt"));
        [text(run, "id"), state, text(run, "started_at"), text(run, "ended_at"), prompt]
    });
    output::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// The beginning of a prompt, on one line that a terminal only shows.
fn shown(prompt: &str) -> String {
    const SHOWN: usize = 60;
    let line: String = prompt.replace(char::is_control, " ");
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
