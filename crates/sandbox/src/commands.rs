//! The commands of one sandbox, as its control stream tells of them.
//!
//! Every command that was counted as started is booked exactly once as ok,
//! error or killed, whatever the sandbox says: a second end of a pid is
//! ignored, and closing books the rest as killed.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use chrono::{DateTime, Utc};
use wire::{CommandInfo, CommandReason, CommandState, ControlMessage, Outcome, SandboxId, Started};

use crate::{Log, Tally};

/// Finished commands that can still be looked up.
const FINISHED: usize = 64;
/// More than any sandbox with a pid limit can have; past it a sandbox is lying.
const ACTIVE: usize = 16_384;
/// What a lying sandbox can add to the counters in one message.
const LEAP: u64 = 1 << 20;
/// Bytes of a command's argument that are kept for looking at.
const ARGUMENT: usize = 4096;

/// Registry and books of one sandbox's commands.
pub struct Commands {
    sandbox: SandboxId,
    tally: Arc<Tally>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    active: BTreeMap<u32, CommandInfo>,
    finished: VecDeque<CommandInfo>,
    booked: [u64; 3],
    closed: bool,
}

/// How a command ended.
struct End {
    outcome: Outcome,
    exit_code: Option<i32>,
    reason: Option<CommandReason>,
}

impl End {
    /// One of which nothing else is known.
    fn of(outcome: Outcome) -> End {
        End { outcome, exit_code: None, reason: None }
    }
}

impl Commands {
    pub(crate) fn new(sandbox: SandboxId, tally: Arc<Tally>) -> Commands {
        Commands { sandbox, tally, inner: Mutex::default() }
    }

    /// The running ones, by pid.
    pub fn active(&self) -> Vec<CommandInfo> {
        self.read(|inner| inner.active.values().cloned().collect())
    }

    /// A running one, or one that ended not long ago.
    pub fn find(&self, pid: u32) -> Option<CommandInfo> {
        self.read(|inner| {
            let finished = || inner.finished.iter().rev().find(|info| info.pid == pid);
            inner.active.get(&pid).or_else(finished).cloned()
        })
    }

    /// Takes in one message of the control stream.
    pub(crate) fn apply(&self, message: ControlMessage, now: DateTime<Utc>, log: &Log) {
        match message {
            ControlMessage::Start(started) => self.write(|inner| self.start(inner, started, now)),
            ControlMessage::End { pid, outcome, exit_code, reason } => {
                self.write(|inner| self.end(inner, pid, End { outcome, exit_code, reason }));
            }
            ControlMessage::Snapshot { ok, error, killed, commands, .. } => {
                self.write(|inner| self.reconcile(inner, [ok, error, killed], commands, now));
            }
            ControlMessage::Log { pid, stream, text, dropped } => {
                if dropped > 0 {
                    log.mark_truncated();
                }
                log.append(now, pid, stream, &text);
            }
        }
    }

    /// The sandbox is over: what still runs is booked as killed.
    pub(crate) fn close(&self) {
        self.write(|inner| {
            let living: Vec<u32> = inner.active.keys().copied().collect();
            for pid in living {
                self.end(inner, pid, End::of(Outcome::Killed));
            }
            inner.closed = true;
        });
    }

    fn start(&self, inner: &mut Inner, started: Started, now: DateTime<Utc>) {
        let known = inner.active.contains_key(&started.pid);
        if inner.closed || known || inner.active.len() >= ACTIVE {
            return;
        }
        self.tally.command_started();
        inner.active.insert(started.pid, self.info(started, now));
    }

    fn end(&self, inner: &mut Inner, pid: u32, end: End) {
        let Some(mut info) = inner.active.remove(&pid) else { return };
        let End { outcome, exit_code, reason } = end;
        self.tally.command_finished(outcome);
        if reason == Some(CommandReason::OutOfMemory) {
            self.tally.command_out_of_memory();
        }
        inner.booked[slot(outcome)] += 1;
        info.state = CommandState::from(outcome);
        info.exit_code = exit_code;
        info.reason = reason;
        inner.finished.push_back(info);
        if inner.finished.len() > FINISHED {
            inner.finished.pop_front();
        }
    }

    /// Makes up for messages that were lost: `totals` is what the sandbox has
    /// booked since it began, `commands` what runs now.
    fn reconcile(
        &self,
        inner: &mut Inner,
        totals: [u64; 3],
        commands: Vec<Started>,
        now: DateTime<Utc>,
    ) {
        let mut unseen = [0; 3];
        for (slot, total) in totals.into_iter().enumerate() {
            unseen[slot] = total.saturating_sub(inner.booked[slot]).min(LEAP);
        }
        let vanished: Vec<u32> = inner
            .active
            .keys()
            .copied()
            .filter(|pid| commands.iter().all(|started| started.pid != *pid))
            .collect();
        for pid in vanished {
            self.end(inner, pid, End::of(take(&mut unseen).unwrap_or(Outcome::Killed)));
        }
        // Whatever is left over began and ended while nobody looked.
        while !inner.closed
            && let Some(outcome) = take(&mut unseen)
        {
            self.tally.command_started();
            self.tally.command_finished(outcome);
            inner.booked[slot(outcome)] += 1;
        }
        for started in commands {
            self.start(inner, started, now);
        }
    }

