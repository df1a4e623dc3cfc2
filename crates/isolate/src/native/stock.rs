//! Disks made ahead of time, by the server: making one takes longer than half
//! of all the rest of a start.
//!
//! They have no names, so a server that dies leaves none. The blank images that
//! they are copies of are made anew at every start.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    disk::blank_disk,
    image::Image,
    loop_device::{self, Thrift},
    spec::Privilege,
};
use crate::{Error, Tier, places::root_program, removal::remove_tree};

/// Disks that wait.
const READY: usize = 3;

/// What a file system for a sandbox is made with, besides its size. Features
/// are named one by one, since the defaults differ from host to host.
///
/// - no journal: nobody reads the image after a crash
/// - no copies of the superblock, for the same reason, and no blocks set aside
///   for root: what is promised is the sandbox's
/// - a file for every 16 KiB, at most
const MKFS: [&str; 16] = [
    "-q",
    "-F",
    "-b",
    "4096",
    "-I",
    "256",
    "-i",
    "16384",
    "-m",
    "0",
    "-O",
    "none,dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,huge_file,large_file,\
     sparse_super2,uninit_bg",
    "-E",
    "lazy_itable_init=1,nodiscard,num_backup_sb=0",
    "-U",
    "clear",
];

/// Why sandboxes cannot have a limit on their disk here, if they cannot.
pub fn disk_limit() -> Result<(), Error> {
    match Privilege::of_process() {
        Privilege::Root => {}
        Privilege::User => return Err(lacking("root, to limit disks")),
    }
    find_mkfs()?;
    if loop_device::can_be_had().is_err() {
        return Err(lacking("/dev/loop-control to limit disks; modprobe loop makes it"));
    }
    Ok(())
}

fn find_mkfs() -> Result<PathBuf, Error> {
    root_program("mkfs.ext4", &Path::exists).ok_or_else(|| {
        lacking("`mkfs.ext4` to limit disks; Debian has it in the package e2fsprogs")
    })
}

fn lacking(what: &'static str) -> Error {
    Error::Unavailable { tier: Tier::Native, what }
}

/// Blank images, and disks that are ready.
pub(super) struct Stock {
    place: PathBuf,
    blanks: Mutex<BTreeSet<u32>>,
    ready: Mutex<Vec<(u32, Image)>>,
    /// Held by whoever makes disks, so that there is one at most.
    making: Mutex<()>,
    tidying: Mutex<()>,
    /// Somebody wants devices to be removed.
    untidy: AtomicBool,
}

impl Stock {
    /// Uses `place`, which nobody else uses, and empties it.
    pub(super) fn open(place: PathBuf) -> Result<Stock, Error> {
        let failed = |action| {
            let path = place.clone();
            move |source| Error::Directory { action, path, source }
        };
        remove_tree(&place).map_err(failed("empty"))?;
        DirBuilder::new().mode(0o700).create(&place).map_err(failed("create"))?;
        Ok(Stock {
            place,
            blanks: Mutex::default(),
            ready: Mutex::default(),
            making: Mutex::default(),
            tidying: Mutex::default(),
            untidy: AtomicBool::default(),
        })
    }

    /// The blank image of this size, which is made if it is not there.
    pub(super) fn blank(&self, mib: u32) -> Result<PathBuf, Error> {
        let path = self.place.join(format!("{mib}.image"));
        let mut blanks = held(&self.blanks);
        if !blanks.contains(&mib) {
            disk_limit()?;
            let made = make_blank(&path, mib);
            let what = "no blank disk could be made";
            made.map_err(|source| Error::Host { what, source })?;
            blanks.insert(mib);
        }
        Ok(path)
    }

    /// Makes the first disk of this size, which shows whether this host can.
    pub(super) fn prepare(&self, mib: u32) -> Result<(), Error> {
        let blank = self.blank(mib)?;
        let what = "no disk of limited size could be made; `--disk-mib 0` serves without limit";
        let image = blank_disk(&blank, &self.place);
        held(&self.ready).push((mib, image.map_err(|source| Error::Host { what, source })?));
        Ok(())
    }

    /// A disk that is ready, if there is one.
    pub(super) fn take(&self, mib: u32) -> Option<Image> {
        let mut ready = held(&self.ready);
        let at = ready.iter().position(|(size, _)| *size == mib)?;
        Some(ready.swap_remove(at).1)
    }

    /// Makes disks until enough are ready, if nobody else does.
    pub(super) fn fill(&self, mib: u32) {
        let Ok(_alone) = self.making.try_lock() else { return };
        while held(&self.ready).len() < READY {
            let blank = self.blank(mib).map_err(io::Error::other);
            match blank.and_then(|blank| blank_disk(&blank, &self.place)) {
                Ok(image) => held(&self.ready).push((mib, image)),
                Err(err) => return tracing::warn!("no disk was made ahead of time: {err}"),
            }
        }
    }

    /// Lets go of what was made, and of devices that were added for it.
    pub(super) fn clear(&self) {
        held(&self.ready).clear();
        self.remove_devices(Thrift::AtOnce);
    }

    /// Removes loop devices that nobody needs any more.
    pub(super) fn tidy(&self) {
        self.remove_devices(Thrift::WhenQuiet);
    }

    fn remove_devices(&self, thrift: Thrift) {
        self.untidy.store(true, Ordering::SeqCst);
        let _alone = held(&self.tidying);
        // Of many who waited, one does it for all, except for the last.
        if (self.untidy.swap(false, Ordering::SeqCst) || thrift == Thrift::AtOnce)
            && loop_device::can_be_had().is_ok()
            && let Err(err) = loop_device::remove_spare(thrift)
        {
            tracing::warn!("loop devices are left: {err}");
        }
    }
}

/// Nothing is half done while one of these locks is held.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_blank(path: &Path, mib: u32) -> io::Result<()> {
    File::create(path)?.set_len(u64::from(mib) << 20)?;
    let mkfs = find_mkfs().map_err(io::Error::other)?;
    let made = Command::new(mkfs)
        .args(MKFS)
        .arg(path)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if made.status.success() {
        return Ok(());
    }
    fs::remove_file(path)?;
    Err(io::Error::other(String::from_utf8_lossy(&made.stderr).trim().to_owned()))
}
