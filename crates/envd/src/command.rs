//! One command, from its start until it is forgotten.
//!
//! ```text
//! running ──► exited ──► finished ──► forgotten
//!             its pipes    `end` was published;
//!             are drained  connectable for a while
//! ```
//!
//! Being booked (as ok, error or killed) is apart from that: a signal books a
//! command as killed while it still runs.

use std::{cell::Cell, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::{Outcome, Started, process::ProcessConfig};

use crate::{exit::Exit, input::Input, output::Output};

/// How long a killed process may take to be gone before its killer is answered.
const REAPING: Duration = Duration::from_millis(50);
/// Bytes of a command line that the host is told; scripts can be long.
const SHOWN: usize = 4 << 10;

/// A command that was started.
pub(crate) struct Command {
    pub(crate) pid: Pid,
    pub(crate) config: ProcessConfig,
    pub(crate) tag: Option<String>,
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// Kills for memory before it began.
    pub(crate) kills_before: u64,
    exit: Cell<Option<Exit>>,
    exited: CancellationToken,
    booked: Cell<Option<Outcome>>,
}

impl Command {
    pub(crate) fn new(
        pid: Pid,
        config: ProcessConfig,
        tag: Option<String>,
        input: Input,
        output: Output,
        kills_before: u64,
    ) -> Command {
        Command {
            pid,
            config,
            tag,
            input,
            output,
            kills_before,
            exit: Cell::new(None),
            exited: CancellationToken::new(),
            booked: Cell::new(None),
        }
    }

    /// The pid as the wire has it.
    pub(crate) fn wire_pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How it ended, once it has.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit.get()
    }

    /// The process is gone. From here on its pid may belong to another.
    pub(crate) fn set_exit(&self, exit: Exit) {
        self.exit.set(Some(exit));
        self.exited.cancel();
    }

    /// Returns when the process is gone.
    pub(crate) async fn exited(&self) {
        self.exited.cancelled().await;
    }

    /// Gives a process that was killed a moment to be gone, so that a client that
    /// looks for it afterwards does not find it.
    pub(crate) async fn soon_gone(&self) {
        // Late or not, the signal was sent.
        let _ = timeout(REAPING, self.exited()).await;
    }

    /// Sends a signal to the command and to everything in its process group.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.exit.get().is_none() {
            // It can fail for a process that has just become a zombie.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Books the command if it is not booked yet, and says whether it was this
    /// call that did.
    pub(crate) fn book(&self, outcome: Outcome) -> bool {
        let first = self.booked.get().is_none();
        if first {
            self.booked.set(Some(outcome));
        }
        first
    }

    /// Whether somebody has booked it.
    pub(crate) fn is_booked(&self) -> bool {
        self.booked.get().is_some()
    }

    /// Whether clients should be shown it as running.
    pub(crate) fn is_listed(&self) -> bool {
        self.exit.get().is_none() && !self.is_booked()
    }

    /// What the host is told about it.
    pub(crate) fn started(&self) -> Started {
        let mut room = SHOWN;
        let mut shown = |text: &str| {
            let cut = text.floor_char_boundary(room);
            room -= cut;
            if cut == text.len() { text.to_owned() } else { format!("{}…", &text[..cut]) }
        };
        let cmd = shown(&self.config.cmd);
        let cwd = self.config.cwd.as_deref().map(&mut shown);
        let tag = self.tag.as_deref().map(&mut shown);
        let mut args = Vec::new();
        for (index, argument) in self.config.args.iter().enumerate() {
            args.push(shown(argument));
            // The number of arguments is as much the caller's choice as their length.
            if index == SHOWN / 64 {
                break;
            }
        }
        Started { pid: self.wire_pid(), cmd, args, cwd, tag }
    }
}
