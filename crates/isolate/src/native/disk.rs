//! What a sandbox writes to: an image of limited size, or where there is no
//! limit, a directory on the host's disk.
//!
//! ```text
//! upper, work           over the template's layers
//! usr-upper, usr-work   over the host's `/usr`, for `dev` only
//! ```

use std::{
    fs::{self, File},
    io::{self, IoSlice, IoSliceMut, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Uid, chmodat, chownat, mkdirat, openat},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

use super::{
    image::Image,
    mount::Detached,
    spec::{Defence, Privilege, Spec},
};
use crate::seen::identity;

/// The directory, relative to the state directory.
pub(super) const DIRECTORY: &str = "disk";
/// What is in it from the beginning.
const PARTS: [&str; 5] = ["upper", "work", "usr-upper", "usr-work", "upper/etc"];
/// Says that descriptors follow.
const HANDED: u8 = b'd';

/// Where a sandbox's files are.
pub(super) enum Disk {
    /// An image.
    Limited(Image),
    /// A directory, in the state directory.
    Unlimited,
}

impl Disk {
    /// Makes the disk in the current directory, which is the state directory. A
    /// disk that is ready comes through `courier`, if the orders say so.
    pub(super) fn make(spec: &Spec, courier: &UnixListener) -> io::Result<Disk> {
        let disk = match &spec.blank {
            Some(_) if spec.disk_follows => Disk::Limited(receive(courier)?),
            Some(blank) if spec.has(Defence::DiskLimit) => {
                Disk::Limited(blank_disk(blank, Path::new("."))?)
            }
            Some(_) | None => {
                fs::create_dir(DIRECTORY)?;
                lay_out(File::open(DIRECTORY)?)?;
                Disk::Unlimited
            }
        };
        disk.give_to_sandbox(spec)?;
        Ok(disk)
    }

    /// The disk as a mount that has no path of the host.
    pub(super) fn mount(&self) -> io::Result<Detached> {
        match self {
            Disk::Limited(image) => image.mount()?.try_clone(),
            Disk::Unlimited => Detached::copy_of(Path::new(DIRECTORY)),
        }
    }

    /// Lets the host have what was freed inside.
    pub(super) fn give_back(&self) {
        match self {
            // The space is the sandbox's anyway, so it may wait for the next time.
            Disk::Limited(image) => _ = image.give_back(),
            Disk::Unlimited => {}
        }
    }

    /// Gives the directories to the sandbox's root, with the files that name it.
    fn give_to_sandbox(&self, spec: &Spec) -> io::Result<()> {
        let directory = match self {
            Disk::Limited(image) => image.mount()?.open(".", OFlags::RDONLY | OFlags::DIRECTORY)?,
            Disk::Unlimited => File::open(DIRECTORY)?.into(),
        };
        let (uid, gid) = (Uid::from_raw(spec.first_id), Gid::from_raw(spec.first_id));
        let own = |name: &str| match spec.privilege {
            Privilege::Root => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                chownat(&directory, name, Some(uid), Some(gid), flags)
            }
            // It is ours, and we are its root.
            Privilege::User => Ok(()),
        };
        for name in ["."].into_iter().chain(PARTS) {
            own(name)?;
        }
        let name_servers = spec.link.as_ref().map(|link| &link.dns[..]).unwrap_or_default();
        for (name, content) in identity(&spec.id, name_servers) {
            let name = format!("upper/etc/{name}");
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(&directory, &name, flags, Mode::from_raw_mode(0o644))?;
            File::from(file).write_all(content.as_bytes())?;
            own(&name)?;
        }
        Ok(())
    }
}

/// A disk that belongs to no sandbox yet.
pub(super) fn blank_disk(blank: &Path, place: &Path) -> io::Result<Image> {
    let image = Image::copy_of(blank, place)?;
    lay_out(image.mount()?)?;
    Ok(image)
}

fn lay_out(directory: impl AsFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o755);
    for name in PARTS {
        mkdirat(&directory, name, mode)?;
        // The server has a umask, and these are seen from inside.
        chmodat(&directory, name, mode, AtFlags::empty())?;
    }
    Ok(())
}

/// Sends a disk to a keeper that will ask for it. The keeper has it then, also
/// when we are gone.
pub(super) fn hand_over(image: Image, courier: &UnixStream) -> io::Result<()> {
    let parts = image.parts()?;
    let message = SendAncillaryMessage::ScmRights(&parts);
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut descriptors = SendAncillaryBuffer::new(&mut space);
    if !descriptors.push(message) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(courier, &[IoSlice::new(&[HANDED])], &mut descriptors, SendFlags::empty())?;
    image.release();
    Ok(())
}

fn receive(courier: &UnixListener) -> io::Result<Image> {
    let (stream, _) = courier.accept()?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut descriptors = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(&stream, &mut [IoSliceMut::new(&mut word)], &mut descriptors, flags)?;
    let mut received: Vec<OwnedFd> = Vec::new();
    for message in descriptors.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            received.extend(files);
        }
    }
    match <[OwnedFd; 2]>::try_from(received) {
        Ok([mount, file]) if word[0] == HANDED => Ok(Image::from_parts(mount, file)),
        Ok(_) | Err(_) => Err(io::Error::other("no disk came")),
    }
}
