//! Writes the files of one layer, by descriptor, and never outside of it.
//!
//! Paths come from archives that nobody checked. A path is taken apart first
//! (no `..`, not absolute), then its directory is opened with `openat2` and
//! `RESOLVE_BENEATH`, so a link that was written a moment ago cannot lead the
//! next file out. A link as such may point anywhere: it is followed only
//! inside a sandbox, whose root this layer then is.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::fchown},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, Uid,
        XattrFlags,
    },
    io::Errno,
};

/// The last id a sandbox has; files of others could not be shown in it.
const LAST_ID: u64 = 65_535;
/// How often a look-up that a rename elsewhere disturbed is tried again.
const LOOKUP_TRIES: u32 = 100;
const COPY_BYTES: usize = 64 * 1024;
/// The mode of directories about which nothing is said.
const OPEN_DIRECTORY: Mode = Mode::from_raw_mode(0o755);

/// A layer under construction.
#[derive(Debug)]
pub(super) struct Layer {
    root: OwnedFd,
    owners: Owners,
    size_bytes: u64,
}

/// Whose the files become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owners {
    /// The ids they are given; only root can do that.
    AsGiven,
    /// Ours. A sandbox without root shows our own id as its root.
    Ours,
}

/// What a file has besides its content.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) mode: u32,
    pub(super) modified: Option<Modified>,
    pub(super) xattrs: Vec<(String, Vec<u8>)>,
}

/// When a file was changed last. Python compares it with its compiled files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modified {
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum LayerError {
    #[error("`{}` leads out of the template", .0.display())]
    Escapes(PathBuf),
    #[error("`{}` belongs to id {id}; a sandbox has the ids 0 to {LAST_ID}", path.display())]
    Id { path: PathBuf, id: u64 },
    #[error("`{}` would replace a directory", .0.display())]
    ReplacesDirectory(PathBuf),
    #[error("the content of `{}` is not all there", path.display())]
    Content { path: PathBuf, source: io::Error },
    #[error("cannot store `{}`", path.display())]
    Store { path: PathBuf, source: io::Error },
}

impl Owners {
    /// What this process can do.
    pub(super) fn possible() -> Owners {
        if rustix::process::geteuid().is_root() { Owners::AsGiven } else { Owners::Ours }
    }
}

impl Layer {
    /// A layer in the empty directory `root`.
    pub(super) fn open(root: &Path, owners: Owners) -> Result<Layer, LayerError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = root;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(failed(path))?;
        rustix::fs::fchmod(&root, OPEN_DIRECTORY).map_err(failed(path))?;
        Ok(Layer { root, owners, size_bytes: 0 })
    }

    /// The length of all files written so far.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Makes a directory, or gives the one that is there new attributes.
    pub(super) fn directory(
        &mut self,
        path: &Path,
        attributes: &Attributes,
    ) -> Result<(), LayerError> {
        let inner = inner_path(path)?;
        let Some(place) = self.place(&inner)? else {
            return self.dress(&self.root, &inner, attributes);
        };
        match rustix::fs::mkdirat(&place.parent, &place.name, Mode::RWXU) {
            Err(Errno::EXIST) if place.holds_directory() => {}
            Err(Errno::EXIST) => {
                place.clear()?;
                rustix::fs::mkdirat(&place.parent, &place.name, Mode::RWXU)
                    .map_err(failed(path))?;
            }
            made => made.map_err(failed(path))?,
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&place.parent, &place.name, flags, Mode::empty())
            .map_err(failed(path))?;
        self.dress(&directory, &inner, attributes)
    }

    /// Writes a file; an earlier one of that name is replaced, never followed.
    pub(super) fn file(
        &mut self,
        path: &Path,
        attributes: &Attributes,
        content: &mut dyn Read,
    ) -> Result<(), LayerError> {
        let inner = inner_path(path)?;
        let place = self.place(&inner)?.ok_or_else(|| LayerError::Escapes(path.to_owned()))?;
        place.clear()?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&place.parent, &place.name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(failed(path))?;
        let mut file = File::from(file);
        self.size_bytes += copy(content, &mut file, path)?;
        self.dress(&OwnedFd::from(file), &inner, attributes)
    }

    /// Writes a symbolic link. Its target is text to us.
    pub(super) fn symlink(
        &mut self,
        path: &Path,
        attributes: &Attributes,
        target: &OsStr,
    ) -> Result<(), LayerError> {
        let inner = inner_path(path)?;
        let place = self.place(&inner)?.ok_or_else(|| LayerError::Escapes(path.to_owned()))?;
        place.clear()?;
        rustix::fs::symlinkat(target, &place.parent, &place.name).map_err(failed(path))?;
        if self.owners == Owners::AsGiven {
            let (uid, gid) = ids(&inner, attributes)?;
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&place.parent, &place.name, uid, gid, flags)
                .map_err(failed(path))?;
        }
        Ok(())
    }

    /// Gives a file of this layer a second name.
    pub(super) fn hard_link(&mut self, path: &Path, existing: &Path) -> Result<(), LayerError> {
        let escapes = |path: &Path| LayerError::Escapes(path.to_owned());
        let old = self.place(&inner_path(existing)?)?.ok_or_else(|| escapes(existing))?;
        let new = self.place(&inner_path(path)?)?.ok_or_else(|| escapes(path))?;
        new.clear()?;
        // Without `SYMLINK_FOLLOW`: a link is linked, not what it points to.
        rustix::fs::linkat(&old.parent, &old.name, &new.parent, &new.name, AtFlags::empty())
            .map_err(failed(path))
    }

    /// Opens what a sandbox would find under `path`, its links followed as they
    /// are inside.
    pub(super) fn open_inside(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.look_up(Path::new(path), flags, ResolveFlags::IN_ROOT)
    }

    /// The directory of `inner`, made if it is missing; `None` for the root.
    fn place(&self, inner: &Path) -> Result<Option<Place>, LayerError> {
        let (Some(parent), Some(name)) = (inner.parent(), inner.file_name()) else {
            return Ok(None);
        };
        let parent = match self.enter(parent) {
            Err(Errno::NOENT) => self.make_parents(parent)?,
            entered => entered.map_err(|errno| escaped_or_failed(inner, errno))?,
        };
        Ok(Some(Place { parent, name: name.to_owned(), path: inner.to_owned() }))
    }

    fn make_parents(&self, directory: &Path) -> Result<OwnedFd, LayerError> {
        let lost = |errno| escaped_or_failed(directory, errno);
        let mut here = self.enter(Path::new("")).map_err(lost)?;
        let mut path = PathBuf::new();
        for name in directory {
            path.push(name);
            match rustix::fs::mkdirat(&here, name, OPEN_DIRECTORY) {
                // Our umask is not the sandbox's.
                Ok(()) => rustix::fs::chmodat(&here, name, OPEN_DIRECTORY, AtFlags::empty())
                    .map_err(lost)?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(lost(errno)),
            }
            here = self.enter(&path).map_err(lost)?;
        }
        Ok(here)
    }

    fn enter(&self, directory: &Path) -> Result<OwnedFd, Errno> {
        let directory = if directory == Path::new("") { Path::new(".") } else { directory };
        self.look_up(directory, OFlags::PATH | OFlags::DIRECTORY, ResolveFlags::BENEATH)
    }

    fn look_up(&self, path: &Path, flags: OFlags, within: ResolveFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let within = within | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), within) {
                Err(Errno::AGAIN) if tries < LOOKUP_TRIES => tries += 1,
                result => return result,
            }
        }
    }

    /// Owner first, since changing it clears set-id bits and capabilities.
    /// Capabilities are root's to give. Where files are ours, so are directories,
    /// and we have to get into each of them to fill it.
    fn dress(
        &self,
        file: &OwnedFd,
        path: &Path,
        attributes: &Attributes,
    ) -> Result<(), LayerError> {
        let store = |source| LayerError::Store { path: path.to_owned(), source };
        if self.owners == Owners::AsGiven {
            let (uid, gid) = ids(path, attributes)?;
            fchown(file, Some(uid), Some(gid)).map_err(store)?;
        }
        let mut mode = Mode::from_raw_mode(attributes.mode & 0o7777);
        let is_ours = self.owners == Owners::Ours;
        if is_ours {
            let stat = rustix::fs::fstat(file).map_err(failed(path))?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                mode |= Mode::RWXU;
            }
        }
        rustix::fs::fchmod(file, mode).map_err(failed(path))?;
        for (name, value) in &attributes.xattrs {
            if is_kept_xattr(name) && !(is_ours && name == CAPABILITY) {
                rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())
                    .map_err(failed(path))?;
            }
        }
        if let Some(Modified { seconds, nanoseconds }) = attributes.modified {
            let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let modified = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
            let times = Timestamps { last_access: omit, last_modification: modified };
            rustix::fs::futimens(file, &times).map_err(failed(path))?;
        }
        Ok(())
    }
}

