//! Starting a sandbox of the `gvisor` tier, beside `runsc run` of the same
//! command in a bundle of its own.

use std::{
    fs,
    io::Read,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{
    report::Finding,
    round_trip::median,
    server::Server,
    start::{echo, is_root},
};

const ROUNDS: usize = 20;

/// What our tier calls it with, so that both have the same walls.
const RUNSC: [&str; 5] = [
    "--ignore-cgroups",
    "--network=none",
    "--platform=systrap",
    "--directfs=false",
    "--host-uds=none",
];

/// What it measures.
pub(crate) const COLD: &str =
    "a fresh gvisor sandbox to a command's first byte, over HTTP, median of 20";

/// Why this host cannot show it, if it cannot.
pub(crate) fn lacks() -> Option<&'static str> {
    if !is_root() {
        return Some("walls need root");
    }
    let runsc = Command::new("runsc").arg("--version").stdout(Stdio::null()).status();
    runsc.is_err().then_some("there is no runsc in PATH")
}

/// From the request to the first byte, beside the same without a server.
pub(crate) fn cold() -> Result<Finding> {
    let server = Server::start("gvisor", &[])?;
    let mut connection = server.connect()?;
    let bundle = tempfile::tempdir()?;
    make_bundle(bundle.path())?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        ours.push(connection.first_output(&echo(None))?);
        theirs.push(run(bundle.path(), round)?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    Ok(Finding {
        what: COLD,
        ours: format!("{ours:.2?}"),
        peer: format!("{theirs:.2?} (runsc run, to its first byte)"),
        ratio: format!("{:.2} times", ours.as_secs_f64() / theirs.as_secs_f64()),
        goal: "at most 1.3 times",
        met: ours * 10 <= theirs * 13,
    })
}

/// The host's `/usr` and nothing else.
fn make_bundle(bundle: &Path) -> Result<()> {
    let root = bundle.join("rootfs");
    for name in ["usr", "proc", "dev", "tmp"] {
        fs::create_dir_all(root.join(name))?;
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), root.join(name))?;
    }
    let namespaces = ["pid", "mount", "ipc", "uts", "network"].map(|kind| json!({"type": kind}));
    let config = json!({
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": false},
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": ["/bin/echo", "hi"]},
        "mounts": [
            {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["bind", "ro"]},
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
        ],
        "linux": {"namespaces": namespaces},
    });
    Ok(fs::write(bundle.join("config.json"), config.to_string())?)
}

/// Runs the command and measures until its first output.
fn run(bundle: &Path, round: usize) -> Result<Duration> {
    let began = Instant::now();
    let mut child = Command::new("runsc")
        .args(RUNSC)
        .arg("--root")
        .arg(bundle.join("books"))
        .args(["run", "--bundle"])
        .arg(bundle)
        .arg(format!("bench-{}-{round}", std::process::id()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = child.stdout.take().context("no standard output")?;
    let first = output.read(&mut [0]).map(|_| began.elapsed());
    ensure!(child.wait()?.success(), "runsc failed");
    Ok(first?)
}
