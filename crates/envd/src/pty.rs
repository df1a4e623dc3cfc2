//! Terminals: made for a command, resized by its clients.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{Gid, Mode, OFlags, Uid, fchown},
    io::{self, Errno},
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use wire::process::pty::Size;

use crate::users::Switch;

/// A new terminal: our side and the command's side.
pub(crate) struct Terminal {
    pub(crate) master: OwnedFd,
    pub(crate) slave: OwnedFd,
}

/// Opens a terminal of that size, owned by the user the command runs as.
pub(crate) fn open(size: &Size, switch: Option<&Switch>) -> io::Result<Terminal> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    // By descriptor: a path below /dev/pts could belong to another mount.
    let slave = match ioctl_tiocgptpeer(&master, flags) {
        // gVisor does not have it.
        Err(Errno::NOTTY | Errno::INVAL) => open_by_name(&master)?,
        peer => peer?,
    };
    if let Some(switch) = switch {
        // Programs that open /dev/tty or their terminal by name need it.
        fchown(&slave, Some(Uid::from_raw(switch.uid)), Some(Gid::from_raw(switch.gid)))?;
    }
    resize(&master, size)?;
    Ok(Terminal { master, slave })
}

fn open_by_name(master: &OwnedFd) -> io::Result<OwnedFd> {
    let name = ptsname(master, Vec::new())?;
    rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
}

/// Sets the size. Zero, which no terminal has, means the customary 80 by 24.
pub(crate) fn resize(terminal: impl AsFd, size: &Size) -> io::Result<()> {
    let bounded = |value: u32, customary: u16| match value {
        0 => customary,
        value => u16::try_from(value).unwrap_or(u16::MAX),
    };
    let size = Winsize {
        ws_col: bounded(size.cols, 80),
        ws_row: bounded(size.rows, 24),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size)
}