/// What makes a program start with capabilities.
const CAPABILITY: &str = "security.capability";

/// Extended attributes that a layer may carry. `user.overlay.*` would tell
/// overlayfs where to look for other files, so it is left out.
pub(super) fn is_kept_xattr(name: &str) -> bool {
    name == CAPABILITY || (name.starts_with("user.") && !name.starts_with("user.overlay."))
}

/// One name in an open directory.
struct Place {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl Place {
    fn holds_directory(&self) -> bool {
        rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Takes away what has the name now, unless it is a directory.
    fn clear(&self) -> Result<(), LayerError> {
        match rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => Err(LayerError::ReplacesDirectory(self.path.clone())),
            Err(errno) => Err(failed(&self.path)(errno)),
        }
    }
}

/// `io::copy`, which would not tell whose fault an error is.
fn copy(content: &mut dyn Read, file: &mut File, path: &Path) -> Result<u64, LayerError> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut total = 0;
    loop {
        let length = match content.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(LayerError::Content { path: path.to_owned(), source }),
        };
        file.write_all(&buffer[..length])
            .map_err(|source| LayerError::Store { path: path.to_owned(), source })?;
        total += length as u64;
    }
}

/// `path` without its `./`, or the reason why it is no path of this layer.
fn inner_path(path: &Path) -> Result<PathBuf, LayerError> {
    let escapes = || LayerError::Escapes(path.to_owned());
    let mut inner = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if !name.as_bytes().contains(&0) => inner.push(name),
            Component::CurDir => {}
            Component::Normal(_)
            | Component::Prefix(_)
            | Component::RootDir
            | Component::ParentDir => return Err(escapes()),
        }
    }
    Ok(inner)
}

fn ids(path: &Path, attributes: &Attributes) -> Result<(u32, u32), LayerError> {
    let checked = |id: u64| match u32::try_from(id) {
        Ok(short) if id <= LAST_ID => Ok(short),
        Ok(_) | Err(_) => Err(LayerError::Id { path: path.to_owned(), id }),
    };
    Ok((checked(attributes.uid)?, checked(attributes.gid)?))
}

fn escaped_or_failed(path: &Path, errno: Errno) -> LayerError {
    match errno {
        Errno::XDEV | Errno::LOOP => LayerError::Escapes(path.to_owned()),
        errno => failed(path)(errno),
    }
}

fn failed(path: &Path) -> impl FnOnce(Errno) -> LayerError {
    let path = path.to_owned();
    move |errno| LayerError::Store { path, source: errno.into() }
}
