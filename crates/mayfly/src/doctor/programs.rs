//! Programs of others that some tiers or modes use.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{AccessFlags, access};

use super::Check;

pub(super) fn nft() -> Check {
    program("nft", "sandboxes with internet access need it: apt install nftables")
}

pub(super) fn runsc() -> Check {
    program("runsc", "tier gvisor needs it: https://gvisor.dev/docs/user_guide/install")
}

pub(super) fn runc() -> Check {
    program("runc", "tier runc needs it: apt install runc")
}

pub(super) fn bubblewrap() -> Check {
    program("bwrap", "only the benchmark compares with it: apt install bubblewrap")
}

pub(super) fn npm() -> Check {
    program("npm", "`mayfly template add-harness` downloads with it: apt install npm")
}

fn program(name: &'static str, remedy: &str) -> Check {
    match find(name) {
        Some(path) => {
            let version = version(&path).map(|line| format!(", {line}")).unwrap_or_default();
            Check::ok(name, format!("{}{version}", path.display()))
        }
        None => Check::missing(name, "not found", remedy),
    }
}

/// Looks where root's programs are too, which an ordinary user's PATH leaves out.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
}

/// The first line of what it says of itself.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}
