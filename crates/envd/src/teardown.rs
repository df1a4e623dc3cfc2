//! The end: streams are cut, live commands are booked as killed, and no process
//! of the sandbox is left.
//!
//! Streams end without a last frame, because clients take a clean end for the
//! command's. Every process descends from us and comes back to us when its
//! parent dies, so killing our children until there are none kills all.

use std::{fs, time::Duration};

use nix::sys::signal::{Signal as KillSignal, kill};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, getpgid, getpgrp, getpid, kill_process, kill_process_group, wait,
    },
};
use tokio::{
    signal::unix::Signal as SignalStream,
    time::{Instant, timeout},
};

use crate::daemon::Daemon;

/// How long the host may take to read who was killed.
const HOST_PATIENCE: Duration = Duration::from_millis(200);
/// A look at the children again at least this often.
const ROUND: Duration = Duration::from_millis(10);
/// How long a killed process may take to go. Another user's never does.
const PATIENCE: Duration = Duration::from_secs(5);

/// Processes that outlived everything we may do.
pub(crate) struct LeftOver {
    pub(crate) processes: usize,
}

/// Ends everything.
pub(crate) async fn teardown(daemon: &Daemon, children: &mut SignalStream) -> Result<(), LeftOver> {
    daemon.cut.cancel();
    let running = daemon.table.running();
    let booked = running.iter().filter_map(|one| daemon.book_killed(one));
    if let Some(last) = booked.last() {
        daemon.control.written(last, HOST_PATIENCE).await;
    }
    let mut progress = Instant::now();
    loop {
        kill_children();
        match reap() {
            Reaped::All => return Ok(()),
            Reaped::Some => progress = Instant::now(),
            Reaped::None if progress.elapsed() > PATIENCE => {
                return Err(LeftOver { processes: pids().len() });
            }
            Reaped::None => {}
        }
        // Either way the next round looks.
        let _ = timeout(ROUND, children.recv()).await;
    }
}

enum Reaped {
    All,
    Some,
    None,
}

fn reap() -> Reaped {
    let mut reaped = Reaped::None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => reaped = Reaped::Some,
            Err(Errno::CHILD) => return Reaped::All,
            Ok(None) | Err(_) => return reaped,
        }
    }
}

fn kill_children() {
    if getpid() == Pid::INIT {
        // Everything in our pid namespace, however fast it forks. It fails
        // when nothing is left, which the next wait sees as well.
        let _ = kill(nix::unistd::Pid::from_raw(-1), KillSignal::SIGKILL);
    }
    for pid in pids() {
        // A child that is gone by now is what we want.
        if let Ok(group) = getpgid(Some(pid))
            && group != getpgrp()
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Our direct children. The short way is an option of the kernel's build.
fn pids() -> Vec<Pid> {
    match fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => list.split_whitespace().filter_map(pid).collect(),
        Err(_) => pids_by_parent(),
    }
}

fn pids_by_parent() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_child = |name: &String| {
        let stat = fs::read_to_string(format!("/proc/{name}/stat")).unwrap_or_default();
        // `pid (name) state ppid …`, and the name may hold anything.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        parent == Some(&own)
    };
    names.filter(is_child).filter_map(|name| pid(&name)).collect()
}

fn pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}
