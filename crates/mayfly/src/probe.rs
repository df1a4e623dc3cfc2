//! Tries what cannot be known by looking: sysctls and files say what is
//! compiled in, not what this user may do here.
//!
//! A probe is this program run again, because it changes the namespaces of
//! its own process; whatever it makes dies with it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::ValueEnum;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};

use crate::output;

/// What can be tried.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Subject {
    /// To become root of a user namespace.
    UserNamespace,
    /// To mount an overlay in there.
    Overlay,
    /// To see which security modules are switched on.
    SecurityModules,
}

/// Runs a probe in a child and gives what it printed, or why it failed.
pub(crate) fn run(subject: Subject) -> Result<String, String> {
    let name = subject.to_possible_value().map(|value| value.get_name().to_owned());
    let output = std::env::current_exe()
        .and_then(|program| Command::new(program).arg("probe").args(name).output())
        .map_err(|err| format!("the probe did not start: {err}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        let said = text(&output.stderr);
        Err(said.strip_prefix("error: ").unwrap_or(&said).to_owned())
    }
}

/// The child's side.
pub(crate) fn command(subject: Subject) -> ExitCode {
    let tried = match subject {
        Subject::UserNamespace => enter_user_namespace(),
        Subject::Overlay => enter_user_namespace().and_then(|()| mount_overlay()),
        Subject::SecurityModules => print_security_modules(),
    };
    match tried {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            output::complain(&err);
            ExitCode::FAILURE
        }
    }
}

fn enter_user_namespace() -> anyhow::Result<()> {
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .context("the kernel does not let us have one")?;
    let write = |file: &str, text: String| {
        fs::write(Path::new("/proc/self").join(file), text)
            .with_context(|| format!("cannot write {file}"))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))
}

fn mount_overlay() -> anyhow::Result<()> {
    // Over /tmp, in a mount namespace of our own: nobody else sees it.
    let place = Path::new("/tmp");
    mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), None::<&str>)
        .context("cannot mount a tmpfs")?;
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(place.join(name))?;
    }
    let layers = "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work";
    mount(Some("overlay"), &place.join("merged"), Some("overlay"), MsFlags::empty(), Some(layers))
        .context("cannot mount an overlay in a user namespace")
}

fn print_security_modules() -> anyhow::Result<()> {
    let list = Path::new("/sys/kernel/security/lsm");
    let modules = match fs::read_to_string(list) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            // Nobody has mounted securityfs; root can, out of everybody's sight.
            unshare(CloneFlags::CLONE_NEWNS).context("securityfs is not mounted")?;
            let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)?;
            let target = "/sys/kernel/security";
            mount(Some("securityfs"), target, Some("securityfs"), MsFlags::empty(), None::<&str>)
                .context("cannot mount securityfs")?;
            fs::read_to_string(list)
        }
        read => read,
    };
    output::print(&modules.context("cannot read the list of security modules")?)
}
