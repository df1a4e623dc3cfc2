//! A disk of limited size: a file system in an image file that has no name.
//!
//! The image is a copy of a blank one, of which a few blocks are data and all
//! else is a hole, so it takes from the host's disk what is written to it and
//! no more. It is mounted nowhere: the mount is a descriptor, and with the last
//! one the file system, the loop device and the image are gone, whoever died.

#![expect(unsafe_code, reason = "requests to a file system have no safe wrapper")]

use std::{
    cell::Cell,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, SeekFrom},
    io::Errno,
    mount::MountAttrFlags,
};

use super::{
    loop_device::{LoopDevice, Use},
    mount::Detached,
};

/// What the file system is mounted with.
///
/// - No zeroing of inode tables in the background: in a new image they are
///   holes, and holes are zeros.
/// - No barriers: a sandbox does not outlive a crash of the host, so nobody
///   would read what they protect, and an `fsync` inside must not make the
///   host's disk, and with it every neighbour, wait.
/// - No more writing after an error, which is how a full disk of the host
///   shows: the kernel must not go on with structures that may be wrong.
/// - No `discard`: removing 100,000 files took four times as long with it. The
///   keeper gives freed space back now and then.
const OPTIONS: [(&str, &str); 3] =
    [("noinit_itable", ""), ("barrier", "0"), ("errors", "remount-ro")];
/// `EXT4_IOC_SHUTDOWN`, and its argument for leaving everything unwritten.
const SHUTDOWN: libc::Ioctl = 0x8004_587D;
const WRITE_NOTHING: u32 = 2;
/// `FITRIM`, `struct fstrim_range`, and what is too small to be worth it.
const TRIM: libc::Ioctl = 0xC018_5879;
const WORTH_TRIMMING: u64 = 1 << 20;
/// What takes long to write. The kernel's log has an alert for every file system
/// that is shut down, so that is not done for less.
const MUCH: u64 = 32 << 20;
/// Freed space that the image may hold on to.
const SLACK: u64 = 64 << 20;

/// An image with its mount.
pub(super) struct Image {
    /// `None` only while it is dropped.
    mount: Option<Detached>,
    file: File,
    /// Freed space that was too scattered to be given back.
    scattered: Cell<u64>,
}

impl Image {
    /// A copy of the blank image, mounted. Its file has a place and no name.
    pub(super) fn copy_of(blank: &Path, place: &Path) -> io::Result<Image> {
        let file = copy(blank, place)?;
        let device = LoopDevice::bind(&file)?;
        let source = device.path.to_string_lossy().into_owned();
        let options: Vec<_> = [("source", source.as_str())].into_iter().chain(OPTIONS).collect();
        let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOATIME;
        let mount = Detached::new("ext4", &options, attributes)?;
        Ok(Image { mount: Some(mount), file, scattered: Cell::default() })
    }

    /// One whose descriptors came from somewhere else.
    pub(super) fn from_parts(mount: OwnedFd, file: OwnedFd) -> Image {
        Image { mount: Some(mount.into()), file: file.into(), scattered: Cell::default() }
    }

    /// Its descriptors, to be sent elsewhere: the mount and the file.
    pub(super) fn parts(&self) -> io::Result<[BorrowedFd<'_>; 2]> {
        Ok([self.mount()?.as_fd(), self.file.as_fd()])
    }

    /// Lets go of it without ending it: somebody else has its descriptors.
    pub(super) fn release(mut self) {
        self.mount = None;
    }

    /// The file system.
    pub(super) fn mount(&self) -> io::Result<&Detached> {
        self.mount.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Gives space that was freed inside back to the host, when it is much.
    pub(super) fn give_back(&self) -> io::Result<()> {
        let held = self.held()?;
        if held < self.scattered.get() + SLACK {
            return Ok(());
        }
        let mut range = [0, u64::MAX, WORTH_TRIMMING];
        let root = self.root()?;
        // SAFETY: the descriptor is open, and the range is three numbers, as the
        // request wants it, that live until the call returns.
        if unsafe { libc::ioctl(root.as_raw_fd(), TRIM, range.as_mut_ptr()) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // Pieces that are too small stay; asking again would not help.
        self.scattered.set(self.held()?);
        Ok(())
    }

    /// What the image takes from the host beyond what the sandbox uses.
    fn held(&self) -> io::Result<u64> {
        Ok((self.file.metadata()?.blocks() * 512).saturating_sub(self.used()?))
    }

    /// What the sandbox uses.
    fn used(&self) -> io::Result<u64> {
        let inside = rustix::fs::fstatvfs(self.mount()?)?;
        Ok((inside.f_blocks - inside.f_bfree) * inside.f_frsize)
    }

    fn root(&self) -> io::Result<OwnedFd> {
        self.mount()?.open(".", OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Lets go of everything.
    fn end(&mut self) -> io::Result<()> {
        let root = self.root()?;
        let device = Use::of(rustix::fs::fstat(&root)?.st_dev)?;
        let thrown_away = if self.used()? > MUCH { throw_away(&root) } else { Ok(()) };
        drop(root);
        self.mount = None;
        device.wait_for_end().and(thrown_away)
    }
}

/// Sees to it that what was not written yet never will be: gigabytes would go
/// to the image only to be removed with it.
fn throw_away(root: &OwnedFd) -> io::Result<()> {
    let flag = WRITE_NOTHING;
    // SAFETY: the descriptor is open, and the argument is one number that lives
    // until the call returns.
    match unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &raw const flag) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Without it the descriptor closes all the same, only more slowly.
        let _ = self.end();
    }
}

/// A file without a name that has the data of `blank`, and its holes.
fn copy(blank: &Path, directory: &Path) -> io::Result<File> {
    let from = File::open(blank)?;
    let nameless = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let to = match rustix::fs::open(directory, nameless, Mode::RUSR | Mode::WUSR) {
        // Not every file system has them.
        Err(Errno::OPNOTSUPP) => unlinked(directory)?,
        file => File::from(file?),
    };
    let size = from.metadata()?.len();
    to.set_len(size)?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while let Some(start) = seek(&from, SeekFrom::Data(at))? {
        let end = seek(&from, SeekFrom::Hole(start))?.unwrap_or(size);
        buffer.resize(usize::try_from(end - start).map_err(io::Error::other)?, 0);
        from.read_exact_at(&mut buffer, start)?;
        to.write_all_at(&buffer, start)?;
        at = end;
    }
    Ok(to)
}

fn seek(file: &File, to: SeekFrom) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, to) {
        Ok(at) => Ok(Some(at)),
        // There is no more data.
        Err(Errno::NXIO) => Ok(None),
        Err(err) => Err(err.into()),
    }
}

fn unlinked(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!("{}.image", std::process::id()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}
