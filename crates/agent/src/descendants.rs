//! Everything that a CLI, or a program of the model's, started, wherever it went.
//! Both are called CLI here.
//!
//! A process belongs to a CLI if it is below it, or if it was orphaned and came
//! to us, who adopt orphans, and one of these holds: it still has the CLI's mark
//! in its environment, it is in the CLI's process group, or it made a session
//! of its own, which nothing does that we start ourselves; but programs run side
//! by side with others who may, and are not asked for those. What the setup
//! script left running is older than the CLI and is let live. Orphans that die
//! are buried while there is a CLI; without one they are not ours.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getsid, kill_process,
    kill_process_group, set_child_subreaper, waitid, waitpid,
};
use tokio::process::Command;

/// The variable that marks what a CLI starts.
const MARK: &str = "MAYFLY_HARNESS_MARK";
/// How often what is left is looked for: who forks while it is being killed is
/// found the next time.
const ROUNDS: usize = 100;
/// How long the killed take to be gone.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a dead child is left to whoever started it, if that was one of us.
const MOURNING: Duration = Duration::from_secs(1);

/// Counts the CLIs of this process.
static MARKS: AtomicU64 = AtomicU64::new(1);

static ADOPTION: Mutex<Adoption> = Mutex::new(Adoption { marks: 0, undertaker: false });

/// Whether orphans come to us.
struct Adoption {
    /// CLIs that there are, or that are about to start.
    marks: usize,
    /// Whether somebody buries those that die.
    undertaker: bool,
}

/// A CLI and its descendants.
pub(crate) struct Family {
    root: Option<Process>,
    mark: Mark,
    strays: Strays,
}

/// What its descendants are known by. Orphans come to us as long as there is one.
pub(crate) struct Mark {
    /// `NAME=value`, as it is in an environment.
    variable: Vec<u8>,
}

/// Whose an orphan is that made a session of its own and has no mark any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strays {
    /// This one's: nobody else runs.
    Ours,
    /// Somebody's.
    Unknown,
}

/// A process as `/proc` shows it; see `proc_pid_stat(5)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    session: i32,
    /// In ticks since boot: a process id comes again, but not with the same one.
    began: u64,
    is_dead: bool,
}

impl Family {
    /// Marks a command that is about to start, and has its orphans come to us.
    pub(crate) fn mark(command: &mut Command) -> Mark {
        let mut adoption = ADOPTION.lock().unwrap_or_else(PoisonError::into_inner);
        adoption.marks += 1;
        // Where this is refused, orphans are the sandbox's to end.
        let _ = set_child_subreaper(Some(getpid()));
        if !adoption.undertaker {
            let undertaker = thread::Builder::new().name("undertaker".to_owned()).spawn(bury);
            adoption.undertaker = undertaker.is_ok();
        }
        let number = MARKS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{number}", getpid().as_raw_nonzero());
        command.env(MARK, &mark);
        Mark { variable: format!("{MARK}={mark}").into_bytes() }
    }

    /// The family of a process that has just started.
    pub(crate) fn of(pid: Option<u32>, mark: Mark, strays: Strays) -> Family {
        let root = pid.and_then(|pid| Process::read(&pid.to_string()));
        Family { root, mark, strays }
    }

    /// Kills all of it. What was killed is gone when this returns, but for the
    /// CLI itself, whose owner waits for it.
    pub(crate) fn kill(&self) {
        let Some(root) = self.root else { return };
        for round in 0..ROUNDS {
            if round > 0 {
                thread::sleep(PAUSE);
            }
            let members = self.members(&root);
            for orphan in members.iter().filter(|member| member.is_dead && member.pid != root.pid) {
                // Only ours can be waited for; the others have a parent that is.
                let _ = waitpid(Some(orphan.pid), WaitOptions::NOHANG);
            }
            let mut living = members.iter().filter(|member| !member.is_dead).peekable();
            if living.peek().is_none() {
                return;
            }
            for member in living {
                if member.pid == root.pid {
                    let _ = kill_process_group(root.pid, Signal::KILL);
                }
                let _ = kill_process(member.pid, Signal::KILL);
            }
        }
    }