    fn info(&self, started: Started, now: DateTime<Utc>) -> CommandInfo {
        CommandInfo {
            pid: started.pid,
            sandbox_id: self.sandbox.to_string(),
            cmd: shorten(started.cmd),
            args: started.args.into_iter().take(64).map(shorten).collect(),
            cwd: started.cwd.map(shorten),
            tag: started.tag.map(shorten),
            state: CommandState::Running,
            exit_code: None,
            reason: None,
            started_at: now,
        }
    }

    fn read<T: Default>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        self.inner.lock().map(|inner| look(&inner)).unwrap_or_default()
    }

    fn write(&self, change: impl FnOnce(&mut Inner)) {
        if let Ok(mut inner) = self.inner.lock() {
            change(&mut inner);
        }
    }
}

fn slot(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Ok => 0,
        Outcome::Error => 1,
        Outcome::Killed => 2,
    }
}

/// Takes one outcome out of those not yet booked.
fn take(unseen: &mut [u64; 3]) -> Option<Outcome> {
    let outcomes = [Outcome::Ok, Outcome::Error, Outcome::Killed];
    let outcome = outcomes.into_iter().find(|outcome| unseen[slot(*outcome)] > 0)?;
    unseen[slot(outcome)] -= 1;
    Some(outcome)
}

fn shorten(mut text: String) -> String {
    if text.len() > ARGUMENT {
        text.truncate(text.floor_char_boundary(ARGUMENT));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::{DateTime, Utc};
    use wire::{CommandReason, ControlMessage, Outcome, SandboxId, Started};

    use super::Commands;
    use crate::{Log, Tally};

    fn started(pid: u32) -> Started {
        Started { pid, cmd: "true".into(), args: vec![], cwd: None, tag: None }
    }

    fn start(pid: u32) -> ControlMessage {
        ControlMessage::Start(started(pid))
    }

    fn end(pid: u32, outcome: Outcome) -> ControlMessage {
        ControlMessage::End { pid, outcome, exit_code: None, reason: None }
    }

    fn snapshot(totals: [u64; 3], pids: &[u32]) -> ControlMessage {
        let [ok, error, killed] = totals;
        let commands: Vec<_> = pids.iter().copied().map(started).collect();
        let ended: u64 = totals.iter().sum();
        ControlMessage::Snapshot { started: ended + pids.len() as u64, ok, error, killed, commands }
    }

    /// Plays messages and compares `[started, ok, error, killed, active]`.
    #[track_caller]
    fn check(messages: Vec<ControlMessage>, expected: [u64; 5]) -> Commands {
        let tally = Arc::new(Tally::default());
        let commands = Commands::new(SandboxId::parse("i1").unwrap(), Arc::clone(&tally));
        for message in messages {
            commands.apply(message, DateTime::<Utc>::UNIX_EPOCH, &Log::default());
        }
        let [ok, error, killed] = tally.finished().map(|(_, count)| count);
        assert_eq!([tally.started(), ok, error, killed, tally.active()], expected);
        commands
    }

    #[test]
    fn each_command_is_booked_exactly_once() {
        let commands = check(
            vec![
                start(1),
                start(1),
                end(1, Outcome::Killed),
                end(1, Outcome::Ok),
                end(9, Outcome::Ok),
                start(2),
            ],
            [2, 0, 0, 1, 1],
        );
        assert_eq!(commands.active().len(), 1);
        assert_eq!(commands.find(1).unwrap().state, wire::CommandState::Killed);
        assert_eq!(commands.find(9), None);
    }

    #[test]
    fn a_command_that_memory_ran_out_for_is_counted_once_and_keeps_its_reason() {
        let reason = Some(CommandReason::OutOfMemory);
        let oom =
            |pid| ControlMessage::End { pid, outcome: Outcome::Error, exit_code: Some(-1), reason };
        let commands = check(vec![start(1), oom(1), oom(1), oom(2)], [1, 0, 1, 0, 0]);
        assert_eq!(commands.tally.out_of_memory(), 1);
        assert_eq!(commands.find(1).unwrap().reason, reason);
    }

    #[test]
    fn a_pid_may_come_again_after_its_end() {
        check(
            vec![start(1), end(1, Outcome::Ok), start(1), end(1, Outcome::Error)],
            [2, 1, 1, 0, 0],
        );
    }

    #[test]
    fn a_snapshot_makes_up_for_lost_messages_and_keeps_the_partition() {
        // 1 ended well unseen, 2 still runs, 3 is new, two more came and went.
        check(vec![start(1), start(2), snapshot([2, 1, 0], &[2, 3])], [5, 2, 1, 0, 2]);
        // The sandbox forgot 1 without booking it.
        check(vec![start(1), snapshot([0, 0, 0], &[])], [1, 0, 0, 1, 0]);
        // The same snapshot again changes nothing.
        let twice = vec![snapshot([1, 0, 0], &[7]), snapshot([1, 0, 0], &[7])];
        check(twice, [2, 1, 0, 0, 1]);
    }

    #[test]
    fn closing_books_the_living_as_killed_and_ends_the_books() {
        let commands = check(vec![start(1), start(2)], [2, 0, 0, 0, 2]);
        commands.close();
        commands.close();
        commands.apply(start(3), DateTime::<Utc>::UNIX_EPOCH, &Log::default());
        assert_eq!(commands.tally.finished()[2], ("killed", 2));
        assert_eq!((commands.tally.started(), commands.tally.active()), (2, 0));
    }
}
