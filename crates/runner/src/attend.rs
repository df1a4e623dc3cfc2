//! Listening to the agent: its process in the sandbox, its lines as they come,
//! and how it ended.
//!
//! The stream to the sandbox may break while the agent lives. It is taken up
//! again behind the last piece that arrived, a few times; envd holds back what
//! the agent writes meanwhile.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use sandbox::{Events, Next, ProcessError, Sandbox, StartOptions, Unread};
use wire::{
    process::{
        self as pb,
        process_event::{EndEvent, Event, data_event::Output},
    },
    run::RunId,
};

use crate::lines::{Line, LineCutter, Tail};

/// How often a broken stream is taken up again before the sandbox counts as lost.
const ATTEMPTS: u32 = 5;
/// The pause before the first of them; each next one is twice as long.
const PAUSE: Duration = Duration::from_millis(50);
/// Most bytes in one message to envd.
const CHUNK: usize = 256 << 10;

/// An agent, as heard from here.
pub(crate) struct Attendance {
    sandbox: Arc<Sandbox>,
    process: pb::ProcessSelector,
    events: Option<Events>,
    /// The number of the last piece of output that arrived.
    pieces: u64,
    attempts: u32,
    cutter: LineCutter,
    complaints: Tail,
}

/// What an agent did.
pub(crate) enum Said {
    /// It wrote lines; at times none.
    Lines(Vec<Line>),
    /// It is over.
    Ended(Exit),
    /// Nobody knows: its sandbox does not answer any more.
    Silence,
}

/// How an agent's process ended.
pub(crate) struct Exit {
    /// In envd's words: `exit status 1`, `signal: killed`.
    pub(crate) status: String,
    pub(crate) out_of_memory: bool,
    /// The end of its standard error.
    pub(crate) complaints: String,
}

impl Attendance {
    /// Starts the agent at `program`. It has been told nothing yet.
    pub(crate) async fn start(
        sandbox: Arc<Sandbox>,
        run: &RunId,
        program: &str,
        user: Option<&str>,
    ) -> Result<Attendance, ProcessError> {
        let process = pb::ProcessConfig {
            cmd: program.to_owned(),
            cwd: Some("/".to_owned()),
            ..Default::default()
        };
        let message = pb::StartRequest {
            process: process.into(),
            tag: Some(run.as_str().to_owned()),
            stdin: Some(true),
            ..Default::default()
        };
        let options = StartOptions { timeout_ms: 0, user, unread: Unread::Held };
        let events = sandbox.start(&message, options).await?;
        Ok(Attendance { events: Some(events), ..Attendance::rejoin(sandbox, run) })
    }

    /// Takes up the agent that a former server started, with everything it wrote
    /// that is still held.
    pub(crate) fn rejoin(sandbox: Arc<Sandbox>, run: &RunId) -> Attendance {
        Attendance {
            sandbox,
            process: selector(run),
            events: None,
            pieces: 0,
            attempts: 0,
            cutter: LineCutter::default(),
            complaints: Tail::default(),
        }
    }

    /// Waits for what comes next. Dropping the wait loses nothing.
    pub(crate) async fn next(&mut self) -> Said {
        loop {
            let Some(events) = &mut self.events else {
                if self.attempts >= ATTEMPTS {
                    return Said::Silence;
                }
                self.reconnect().await;
                continue;
            };
            let mut lines = Vec::new();
            let mut next = Some(events.next().await);
            while let Some(one) = next {
                match one {
                    Next::Event(Event::Start(_) | Event::Keepalive(_)) => {}
                    Next::Event(Event::Data(data)) => {
                        self.attempts = 0;
                        self.pieces += 1;
                        match data.output {
                            Some(Output::Stdout(bytes)) => self.cutter.push(&bytes, &mut lines),
                            Some(Output::Stderr(bytes)) => self.complaints.push(&bytes),
                            Some(Output::Pty(_)) | None => {}
                        }
                    }
                    Next::Event(Event::End(end)) if lines.is_empty() => {
                        return Said::Ended(self.exit(*end));
                    }
                    Next::Event(Event::End(end)) => {
                        // The lines first; the end is asked for again.
                        events.put_back(Next::Event(Event::End(end)));
                        return Said::Lines(lines);
                    }
                    Next::Failed(_) | Next::Closed => {
                        self.events = None;
                        break;
                    }
                }
                next = events.ready();
            }
            if !lines.is_empty() {
                return Said::Lines(lines);
            }
        }
    }

    async fn reconnect(&mut self) {
        tokio::time::sleep(PAUSE * 2u32.pow(self.attempts)).await;
        self.attempts += 1;
        let Ok(events) = self.sandbox.connect(self.process.clone(), self.pieces).await else {
            return;
        };
        // What lies between was not held: the line it was part of is lost.
        let first = events.first_seq().unwrap_or(self.pieces + 1);
        if first != self.pieces + 1 {
            self.cutter.reset();
            self.pieces = first.saturating_sub(1);
        }
        self.events = Some(events);
    }

    fn exit(&self, end: EndEvent) -> Exit {
        Exit {
            out_of_memory: end.error.as_deref() == Some("out_of_memory"),
            status: end.status,
            complaints: self.complaints.text(),
        }
    }
}

/// Gives the agent everything it has to know, and nothing after that.
pub(crate) async fn tell(
    sandbox: Arc<Sandbox>,
    run: RunId,
    document: Bytes,
) -> Result<(), ProcessError> {
    let mut rest = document;
    while !rest.is_empty() {
        let chunk = rest.split_to(rest.len().min(CHUNK));
        sandbox.send_input(selector(&run), chunk).await?;
    }
    sandbox.close_stdin(selector(&run)).await
}

fn selector(run: &RunId) -> pb::ProcessSelector {
    pb::ProcessSelector {
        selector: Some(pb::process_selector::Selector::Tag(run.as_str().to_owned())),
    }
}
