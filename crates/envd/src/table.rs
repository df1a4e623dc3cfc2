//! Every command: those that run, and for a while those that are over.
//!
//! A finished command stays connectable for 30 s. How many do, and how much
//! output they keep together, is bounded; the oldest output goes first, and the
//! way a command ended goes last.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use wire::{
    ControlMessage, Outcome,
    process::{ProcessSelector, process_selector::Selector},
};

use crate::{command::Command, exit::Exit, system::release_memory};

/// How long a finished command can be connected to.
const RETENTION: Duration = Duration::from_secs(30);
/// Finished commands kept.
const FINISHED: usize = 1024;
/// Bytes of output kept for all finished commands together.
const FINISHED_OUTPUT: usize = 16 << 20;

/// All commands of the sandbox.
#[derive(Default)]
pub(crate) struct Table {
    rows: RefCell<Rows>,
    finished: Notify,
}

#[derive(Default)]
struct Rows {
    /// By pid. A new process takes the place of a finished one with its pid.
    commands: HashMap<u32, Rc<Command>>,
    finished: VecDeque<Finished>,
    tally: Tally,
}

struct Finished {
    command: Rc<Command>,
    until: Instant,
}

/// Commands since envd began. What is started and in no other field is running.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    started: u64,
    ok: u64,
    error: u64,
    killed: u64,
}

/// No such command.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum FindError {
    #[error("process with pid {0} not found")]
    Pid(u32),
    #[error("process with tag '{0}' not found")]
    Tag(String),
    #[error("request names no process: give its pid or its tag")]
    Unnamed,
}

impl Table {
    /// Adds a command that has just been started.
    pub(crate) fn insert(&self, command: Rc<Command>) {
        let mut rows = self.rows.borrow_mut();
        rows.tally.started += 1;
        rows.commands.insert(command.wire_pid(), command);
    }

    /// The command of that name, running or finished.
    pub(crate) fn find(&self, selector: &ProcessSelector) -> Result<Rc<Command>, FindError> {
        let rows = self.rows.borrow();
        match &selector.selector {
            Some(Selector::Pid(pid)) => rows.commands.get(pid).cloned().ok_or(FindError::Pid(*pid)),
            Some(Selector::Tag(tag)) => {
                let tagged = |command: &&Rc<Command>| command.tag.as_ref() == Some(tag);
                let running = |command: &&Rc<Command>| command.exit().is_none();
                let mut running = rows.commands.values().filter(running);
                let finished = || rows.finished.iter().rev().map(|finished| &finished.command);
                // One whose end is held is in neither of the lists.
                let mut held = rows.commands.values().filter(|command| command.output.is_held());
                let found = running.find(tagged).or_else(|| finished().find(tagged));
                let found = found.or_else(|| held.find(tagged));
                found.cloned().ok_or_else(|| FindError::Tag(tag.clone()))
            }
            None => Err(FindError::Unnamed),
        }
    }

    /// The command of that name, if its process still exists.
    pub(crate) fn find_running(
        &self,
        selector: &ProcessSelector,
    ) -> Result<Rc<Command>, FindError> {
        let command = self.find(selector)?;
        if command.exit().is_none() {
            return Ok(command);
        }
        Err(match &selector.selector {
            Some(Selector::Tag(tag)) => FindError::Tag(tag.clone()),
            Some(Selector::Pid(_)) | None => FindError::Pid(command.wire_pid()),
        })
    }

    /// Commands whose process exists, in the order of their pids.
    pub(crate) fn running(&self) -> Vec<Rc<Command>> {
        let rows = self.rows.borrow();
        let running = rows.commands.values().filter(|command| command.exit().is_none());
        let mut running: Vec<_> = running.cloned().collect();
        running.sort_by_key(|command| command.wire_pid());
        running
    }

    /// A process was reaped. It is a command's, or an orphan's that nobody knows.
    pub(crate) fn reaped(&self, pid: u32, exit: Exit) {
        let command = self.rows.borrow().commands.get(&pid).cloned();
        if let Some(command) = command.filter(|command| command.exit().is_none()) {
            command.set_exit(exit);
        }
    }

    /// Books a command, once; says whether it was this call that did.
    pub(crate) fn book(&self, command: &Command, outcome: Outcome) -> bool {
        if !command.book(outcome) {
            return false;
        }
        let tally = &mut self.rows.borrow_mut().tally;
        match outcome {
            Outcome::Ok => tally.ok += 1,
            Outcome::Error => tally.error += 1,
            Outcome::Killed => tally.killed += 1,
        }
        true
    }

    /// Begins the time for which a finished command is kept.
    pub(crate) fn finish(&self, command: Rc<Command>) {
        if command.output.is_held() {
            // Whoever had it held comes for its end, however late.
            return;
        }
        let mut rows = self.rows.borrow_mut();
        rows.finished.push_back(Finished { command, until: Instant::now() + RETENTION });
        while rows.finished.len() > FINISHED {
            rows.forget_oldest();
        }
        let mut kept: usize = rows.finished.iter().map(|one| one.command.output.kept()).sum();
        for finished in &rows.finished {
            if kept <= FINISHED_OUTPUT {
                break;
            }
            let output = &finished.command.output;
            let before = output.kept();
            output.discard();
            kept -= before - output.kept();
        }
        self.finished.notify_one();
    }

    /// Forgets finished commands when their time is over. Never returns.
    pub(crate) async fn expire(&self) {
        loop {
            let next = self.rows.borrow().finished.front().map(|finished| finished.until);
            match next {
                None => self.finished.notified().await,
                Some(until) => {
                    sleep_until(until).await;
                    let mut rows = self.rows.borrow_mut();
                    let now = Instant::now();
                    while rows.finished.front().is_some_and(|finished| finished.until <= now) {
                        rows.forget_oldest();
                    }
                    if rows.finished.is_empty() {
                        release_memory();
                    }
                }
            }
        }
    }

    /// The state of things, for the host.
    pub(crate) fn snapshot(&self) -> ControlMessage {
        let running = self.running();
        let listed = running.iter().filter(|command| command.is_listed());
        let commands = listed.map(|command| command.started()).collect();
        let Tally { started, ok, error, killed } = self.rows.borrow().tally;
        ControlMessage::Snapshot { started, ok, error, killed, commands }
    }
}

impl Rows {
    fn forget_oldest(&mut self) {
        let Some(Finished { command, .. }) = self.finished.pop_front() else { return };
        let pid = command.wire_pid();
        if self.commands.get(&pid).is_some_and(|current| Rc::ptr_eq(current, &command)) {
            self.commands.remove(&pid);
        }
    }
}
