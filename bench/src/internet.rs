//! What a network adds to the start of a native sandbox, and where it goes.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Result, ensure};

use crate::{
    report::Finding,
    round_trip::median,
    server::Server,
    start::{echo, is_root},
};

const ROUNDS: usize = 40;
const NFT: &str = "/usr/sbin/nft";
/// What it is.
pub(crate) const COLD: &str =
    "a fresh native sandbox with internet to a command's first byte, median of 40";

/// Why this host cannot show it, if it cannot.
pub(crate) fn lacks() -> Option<&'static str> {
    match (is_root(), Path::new(NFT).exists()) {
        (false, _) => Some("walls need root"),
        (true, false) => Some("there is no nft in /usr/sbin"),
        (true, true) => None,
    }
}

/// The same start with and without a network, in turns, and a bare run of the
/// program that loads its rules: the rest is the link's.
pub(crate) fn cold() -> Result<Finding> {
    let with = Server::start("native", &["--network", "internet"])?;
    let without = Server::start("native", &["--network", "none"])?;
    let (mut here, mut there) = (with.connect()?, without.connect()?);
    let (mut wired, mut plain, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        wired.push(here.first_output(&echo(None))?);
        plain.push(there.first_output(&echo(None))?);
        let began = Instant::now();
        let mut nft = Command::new(NFT);
        nft.args(["list", "tables"]).stdout(Stdio::null());
        ensure!(nft.status()?.success(), "nft failed");
        loads.push(began.elapsed());
    }
    let (wired, plain, load) = (median(wired), median(plain), median(loads));
    let link = wired.saturating_sub(plain).saturating_sub(load);
    Ok(Finding {
        what: COLD,
        ours: format!("{wired:.2?}"),
        peer: format!("{plain:.2?} (the same with --network none)"),
        ratio: format!("{load:.2?} of it for a run of nft, about {link:.2?} for link and rules"),
        goal: "at most 60 ms more",
        met: wired <= plain + std::time::Duration::from_millis(60),
    })
}