    fn members(&self, root: &Process) -> Vec<Process> {
        let all = Process::all();
        let us = getpid().as_raw_nonzero().get();
        let session = getsid(None).map_or(0, |session| session.as_raw_nonzero().get());
        let is_root = |process: &Process| process.pid == root.pid && process.began == root.began;
        let is_adopted = |process: &Process| {
            process.parent == us
                && process.began >= root.began
                && ((self.strays == Strays::Ours && process.session != session)
                    || process.group == root.pid.as_raw_nonzero().get()
                    || self.has_mark(process))
        };
        let mut below: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
        for process in &all {
            below.entry(process.parent).or_default().push(*process);
        }
        let mut members: Vec<Process> =
            all.iter().filter(|process| is_root(process) || is_adopted(process)).copied().collect();
        let mut at = 0;
        while let Some(parent) = members.get(at).map(|member| member.pid) {
            let children = below.remove(&parent.as_raw_nonzero().get()).unwrap_or_default();
            members.extend(children);
            at += 1;
        }
        members
    }

    fn has_mark(&self, process: &Process) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", process.pid.as_raw_nonzero()));
        environment
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|one| one == self.mark.variable))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut adoption = ADOPTION.lock().unwrap_or_else(PoisonError::into_inner);
        adoption.marks -= 1;
        if adoption.marks == 0 {
            let _ = set_child_subreaper(None);
        }
    }
}

/// Buries orphans, until there is neither a CLI nor a dead one any more. One that
/// was dead for a while is nobody's: whoever starts a process here waits for it, or
/// has it lead a group.
fn bury() {
    let mut dead: HashSet<(Pid, u64)> = HashSet::new();
    loop {
        // Waits until a child is dead, and does not bury it. Without any child there
        // is nothing to wait for.
        let _ = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        thread::sleep(MOURNING);
        let orphans = dead_orphans();
        for (pid, _) in orphans.intersection(&dead) {
            let _ = waitpid(Some(*pid), WaitOptions::NOHANG);
        }
        dead = orphans;
        let mut adoption = ADOPTION.lock().unwrap_or_else(PoisonError::into_inner);
        if adoption.marks == 0 && dead.is_empty() {
            adoption.undertaker = false;
            return;
        }
    }
}

/// Dead children of ours that we did not start: what we start leads a group in
/// our session.
fn dead_orphans() -> HashSet<(Pid, u64)> {
    let us = getpid().as_raw_nonzero().get();
    let session = getsid(None).map_or(0, |session| session.as_raw_nonzero().get());
    let is_started = |process: &Process| {
        process.group == process.pid.as_raw_nonzero().get() && process.session == session
    };
    let all = Process::all().into_iter();
    let orphans = all.filter(|one| one.parent == us && one.is_dead && !is_started(one));
    orphans.map(|orphan| (orphan.pid, orphan.began)).collect()
}

impl Process {
    fn all() -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| Process::read(&name)).collect()
    }

    /// Nothing for what is not a process, or not any more.
    fn read(name: &str) -> Option<Process> {
        let pid = Pid::from_raw(name.parse().ok()?)?;
        // A process chooses its name, and may choose one that is no text.
        let stat = fs::read(format!("/proc/{name}/stat")).ok()?;
        Process::parse(pid, &String::from_utf8_lossy(&stat))
    }

    fn parse(pid: Pid, stat: &str) -> Option<Process> {
        // The name of the program may hold anything, brackets and spaces too.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        Some(Process {
            pid,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            began: fields.get(19)?.parse().ok()?,
            is_dead: matches!(*fields.first()?, "Z" | "X"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::process::Command;

    use super::{Family, Pid, Process, Strays, dead_orphans};

    #[tokio::test]
    async fn orphans_that_die_are_buried() {
        let mut command = Command::new("sh");
        let script = "for i in 1 2 3; do (sleep 0.1 &); (setsid sleep 0.1 &); done; sleep 60";
        command.args(["-c", script]).process_group(0).kill_on_drop(true);
        let mark = Family::mark(&mut command);
        let mut child = command.spawn().unwrap();
        let family = Family::of(child.id(), mark, Strays::Unknown);
        let dead = async |wanted: bool| {
            for _ in 0..1000 {
                if dead_orphans().is_empty() != wanted {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            false
        };
        assert!(dead(true).await, "there are none");
        assert!(dead(false).await, "they are left");
        family.kill();
        // Whoever started a process hears how it ended.
        tokio::time::sleep(3 * super::MOURNING).await;
        assert!(!child.wait().await.unwrap().success());
    }

    #[test]
    fn a_program_with_brackets_in_its_name_is_read_right() {
        let stat = "7 (a) R (b) S 3 5 6 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0";
        let pid = Pid::from_raw(7).unwrap();
        let expected = Process { pid, parent: 3, group: 5, session: 6, began: 99, is_dead: false };
        assert_eq!(Process::parse(pid, stat), Some(expected));
        assert_eq!(Process::parse(pid, "7 (a"), None);
    }
}
