//! The line to a CLI: what is asked is numbered, and nothing is waited for
//! without an end.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use wire::run::ErrorCode;

use super::message::{self, Incoming, Refusal};
use crate::failure::Failure;
use crate::harness::child::Child;

/// How long a CLI may take to start, and to open a session with its servers.
const SETUP: Duration = Duration::from_secs(120);
/// How long a turn waits for the servers of its session.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long a CLI may take to write down a session.
const CLOSING: Duration = Duration::from_secs(2);
/// How long a CLI may leave its input unread.
const WRITE: Duration = Duration::from_secs(60);

/// A CLI that is spoken to.
pub(super) struct Line {
    pub(super) child: Child,
    program: &'static str,
    /// Number of the last question.
    asked: u64,
    /// The notice that says that the servers of the session are connected, until
    /// it came.
    connected: Option<&'static str>,
}

/// An answer of a CLI and the number of its question.
type Answered = (u64, Result<Value, Refusal>);

/// Why there is no final message.
pub(super) enum Broken {
    /// The CLI ended, or does not listen.
    Gone,
    /// There is a reason to give.
    Failed(Failure),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Broken {
        Broken::Failed(failure)
    }
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken::Gone
    }
}

impl Line {
    pub(super) fn new(
        child: Child,
        program: &'static str,
        connected: Option<&'static str>,
    ) -> Line {
        Line { child, program, asked: 0, connected }
    }

    /// Asks something; the number of the question.
    pub(super) async fn ask(&mut self, method: &str, params: &Value) -> Result<u64, Broken> {
        self.asked += 1;
        self.write(&message::question(self.asked, method, params)).await?;
        Ok(self.asked)
    }

    /// Asks something that is answered soon. What is told meanwhile is not of
    /// any turn, and is not heard.
    pub(super) async fn settle(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, Refusal>, Broken> {
        let number = self.ask(method, params).await?;
        let answering = async {
            loop {
                match self.hear().await? {
                    Some((id, answer)) if id == number => return Ok(answer),
                    Some(_) | None => {}
                }
            }
        };
        timeout(SETUP, answering).await.unwrap_or_else(|_| {
            let seconds = SETUP.as_secs();
            Err(self.failed(&format!("did not answer `{method}` within {seconds} s")).into())
        })
    }

    /// Waits until the servers of the session are connected, if the CLI says so:
    /// before that its model asks for their tools in vain. A server that takes
    /// too long does not hold up the turn.
    pub(super) async fn await_servers(&mut self) -> Result<(), Broken> {
        let connecting = async {
            while self.connected.is_some() {
                self.hear().await?;
            }
            Ok(())
        };
        timeout(CONNECTING, connecting).await.unwrap_or(Ok(()))
    }

    /// Ends the CLI: at once if it says that its session is closed, since it may
    /// take seconds to end by itself.
    pub(super) async fn close(mut self, session_id: Option<&str>) {
        if let Some(id) = session_id {
            let params = json!({"sessionId": id});
            let closing = self.settle("session/close", &params);
            if matches!(timeout(CLOSING, closing).await, Ok(Ok(Ok(_)))) {
                return;
            }
        }
        self.child.end().await;
    }

    /// Hears one line that is not of any turn.
    async fn hear(&mut self) -> Result<Option<Answered>, Broken> {
        let line = self.child.line().await?.ok_or(Broken::Gone)?;
        match Incoming::parse(&line) {
            Some(Incoming::Answer { id, answer }) => return Ok(Some((id, answer))),
            Some(Incoming::Question { id, method, .. }) => {
                self.write(&message::not_offered(&id, &method)).await?;
            }
            Some(Incoming::Notice { method, .. }) => {
                self.connected = self.connected.filter(|notice| *notice != method);
            }
            None => {}
        }
        Ok(None)
    }

    pub(super) async fn write(&mut self, line: &str) -> Result<(), Broken> {
        match timeout(WRITE, self.child.write_line(line)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(self.failed("does not read its input").into()),
        }
    }

    /// The CLI does not do what it has to.
    pub(super) fn refused(&self, method: &str, refusal: &Refusal) -> Failure {
        self.failed(&format!("refused `{method}`: {}", refusal.words))
    }

    pub(super) fn failed(&self, what: &str) -> Failure {
        Failure::new(ErrorCode::Internal, format!("`{}` {what}", self.program))
    }
}
