//! The keeper: parent of one sandbox's init, outside the walls, alive as long
//! as the sandbox whether or not a server is there.
//!
//! ```text
//! <state>/spec.json   what to build; the server writes it
//! <state>/door        the socket that init serves on; the server makes it
//! <state>/keeper      where servers talk to us; the first makes it
//! <state>/disk/       what the sandbox writes, where that has no limit
//! <state>/exit.json   our last words; nothing else is left then
//! ```
//!
//! One thread, no runtime: it sleeps in poll(2) for nearly all of its life.

use std::{
    fs,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixListener,
    },
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Mode,
    process::{
        DumpableBehavior, Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_send_signal,
        set_dumpable_behavior, setsid, umask, waitid,
    },
};

use super::{
    cgroup::{Cgroup, Layout},
    clone::{self, Split},
    disk::{self, Disk},
    init::{self, Inheritance},
    network::Way,
    orders::{Order, Talker},
    spec::{Cause, Exit, Spec},
    users::Users,
};
use crate::removal::remove_tree;

/// How often to look whether the state directory is still there, and the clock.
const LOOK_AROUND: Duration = Duration::from_secs(4);
/// Servers that may talk to us at once.
const TALKERS: usize = 8;

/// Keeps the sandbox in the state directory until its end.
pub fn keep(state: &Path) -> io::Result<()> {
    std::env::set_current_dir(state)?;
    let _ = setsid();
    umask(Mode::empty());
    // Two listening sockets came in place of standard input and output: ours,
    // and init's. Nothing else is inherited.
    let talk = UnixListener::from(clone::aside(rustix::stdio::stdin())?);
    let listener = clone::aside(rustix::stdio::stdout())?;
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let null = OwnedFd::from(null);
    clone::place(&null, 0)?;
    clone::place(&null, 1)?;
    // Nobody may look into the process that holds the way out.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let spec: Spec = serde_json::from_slice(&fs::read("spec.json")?).map_err(io::Error::other)?;
    talk.set_nonblocking(true)?;
    let cgroup = Cgroup::create(&Layout::of_host(spec.privilege)?, &spec.id, spec.limits)?;
    // Their connections end with this process: that is how they learn of it.
    let mut talkers = Vec::new();
    let exit = match start(&spec, &cgroup, listener, &talk) {
        Ok(living) => watch(&spec, state, living, &talk, &mut talkers, &cgroup),
        Err(err) => Exit { cause: Cause::NotStarted, detail: err.to_string() },
    };
    let finished = finish(&cgroup, exit);
    // The kernel closes them, when nothing else is left of this process; also
    // those that a sandbox that never started has not accepted.
    std::mem::forget((talk, talkers));
    finished
}

/// A running init.
struct Living {
    pid: Pid,
    pidfd: OwnedFd,
    disk: Disk,
    /// Closing it ends the sandbox, also when we are killed.
    _leash: OwnedFd,
}

