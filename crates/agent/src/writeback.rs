//! What lies in the assets directory at the end goes back to the caller:
//! once, before the terminal event, to its workspace or to the host for it.
//!
//! It is a step like any other. When it fails the step says why, and the run's
//! result goes out all the same. With nothing to send nothing is asked, and the
//! token is left to expire.

mod answer;
mod collect;
mod form;

use std::time::Duration;

use http::{Request, header};
use serde_json::{Value, json};
use wire::Secret;
use wire::run::{Event, Level};

use crate::emit::Emitter;
use crate::failure::with_cause;
use crate::http::{self as link_http, HttpError, allowance};
use crate::session::Session;

use answer::AnswerError;
use collect::{Asset, CollectError, collect};
use form::Form;

/// Name of the step.
const STEP: &str = "writeback";

/// Where files are looked for, below the workspace.
pub(crate) const DIRECTORY: &str = "assets";

/// Largest answer of the workspace.
const ANSWER_BYTES: u64 = 1 << 20;

/// Who takes the files.
#[derive(Clone, Debug)]
pub(crate) enum Taker {
    /// The caller's workspace, for its one-time token.
    Workspace(Secret<String>),
    /// The host, for a caller without one. It knows its sandbox by the link.
    Host,
}

/// Why files were not written back.
#[derive(Debug, thiserror::Error)]
enum WritebackError {
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error("POST /agent/results: {}", with_cause(.0))]
    Http(#[from] HttpError),
    #[error("POST /agent/results: {0}")]
    Request(#[from] http::Error),
    #[error("the workspace refused the files: {status}{}", reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default())]
    Refused { status: u16, reason: Option<String> },
    #[error("the workspace took the files, but {0}")]
    Answer(#[from] AnswerError),
}

/// Writes back what there is.
pub(crate) async fn write_back(session: &Session, taker: &Taker, out: &Emitter) {
    let directory = session.workspace_dir.join(DIRECTORY);
    let collected = collect(&directory, &session.limits, |skipped| {
        out.log(Level::Warn, format!("not written back: {skipped}"));
    });
    let assets = match collected {
        Ok(assets) if assets.is_empty() => return,
        collected => collected,
    };
    let names = assets.as_ref().map(|assets| assets.iter().map(Asset::shown).collect::<Value>());
    let step = out.step(STEP, json!({"files": names.unwrap_or_else(|_| json!([]))}));
    let sent = match assets {
        Ok(assets) => send(&assets, session, taker).await,
        Err(err) => Err(err.into()),
    };
    match sent {
        Ok((answer, files)) => {
            step.succeed(answer);
            out.emit(Event::Uploaded { files });
        }
        Err(err) => step.fail(err.to_string()),
    }
}

async fn send(
    assets: &[Asset],
    session: &Session,
    taker: &Taker,
) -> Result<(Value, Vec<wire::run::UploadedFile>), WritebackError> {
    let form = Form::new(assets);
    let patience =
        Duration::from_millis(session.limits.callback_timeout_ms) + allowance(form.length());
    let mut request = Request::post(format!("{}/agent/results", session.link))
        .header(header::CONTENT_TYPE, form.content_type());
    if let Taker::Workspace(otp) = taker {
        request = request.header(header::AUTHORIZATION, otp.expose());
    }
    let request = request.body(form.into_body())?;
    let answer = link_http::send(request, patience).await?;
    let status = answer.status;
    let body = answer.read_whole(ANSWER_BYTES, patience).await;
    if !status.is_success() {
        let reason = answer::reason(&body.unwrap_or_default());
        return Err(WritebackError::Refused { status: status.as_u16(), reason });
    }
    Ok(answer::read(&body?, assets)?)
}
