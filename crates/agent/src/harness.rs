//! What runs the loop: our own turn, or a vendor's CLI inside the sandbox.
//!
//! ```text
//! session to go on with? ──► fetched from the host ──► CLI ──► events ──► archived at the host
//! ```
//!
//! A CLI talks to its model, to the caller's tools and to MCP servers through
//! the host link, with dummy keys. Each adapter is one file that starts its CLI
//! and translates what it prints; all that they share is here beside them.

mod archive;
mod child;
mod heard;
mod job;
mod prompt;
mod steps;

mod acp;
mod claude;
mod codex;
mod grok;
mod opencode;

use std::path::PathBuf;
use std::sync::Arc;

use wire::agent::Harness;
use wire::run::{ErrorCode, Level};

use crate::code_mode::{self, Interpreter};
use crate::emit::Emitter;
use crate::failure::Failure;
use crate::local_mcp::LocalServer;
use crate::session::Session;
use crate::turn;

use job::Job;

/// How an adapter's run ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The final message.
    pub(crate) message: String,
    /// The CLI's own session, if it has one that can go on.
    pub(crate) session_id: Option<String>,
}

/// Runs the harness of the session; the final message, or why there is none.
pub(crate) async fn run(session: &Session, out: &Emitter) -> Result<String, Failure> {
    if session.harness == Harness::Builtin {
        return turn::run(session, out).await;
    }
    if let Some(id) = &session.resume {
        archive::restore(session, id).await?;
    }
    let local = local_server(session, out).await;
    let mut job = Job::new(session, out).with_local(local.as_ref());
    let gate = Arc::clone(&job.gate);
    let turn = turn_of(&mut job);
    let ended = match &local {
        Some(local) => local.serve_during(Interpreter { session, out, gate: &gate }, turn).await,
        None => turn.await,
    };
    // A turn that failed is one that the next one may want to go on from.
    let finished = ended.as_ref().ok().and_then(|finished| finished.session_id.as_deref());
    if let Some(id) = finished.or(job.announced()) {
        archive::keep(session, id, out).await;
    }
    ended.map(|finished| finished.message)
}

/// One turn of the session's CLI.
async fn turn_of(job: &mut Job<'_>) -> Result<Finished, Failure> {
    match job.session.harness {
        Harness::Builtin => {
            Err(Failure::new(ErrorCode::Internal, "our own loop is no adapter's to run"))
        }
        Harness::ClaudeCode => claude::run(job).await,
        Harness::Codex => codex::run(job).await,
        Harness::Opencode => opencode::run(job).await,
        Harness::GrokBuild => grok::run(job).await,
    }
}

/// Where the CLI finds the tools that run programs, if it may.
async fn local_server(session: &Session, out: &Emitter) -> Option<LocalServer> {
    if !code_mode::is_on(session) {
        return None;
    }
    match LocalServer::open().await {
        Ok(server) => Some(server),
        Err(err) => {
            out.log(Level::Warn, format!("there is no code mode in this run: {err}"));
            None
        }
    }
}

/// The files below the home that hold a session of a harness, as far as they
/// are there.
fn session_files(session: &Session, id: &str) -> Vec<PathBuf> {
    match session.harness {
        Harness::Builtin => Vec::new(),
        Harness::ClaudeCode => claude::session_files(session, id),
        Harness::Codex => codex::session_files(session, id),
        Harness::Opencode => opencode::session_files(session, id),
        Harness::GrokBuild => grok::session_files(session, id),
    }
}