fn start(
    spec: &Spec,
    cgroup: &Cgroup,
    listener: OwnedFd,
    courier: &UnixListener,
) -> io::Result<Living> {
    let disk = Disk::make(spec, courier)?;
    let users = Users::of(spec)?;
    let (leash, held) = pipe()?;
    let (heard, told) = pipe()?;
    let told = clone::aside(told)?;
    let groups = cgroup.doors()?.into_iter().map(OwnedFd::from).collect();
    let (pid, pidfd) = match clone::clone(clone::namespaces(spec))? {
        Split::Child => {
            let inheritance = Inheritance { leash, listener, groups };
            let failed = init::become_init(spec, &disk, &users, cgroup, inheritance);
            let words = format!("init could not {}: {}", failed.step, failed.cause);
            // With nobody to read it, nothing more can be said.
            let _ = fs::File::from(told).write_all(words.as_bytes());
            clone::leave(1)
        }
        Split::Parent(pid, pidfd) => (pid, pidfd),
    };
    drop(told);
    // Empty when the program was executed: the descriptor closed with that.
    let mut words = String::new();
    fs::File::from(heard).read_to_string(&mut words)?;
    let living = Living { pid, pidfd, disk, _leash: held };
    if words.is_empty() {
        return Ok(living);
    }
    end(&living)?;
    Err(io::Error::other(words))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Sleeps until something ends the sandbox.
fn watch(
    spec: &Spec,
    state: &Path,
    living: Living,
    talk: &UnixListener,
    talkers: &mut Vec<Talker>,
    cgroup: &Cgroup,
) -> Exit {
    let mut way = Way::NONE;
    let ended = wait_for_end(spec, state, &living, talk, talkers, &mut way);
    let exit = match ended {
        Ok(End::Exited) => exited(&living, cgroup),
        Ok(End::Because(cause)) => match end(&living) {
            Ok(()) => Exit { cause, detail: String::new() },
            Err(err) => Exit { cause, detail: format!("init was not killed: {err}") },
        },
        Err(err) => {
            // Without a watch there is no deadline, so there is no sandbox.
            let _ = end(&living);
            Exit { cause: Cause::Asked, detail: format!("the watch failed: {err}") }
        }
    };
    match way.remove(spec) {
        Ok(()) => exit,
        Err(err) => Exit { detail: format!("{}; a link is left: {err}", exit.detail), ..exit },
    }
}

enum End {
    Exited,
    Because(Cause),
}

fn wait_for_end(
    spec: &Spec,
    state: &Path,
    living: &Living,
    talk: &UnixListener,
    talkers: &mut Vec<Talker>,
    way: &mut Way,
) -> io::Result<End> {
    let mut deadline_ms = spec.deadline_ms;
    loop {
        let Some(left) = deadline_ms.checked_sub(now_ms()).filter(|left| *left > 0) else {
            return Ok(End::Because(Cause::Deadline));
        };
        let ready = sleep(left, living, talk, talkers)?;
        if ready.exited {
            return Ok(End::Exited);
        }
        // Looked at rather than watched: a user may have 128 watches at once,
        // and keepers are many. Deleted or moved, its file is not there.
        if !state.join("spec.json").exists() {
            return Ok(End::Because(Cause::Asked));
        }
        living.disk.give_back();
        if ready.called
            && let Ok((stream, _)) = talk.accept()
        {
            stream.set_nonblocking(true)?;
            if talkers.len() < TALKERS {
                talkers.push(Talker::new(stream));
            }
        }
        let mut kill = false;
        talkers.retain_mut(|talker| {
            talker.listen();
            loop {
                match talker.order() {
                    Order::NoneYet => return true,
                    Order::Deadline(deadline) => deadline_ms = deadline,
                    Order::Network(network) => {
                        talker.answer(way.set(spec, &living.pidfd, &network));
                    }
                    Order::Kill => {
                        kill = true;
                        return true;
                    }
                    Order::Goodbye => return false,
                }
            }
        });
        if kill {
            return Ok(End::Because(Cause::Asked));
        }
    }
}

struct Ready {
    exited: bool,
    called: bool,
}

fn sleep(
    left_ms: u64,
    living: &Living,
    talk: &UnixListener,
    talkers: &[Talker],
) -> io::Result<Ready> {
    let left = Duration::from_millis(left_ms).min(LOOK_AROUND);
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let mut wanted =
        vec![PollFd::new(&living.pidfd, PollFlags::IN), PollFd::new(talk, PollFlags::IN)];
    wanted.extend(talkers.iter().map(|talker| PollFd::new(talker.stream(), PollFlags::IN)));
    match poll(&mut wanted, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(err) => return Err(err.into()),
    }
    let ready = |index: usize| !wanted[index].revents().is_empty();
    Ok(Ready { exited: ready(0), called: ready(1) })
}

/// Kills init, and with it everything in its pid namespace.
fn end(living: &Living) -> io::Result<()> {
    pidfd_send_signal(&living.pidfd, Signal::KILL)?;
    waitid(WaitId::Pid(living.pid), WaitIdOptions::EXITED)?;
    Ok(())
}

fn exited(living: &Living, cgroup: &Cgroup) -> Exit {
    let status = waitid(WaitId::PidFd(living.pidfd.as_fd()), WaitIdOptions::EXITED);
    let status = status.ok().flatten();
    let killed = status.as_ref().and_then(WaitIdStatus::terminating_signal);
    let code = status.as_ref().and_then(WaitIdStatus::exit_status);
    if killed == Some(9) && cgroup.memory_kills() > 0 {
        return Exit { cause: Cause::OutOfMemory, detail: "init was killed for memory".to_owned() };
    }
    let detail = match (code, killed) {
        (Some(code), _) => format!("init exited with {code}"),
        (None, Some(signal)) => format!("init was killed by signal {signal}"),
        (None, None) => "init ended".to_owned(),
    };
    Exit { cause: Cause::Exited, detail }
}

/// Takes down what is left and says the last words.
fn finish(cgroup: &Cgroup, mut exit: Exit) -> io::Result<()> {
    let left = cgroup.remove();
    if !left.is_empty() {
        exit.detail.push_str(&format!("; cgroups are left: {left:?}"));
    }
    if let Err(err) = remove_tree(Path::new(disk::DIRECTORY)) {
        exit.detail.push_str(&format!("; files are left: {err}"));
    }
    let words = serde_json::to_vec(&exit).map_err(io::Error::other)?;
    fs::write("exit.json.new", words)?;
    fs::rename("exit.json.new", "exit.json")
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
