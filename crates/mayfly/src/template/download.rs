//! Fetches a package with the host's npm. Nothing of the package is executed
//! here: its install scripts are passed over, and its programs only copied.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use super::program::{Packing, Program};

/// What node does to a packed program.
const UNPACK: &str = "
const { pipeline } = require('node:stream');
const packed = require('node:fs').createReadStream(process.argv[1]);
pipeline(packed, require('node:zlib').createBrotliDecompress(), process.stdout, (error) => {
  if (error) { console.error(error.message); process.exitCode = 1; }
});";
/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How much of npm's complaints is shown.
const COMPLAINT: usize = 1000;

/// Installs `package` below `staging`; `progress` hears how many bytes are there.
pub(super) fn install(
    package: &str,
    staging: &Path,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<PathBuf> {
    let errors = staging.join("npm.log");
    let log = File::create(&errors)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"])
        .args(["--no-package-lock", "--loglevel=error", "--prefix"])
        .arg(staging)
        .arg(package)
        .current_dir(staging)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let status = match npm.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "npm is not on the PATH; it downloads the package. Install Node.js 20 or newer \
             (`apt install npm`, or https://nodejs.org) and try again"
        ),
        npm => wait(npm.context("npm cannot be started")?, || progress(size(staging)))?,
    };
    if !status.success() {
        let said = fs::read(&errors).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        match last(&said).trim() {
            "" => bail!("npm could not install {package}, and did not say why ({status})"),
            said => bail!("npm could not install {package}: {said}"),
        }
    }
    Ok(staging.join("node_modules"))
}

/// Gives a program of an installed package to `take`.
pub(super) fn open(
    modules: &Path,
    program: &Program,
    take: &mut dyn FnMut(&mut dyn Read) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = modules.join(&program.path);
    let mut file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "the package has no {}; this release does not fit, so give another `--version`",
            program.path
        ),
        file => file.with_context(|| format!("cannot read {}", path.display()))?,
    };
    match program.packing {
        Packing::Plain => take(&mut file),
        Packing::Brotli => {
            let mut node = Command::new("node");
            node.args(["-e", UNPACK]).arg(&path).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut node = node.spawn().context("node, which unpacks it, cannot be started")?;
            let mut output: ChildStdout =
                node.stdout.take().context("node has nothing to read from")?;
            let taken = take(&mut output);
            drop(output);
            let status = node.wait()?;
            taken?;
            if !status.success() {
                bail!("{} could not be unpacked", program.path);
            }
            Ok(())
        }
    }
}

/// Waits for a program to end, and does `meanwhile` all the time.
fn wait(mut child: Child, mut meanwhile: impl FnMut()) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        meanwhile();
        std::thread::sleep(LOOK);
    }
}

/// How long all files below `directory` are. Those that vanish meanwhile do not count.
fn size(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let of_entry = |entry: fs::DirEntry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => size(&entry.path()),
        Ok(facts) => facts.len(),
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(of_entry).sum()
}

fn last(said: &str) -> &str {
    let said = said.trim();
    let at = said.len().saturating_sub(COMPLAINT);
    let at = (at..=said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(0);
    &said[at..]
}
