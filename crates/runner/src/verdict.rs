//! What ends a run, and what its log says then. No death is without a reason.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use sandbox::{EndReason, ProcessError, Sandbox};
use store::RunRow;
use tokio::time::timeout;
use wire::run::{ErrorCode, Refusal, Terminal};

use crate::{attend::Exit, log::LOG_LIMIT, opening::OpeningError, run::Order};

/// An agent that dies with its sandbox is heard of a moment before the sandbox is.
const MOMENT: Duration = Duration::from_millis(500);
/// How long the end of a sandbox may take until its reason is known.
const REASON: Duration = Duration::from_secs(10);

/// How a run's work ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The agent said how.
    Said,
    /// This is how.
    End(Terminal),
    /// It does not, as far as this server is concerned.
    Leave,
}

/// Somebody asked.
pub(crate) fn of_order(order: Order) -> Verdict {
    match order {
        Order::Cancel(reason) => error(ErrorCode::Cancelled, reason),
        Order::Leave => Verdict::Leave,
    }
}

/// The cap was reached.
pub(crate) fn runtime_exceeded(row: &RunRow, deadline: DateTime<Utc>) -> Verdict {
    let seconds = (deadline - row.started_at).num_seconds();
    error(ErrorCode::RuntimeExceeded, format!("the run took longer than {seconds} s"))
}

/// The agent's process ended and said nothing.
pub(crate) async fn of_exit(exit: &Exit, sandbox: &Arc<Sandbox>) -> Verdict {
    let killed = exit.status.starts_with("signal");
    if killed && timeout(MOMENT, sandbox.gone().cancelled()).await.is_ok() {
        return of_sandbox(sandbox).await;
    }
    if exit.out_of_memory {
        return error(ErrorCode::OutOfMemory, "the agent ran out of memory");
    }
    let status = &exit.status;
    let mut message = format!("the agent ended with {status}");
    if !exit.complaints.is_empty() {
        message = format!("{message}: {}", exit.complaints);
    }
    error(ErrorCode::Internal, message)
}

/// Nobody answers in the sandbox.
pub(crate) async fn of_silence(sandbox: &Arc<Sandbox>) -> Verdict {
    if timeout(MOMENT, sandbox.gone().cancelled()).await.is_ok() {
        return of_sandbox(sandbox).await;
    }
    error(ErrorCode::SandboxLost, "the sandbox does not answer any more")
}

/// The sandbox ended before its run did.
pub(crate) async fn of_sandbox(sandbox: &Arc<Sandbox>) -> Verdict {
    match timeout(REASON, sandbox.ended()).await {
        Ok(Some(reason)) => of_reason(reason),
        // This server stops, and leaves the sandbox to the next one.
        Ok(None) => Verdict::Leave,
        Err(_) => error(ErrorCode::SandboxLost, "the sandbox ended"),
    }
}

fn of_reason(reason: EndReason) -> Verdict {
    match reason {
        EndReason::Timeout => error(ErrorCode::RuntimeExceeded, "the sandbox's time was over"),
        EndReason::OutOfMemory => error(ErrorCode::OutOfMemory, "the sandbox ran out of memory"),
        EndReason::Exited | EndReason::Killed | EndReason::Lost | EndReason::Policy => {
            let message = format!("the sandbox ended before the run did: {}", reason.name());
            error(ErrorCode::SandboxLost, message)
        }
    }
}

/// The agent could not be started.
pub(crate) async fn of_opening(err: &OpeningError, sandbox: &Arc<Sandbox>) -> Verdict {
    let code = match err {
        OpeningError::Link(_) | OpeningError::Start(ProcessError::Envd(_)) => {
            if timeout(MOMENT, sandbox.gone().cancelled()).await.is_ok() {
                return of_sandbox(sandbox).await;
            }
            ErrorCode::SandboxLost
        }
        OpeningError::Target(_) | OpeningError::Config(_) => ErrorCode::BadRequest,
        OpeningError::Start(ProcessError::Refused { .. } | ProcessError::Malformed(_))
        | OpeningError::Document(_) => ErrorCode::Internal,
    };
    error(code, err.to_string())
}

/// The agent could not be told its task. One that is gone says so by itself.
pub(crate) fn of_telling(err: &ProcessError) -> Option<Verdict> {
    match err {
        ProcessError::Refused { .. } => None,
        ProcessError::Envd(_) | ProcessError::Malformed(_) => {
            let message = format!("the agent could not be told its task: {err}");
            Some(error(ErrorCode::SandboxLost, message))
        }
    }
}

/// The log cannot be written.
pub(crate) fn log_broken() -> Verdict {
    error(ErrorCode::Internal, "the log of the run could not be written")
}

/// The agent said more than anybody may.
pub(crate) fn log_full() -> Verdict {
    error(ErrorCode::Internal, format!("the log of the run passed {} MiB", LOG_LIMIT >> 20))
}

/// More was done than a log keeps.
pub(crate) fn too_many_steps(refusal: &Refusal) -> Verdict {
    error(ErrorCode::Internal, refusal.to_string())
}

fn error(code: ErrorCode, message: impl Into<String>) -> Verdict {
    Verdict::End(Terminal::Error { code, message: message.into() })
}

#[cfg(test)]
mod tests {
    use sandbox::EndReason;
    use wire::run::{ErrorCode, Terminal};

    use super::{Verdict, of_order, of_reason};
    use crate::run::Order;

    #[track_caller]
    fn check(verdict: Verdict, expected: ErrorCode) {
        let Verdict::End(Terminal::Error { code, .. }) = verdict else { panic!("{verdict:?}") };
        assert_eq!(code, expected);
    }

    #[test]
    fn every_death_has_its_code() {
        check(of_reason(EndReason::Timeout), ErrorCode::RuntimeExceeded);
        check(of_reason(EndReason::OutOfMemory), ErrorCode::OutOfMemory);
        for reason in [EndReason::Exited, EndReason::Killed, EndReason::Lost, EndReason::Policy] {
            check(of_reason(reason), ErrorCode::SandboxLost);
        }
        check(of_order(Order::Cancel("x")), ErrorCode::Cancelled);
        assert_eq!(of_order(Order::Leave), Verdict::Leave);
    }
}
