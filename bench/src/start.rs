//! Starting sandboxes of the native tier: cold, from the pool, many at once,
//! and what two hundred that do nothing cost.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{report::Finding, round_trip::median, server::Server};

const ROUNDS: usize = 40;
const IDLE: usize = 200;
const BURST: usize = 50;

/// What bubblewrap is asked for: the same command behind comparable walls.
const BUBBLEWRAP: &str = "--unshare-all --ro-bind /usr /usr --symlink usr/bin /bin \
    --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp \
    /bin/echo hi";

/// What they are together.
pub(crate) const ALL: &str = "starting native sandboxes, and what idle ones cost";

/// Why this host cannot show it, if it cannot.
pub(crate) fn lacks() -> Option<&'static str> {
    if !is_root() {
        return Some("walls need root");
    }
    let bubblewrap = Command::new("bwrap").arg("--version").stdout(Stdio::null()).status();
    bubblewrap.is_err().then_some("there is no bwrap in PATH")
}

pub(crate) fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Uid:\t0"))
}

/// From the request to the first byte of a command's output, nothing prepared.
pub(crate) fn cold() -> Result<Finding> {
    let server = Server::start("native", &[])?;
    let mut connection = server.connect()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(connection.first_output(&echo(None))?);
        let began = Instant::now();
        let mut command = Command::new("bwrap");
        command.args(BUBBLEWRAP.split_whitespace()).stdout(Stdio::null());
        ensure!(command.status()?.success(), "bubblewrap failed");
        theirs.push(began.elapsed());
    }
    let (ours, theirs) = (median(ours), median(theirs));
    Ok(Finding {
        what: "a fresh native sandbox to a command's first byte, over HTTP, median of 40",
        ours: format!("{ours:.2?}"),
        peer: format!("{theirs:.2?} (bubblewrap, the whole run)"),
        ratio: format!("{:.2} times", ours.as_secs_f64() / theirs.as_secs_f64()),
        goal: "at most 2 times",
        met: ours <= theirs * 2,
    })
}

/// The same when sandboxes wait to be claimed.
pub(crate) fn from_the_pool() -> Result<Finding> {
    let server = Server::start("native", &["--pool", "4"])?;
    let mut connection = server.connect()?;
    let running = echo(Some(&server.sandbox_id));
    let (mut pooled, mut round_trips) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // The pool fills up again between two claims.
        thread::sleep(Duration::from_millis(150));
        pooled.push(connection.first_output(&echo(None))?);
        thread::sleep(Duration::from_millis(50));
        round_trips.push(connection.first_output(&running)?);
    }
    let (pooled, round_trip) = (median(pooled), median(round_trips));
    Ok(Finding {
        what: "a pooled native sandbox to a command's first byte, median of 40",
        ours: format!("{pooled:.2?}"),
        peer: format!("{round_trip:.2?} (a command in a running sandbox)"),
        ratio: format!("{:.2} times", pooled.as_secs_f64() / round_trip.as_secs_f64()),
        goal: "at most 2 times plus 2 ms",
        met: pooled <= round_trip * 2 + Duration::from_millis(2),
    })
}

/// Fifty callers at once.
pub(crate) fn burst() -> Result<Finding> {
    let server = Server::start("native", &[])?;
    let began = Instant::now();
    let made = thread::scope(|scope| {
        let callers: Vec<_> = (0..BURST).map(|_| scope.spawn(|| server.create())).collect();
        callers.into_iter().filter_map(|caller| caller.join().ok()?.ok()).count()
    });
    let each = began.elapsed() / BURST as u32;
    Ok(Finding {
        what: "50 native sandboxes asked for at once",
        ours: format!("{made} made, {each:.2?} each"),
        peer: "none".to_owned(),
        ratio: format!("{made} of {BURST}"),
        goal: "no failure",
        met: made == BURST,
    })
}

/// Memory of our own that a sandbox takes while nothing runs in it.
pub(crate) fn idle() -> Result<Finding> {
    let server = Server::start("native", &["--max-sandboxes", "300"])?;
    let before = private_kib(server.pid())?;
    for _ in 0..IDLE {
        server.create()?;
    }
    let share = private_kib(server.pid())?.saturating_sub(before);
    let sandboxes = descendants_kib(server.pid())?;
    let each = (sandboxes + share) as f64 / IDLE as f64 / 1024.0;
    Ok(Finding {
        what: "200 idle native sandboxes: keeper, envd and their share of the server (USS)",
        ours: format!("{each:.2} MiB each"),
        peer: "none".to_owned(),
        ratio: format!("{} KiB of it in the server", share / IDLE as u64),
        goal: "at most 4 MiB each",
        met: each <= 4.0,
    })
}

/// A command in a running sandbox, or in a fresh one.
pub(crate) fn echo(sandbox: Option<&str>) -> Vec<u8> {
    json!({"cmd": "/bin/echo", "args": ["hi"], "sandbox_id": sandbox}).to_string().into_bytes()
}

pub(crate) fn private_kib(pid: u32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .with_context(|| format!("no memory map of process {pid}"))?;
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    Ok(private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum())
}

/// Of all processes below that one.
pub(crate) fn descendants_kib(pid: u32) -> Result<u64> {
    let mut total = 0;
    for child in children(pid)? {
        total += private_kib(child)? + descendants_kib(child)?;
    }
    Ok(total)
}

fn children(pid: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let list = fs::read_to_string(task?.path().join("children"))?;
        found.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(found)
}
