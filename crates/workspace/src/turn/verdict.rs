//! Why a turn ends, when it is not the run that says so.

use std::sync::Arc;

use chrono::TimeDelta;
use store::{OnDisconnect, StoreError, TurnRow};
use wire::run::ErrorCode;

use super::{
    book::Pending,
    event::Ending,
    live::{LiveTurn, Stop},
};
use crate::{clock, runner::DispatchError, state::Workspace, tokens::delta};

/// What the caller waits longer than the run may take.
const ROUTE_GRACE: TimeDelta = TimeDelta::seconds(60);

/// What becomes of the turn.
pub(super) enum Verdict {
    /// The runner said the last of it.
    Over(Pending, Ending),
    /// We say that it ends.
    End(Ending),
    /// The next server goes on.
    Leave,
}

/// Waits for whatever ends a turn from outside.
pub(super) async fn until_stopped(
    workspace: Workspace,
    live: Arc<LiveTurn>,
    row: TurnRow,
) -> Verdict {
    let settings = &workspace.settings;
    let cap = delta(settings.max_runtime) + ROUTE_GRACE;
    let left = (row.started_at + cap - clock::now()).to_std().unwrap_or_default();
    let continues = row.on_disconnect == OnDisconnect::Continue;
    let cancelled = |message: &str| Verdict::End(failed(ErrorCode::Cancelled, message));
    tokio::select! {
        biased;
        why = live.stopped() => match why {
            Stop::Cancelled => cancelled("the turn was cancelled"),
            Stop::Deleted => cancelled("the conversation was deleted"),
        },
        () = workspace.closing.cancelled() => {
            if continues { Verdict::Leave } else { cancelled("the server was stopped") }
        },
        () = tokio::time::sleep(left) => {
            let message = format!("the turn took longer than {} s", cap.num_seconds());
            Verdict::End(failed(ErrorCode::RuntimeExceeded, message))
        },
        () = live.listeners.abandoned(settings.listener_grace), if !continues => {
            cancelled("nobody listened to the turn any more")
        },
    }
}

/// A failure of our own telling.
pub(super) fn failed(code: ErrorCode, message: impl ToString) -> Ending {
    Ending::Failed { code: code.name().to_owned(), message: message.to_string() }
}

/// The store did not take what the turn needs.
pub(super) fn not_stored(err: &StoreError) -> Ending {
    failed(ErrorCode::Internal, format!("the turn could not be stored: {err}"))
}

/// Why a turn was not dispatched, with what to do about it.
pub(super) fn refused(err: &DispatchError) -> Ending {
    let code = match err {
        DispatchError::NoClient(_) | DispatchError::Unwritable(_) => ErrorCode::Internal,
        DispatchError::Unreachable { .. }
        | DispatchError::Late { .. }
        | DispatchError::NoRoom { .. }
        | DispatchError::NoStream { .. } => ErrorCode::SandboxLost,
        DispatchError::NoKey { .. } | DispatchError::Refused { .. } => ErrorCode::BadRequest,
    };
    failed(code, err)
}
