//! One task per command: pumps its output, keeps its time limit, and sees to
//! its end. It belongs to nobody's request, so a client that leaves changes
//! nothing.

use std::rc::Rc;

use tokio::time::{Instant, sleep_until};
use wire::{Code, CommandReason, ConnectError};

use crate::{
    command::Command,
    daemon::Daemon,
    exit::Exit,
    output::ReaderId,
    pump::{Drained, discard, pump},
    spawn::Source,
};

/// When a command must be over, and whose stream says so.
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) reader: ReaderId,
}

/// Carries a command from its start to its retention.
pub(crate) async fn supervise(
    daemon: Rc<Daemon>,
    command: Rc<Command>,
    sources: Vec<Source>,
    deadline: Option<Deadline>,
) {
    let drained = {
        let over = run(&daemon, &command, sources);
        tokio::pin!(over);
        match deadline {
            None => over.await,
            Some(deadline) => tokio::select! {
                biased;
                drained = &mut over => drained,
                () = sleep_until(deadline.at) => {
                    // The pumps go on: other readers may want what is left.
                    let ((), drained) = tokio::join!(kill(&daemon, &command, &deadline), over);
                    drained
                }
            },
        }
    };
    end(&daemon, command).await;
    for left in drained {
        if let Drained::StillOpen(receiver) = left {
            daemon.tasks.spawn_local(discard(receiver));
        }
    }
}

/// Pumps until the process is gone and its pipes are drained.
async fn run(daemon: &Daemon, command: &Command, sources: Vec<Source>) -> Vec<Drained> {
    let mut sources = sources.into_iter();
    let mut pump_next = || sources.next().map(|source| pump(source, command, &daemon.control));
    let (first, second) = (pump_next(), pump_next());
    let optional = async |pump| match pump {
        Some(pump) => Some(pump.await),
        None => None,
    };
    let (first, second, ()) = tokio::join!(optional(first), optional(second), command.exited());
    first.into_iter().chain(second).collect()
}

/// The time is over, whether the client is still there or not.
async fn kill(daemon: &Daemon, command: &Command, deadline: &Deadline) {
    if command.exit().is_some() {
        return;
    }
    command.signal(rustix::process::Signal::KILL);
    daemon.told(daemon.book_killed(command)).await;
    command.soon_gone().await;
    let error = ConnectError::new(Code::DeadlineExceeded, "the command's time limit passed");
    command.output.cut(deadline.reader, error);
}

/// Books the command, tells the host, then the clients.
async fn end(daemon: &Daemon, command: Rc<Command>) {
    let Some(exit) = command.exit() else { return };
    command.input.release();
    let reason = reason(daemon, &command, exit);
    daemon.book_end(&command, exit, reason).await;
    command.output.end(match reason {
        Some(reason) => exit.event_with(reason),
        None => exit.event(),
    });
    daemon.table.finish(command);
}

/// Why a command ended that no client has killed, when its exit does not tell.
fn reason(daemon: &Daemon, command: &Command, exit: Exit) -> Option<CommandReason> {
    let killed = exit.was_killed() && !command.is_booked();
    let for_memory = killed && daemon.memory_kills.claim(command.kills_before);
    for_memory.then_some(CommandReason::OutOfMemory)
}
