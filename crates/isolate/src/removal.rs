//! Removing a directory that a sandbox has filled.
//!
//! The standard library descends by calling itself, with a descriptor and a
//! piece of stack for each level. A sandbox can make a tree of any depth, and
//! with a few ten thousand levels it would take the remover down. Here every
//! directory that is found is moved up to the top before it is emptied, so two
//! descriptors are enough for any tree. No link is followed.
//!
//! Root gets into every directory. Anybody else opens up his own first.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, chmod, fstat, openat, renameat_with,
        unlinkat,
    },
    io::Errno,
    process::geteuid,
};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a directory and everything in it. One that is not there is no error.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = match openat(rustix::fs::CWD, path, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        top => top?,
    };
    let mut names = 0;
    loop {
        let directories = remove_files(&top)?;
        if directories.is_empty() {
            break;
        }
        for name in directories {
            let directory = open(&top, &name)?;
            for inner in remove_files(&directory)? {
                move_up(&directory, &inner, &top, &mut names)?;
            }
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(unlinkat(rustix::fs::CWD, path, AtFlags::REMOVEDIR)?)
}

/// Opens a directory in such a way that it can be emptied.
fn open(parent: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    open_up(parent, name)?;
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// Lets its owner into a directory, and says whether that changed anything. It
/// is never tried as root, whom no mode keeps out.
fn open_up(parent: &OwnedFd, name: &CStr) -> io::Result<bool> {
    if geteuid().is_root() {
        return Ok(false);
    }
    // By a descriptor that needs no permission, as a name could be a link's.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(parent, name, flags, Mode::empty())?;
    if Mode::from_raw_mode(fstat(&directory)?.st_mode).contains(Mode::RWXU) {
        return Ok(false);
    }
    chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), Mode::RWXU)?;
    Ok(true)
}

/// Removes what is not a directory, and returns the names of those that are.
fn remove_files(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut directories = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            directories.push(name.to_owned());
            continue;
        }
        match unlinkat(directory, name, AtFlags::empty()) {
            // Some file systems do not say of what type an entry is.
            Err(Errno::ISDIR) => directories.push(name.to_owned()),
            result => result?,
        }
    }
    Ok(directories)
}

/// Moves a directory to the top, under a name that is free there.
fn move_up(from: &OwnedFd, name: &CStr, top: impl AsFd, names: &mut u64) -> io::Result<()> {
    loop {
        *names += 1;
        let free = names.to_string();
        match renameat_with(from, name, &top, free.as_str(), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            // A directory that moves is written to: its parent is an entry of it.
            Err(Errno::ACCESS) if open_up(from, name)? => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, os::unix::fs::symlink};

    use super::remove_tree;

    #[test]
    fn what_a_link_leads_to_is_left_alone() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let tree = inside.path().join("tree");
        fs::create_dir_all(tree.join("1/2/1")).unwrap();
        fs::write(tree.join("1/2/file"), "").unwrap();
        symlink(outside.path(), tree.join("1/link")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.path().join("kept").exists());
    }

    #[test]
    fn a_tree_deeper_than_a_path_is_long_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        // Built from the bottom: a path to its end would be too long to name.
        fs::create_dir(&tree).unwrap();
        for _ in 0..5_000 {
            let next = place.path().join("next");
            fs::create_dir(&next).unwrap();
            fs::rename(&tree, next.join("inner")).unwrap();
            fs::rename(&next, &tree).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn what_is_not_there_is_removed_already() {
        remove_tree(&env::temp_dir().join("mayfly-never-was-here")).unwrap();
    }
}
