//! Archives and directories, the hostile ones among them.

use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use rustix::fs::{FileType, Mode, XattrFlags};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::{ImportError, Imported, Progress, fill};
use crate::templates::tests::is_root;

#[test]
fn an_archive_keeps_owners_modes_links_times_and_attributes() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let mut tarball = Tarball::system();
    tarball.add(EntryType::Directory, "./home/user/", "", "").own(1000, 0o700);
    tarball.add(EntryType::Regular, "usr/bin/sudo", "", "elf").own(0, 0o4755);
    tarball.add(EntryType::Link, "usr/bin/sudoedit", "usr/bin/sudo", "");
    tarball.attribute("SCHILY.xattr.user.note", b"kept");
    tarball.attribute("SCHILY.xattr.user.overlay.redirect", b"/etc");
    tarball.attribute("SCHILY.xattr.trusted.overlay.opaque", b"y");
    tarball.attribute("SCHILY.xattr.security.capability", &NET_RAW);
    tarball.add(EntryType::Regular, "usr/bin/ping", "", "elf").own(0, 0o755);
    tarball.add(EntryType::Char, "dev/null", "", "");
    tarball.add(EntryType::Fifo, "run/pipe", "", "");
    tarball.add(EntryType::Symlink, "etc/mtab", "/proc/mounts", "").own(7, 0o777);

    for packed in [tarball.plain(), tarball.gzipped()] {
        let target = TempDir::new_in(room.path()).unwrap();
        let mut seen = Vec::new();
        let source = room.file("source", &packed);
        let imported = fill(target.path(), &source, &mut |progress| seen.push(progress)).unwrap();
        let at = |path: &str| target.path().join(path).symlink_metadata().unwrap();
        assert_eq!((at("home/user").uid(), at("home/user").mode() & 0o7777), (1000, 0o700));
        assert_eq!(at("usr/bin/sudo").mode() & 0o7777, 0o4755);
        assert_eq!(
            (at("usr/bin/sudo").ino(), at("usr/bin/sudo").nlink()),
            (at("usr/bin/sudoedit").ino(), 2)
        );
        assert_eq!((at("etc/mtab").uid(), at("usr/bin/sudo").mtime()), (7, 1_000_000));
        assert!(!target.path().join("dev/null").exists());
        assert_eq!(xattr(&target.path().join("usr/bin/ping"), "user.note"), Some(b"kept".to_vec()));
        let capability = xattr(&target.path().join("usr/bin/ping"), "security.capability");
        assert_eq!(capability, Some(NET_RAW.to_vec()));
        for dropped in ["user.overlay.redirect", "trusted.overlay.opaque"] {
            assert_eq!(xattr(&target.path().join("usr/bin/ping"), dropped), None);
        }
        assert_eq!((imported.defaults.user.as_str(), imported.skipped), ("user", 2));
        assert_eq!(imported.defaults.workdir, "/home/user");
        assert_eq!(imported.size_bytes, "sh".len() as u64 + PASSWD.len() as u64 + 6);
        let last = seen.last().unwrap();
        assert_eq!((last.total_bytes, last.skipped), (packed.len() as u64, 2));
        assert!(seen.is_sorted_by_key(|progress| progress.read_bytes));
        assert_eq!(last.read_bytes, last.total_bytes);
    }
}

#[test]
fn no_entry_leaves_the_template() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let outside = room.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "whole").unwrap();
    let outside_name = outside.to_str().unwrap();
    let regular = |path: &str| vec![(EntryType::Regular, path.to_owned(), String::new())];
    let through = |target: &str, then: EntryType, path: &str, link: &str| {
        vec![
            (EntryType::Symlink, "out".to_owned(), target.to_owned()),
            (then, path.to_owned(), link.to_owned()),
        ]
    };
    let attacks = [
        regular("../evil"),
        regular("a/../../evil"),
        regular(&format!("{outside_name}/evil")),
        through(outside_name, EntryType::Regular, "out/evil", ""),
        through(outside_name, EntryType::Regular, "out/victim", ""),
        through(outside_name, EntryType::Regular, "out/deep/evil", ""),
        through(outside_name, EntryType::Directory, "out/evil", ""),
        through(outside_name, EntryType::Symlink, "out/evil", "x"),
        through("../outside", EntryType::Regular, "out/evil", ""),
        through("/proc/self/cwd", EntryType::Regular, "out/evil", ""),
        through(outside_name, EntryType::Link, "copy", "out/victim"),
        through("x", EntryType::Link, "copy", "../outside/victim"),
        through("x", EntryType::Link, "copy", &format!("{outside_name}/victim")),
        through("out", EntryType::Regular, "out/evil", ""),
    ];
    for attack in attacks {
        let mut tarball = Tarball::system();
        for (kind, path, link) in &attack {
            tarball.add(*kind, path, link, "");
        }
        let target = room.path().join("target");
        fs::create_dir(&target).unwrap();
        let error = import(&target, &room.file("source", &tarball.plain())).unwrap_err();
        assert!(error.to_string().ends_with("leads out of the template"), "{attack:?}: {error}");
        fs::remove_dir_all(target).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{attack:?}");
        assert_eq!(fs::read(outside.join("victim")).unwrap(), b"whole", "{attack:?}");
        assert_eq!(outside.join("victim").metadata().unwrap().nlink(), 1, "{attack:?}");
    }
}

#[test]
fn a_file_replaces_a_link_of_its_name_and_never_what_it_points_to() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let victim = room.file("victim", b"whole");
    let mut tarball = Tarball::system();
    tarball.add(EntryType::Symlink, "etc/motd", victim.to_str().unwrap(), "");
    tarball.add(EntryType::Regular, "etc/motd", "", "new");
    tarball.add(EntryType::Symlink, "srv", room.path().to_str().unwrap(), "");
    tarball.add(EntryType::Directory, "srv", "", "");
    tarball.add(EntryType::Regular, "lib/inside", "", "through a link that stays within");
    let target = room.directory("target");
    import(&target, &room.file("source", &tarball.plain())).unwrap();
    assert_eq!(fs::read(victim).unwrap(), b"whole");
    assert_eq!(fs::read(target.join("etc/motd")).unwrap(), b"new");
    assert!(target.join("srv").symlink_metadata().unwrap().is_dir());
    assert!(target.join("usr/lib/inside").is_file());
}

#[test]
fn what_is_no_root_file_system_is_refused_with_the_reason() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let check = |source: &[u8], expected: &str| {
        let target = TempDir::new_in(room.path()).unwrap();
        let error = import(target.path(), &room.file("source", source)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(&Tarball::new().plain(), "has no /bin/sh");
    let mut no_passwd = Tarball::new();
    no_passwd.add(EntryType::Regular, "bin/sh", "", "sh");
    check(&no_passwd.plain(), "has no /etc/passwd");
    // A shell that is only a link to the host's would run nothing inside.
    let mut dangling = Tarball::new();
    dangling.add(EntryType::Symlink, "bin/sh", "/bin/bash", "");
    check(&dangling.plain(), "has no /bin/sh");
    let mut stranger = Tarball::system();
    stranger.add(EntryType::Regular, "x", "", "").own(70_000, 0o644);
    check(&stranger.plain(), "`x` belongs to id 70000");
    let mut clash = Tarball::system();
    clash.add(EntryType::Regular, "etc", "", "");
    check(&clash.plain(), "`etc` would replace a directory");
    check(&[b'x'; 2048], "not a whole tar archive");
    check(&[0x28, 0xb5, 0x2f, 0xfd, 0], "unpack it with `zstd -d` first");
    let whole = Tarball::system().gzipped();
    check(&whole[..whole.len() / 2], "not a whole tar archive");
    let mut cut = Tarball::system();
    cut.add(EntryType::Regular, "big", "", &"x".repeat(5000));
    check(&cut.plain()[..8 * 512 + 1000], "not a whole tar archive");
    let noise: String = (0..200_000_u64).map(|n| char::from(32 + (n * n / 7 % 95) as u8)).collect();
    cut.add(EntryType::Regular, "noise", "", &noise);
    let packed = cut.gzipped();
    check(&packed[..packed.len() / 2], "the content of `noise` is not all there");
    check(&packed[..packed.len() - 4], "not a whole tar archive");
    let error = import(room.path(), Path::new("/nowhere")).unwrap_err();
    assert!(matches!(error, ImportError::Source { .. }), "{error}");
}

#[test]
fn a_directory_is_copied_as_it_is() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    let source = room.directory("source");
    for directory in ["bin", "etc", "home"] {
        fs::create_dir(source.join(directory)).unwrap();
    }
    fs::write(source.join("bin/busybox"), "elf").unwrap();
    fs::set_permissions(source.join("bin/busybox"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(source.join("bin/busybox"), source.join("bin/ls")).unwrap();
    symlink("/bin/busybox", source.join("bin/sh")).unwrap();
    fs::write(source.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
    fs::write(source.join("home/mine"), "").unwrap();
    chown(source.join("home/mine"), Some(1000), Some(1001)).unwrap();
    let note = source.join("home/mine");
    rustix::fs::setxattr(&note, "user.note", b"kept", XattrFlags::empty()).unwrap();
    let fifo = source.join("etc/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();

    let target = room.directory("target");
    let mut last = Progress::default();
    let imported = fill(&target, &source, &mut |progress| last = progress).unwrap();
    let at = |path: &str| target.join(path).symlink_metadata().unwrap();
    assert_eq!(at("bin/busybox").mode() & 0o7777, 0o4755);
    assert_eq!(at("bin/busybox").ino(), at("bin/ls").ino());
    assert_eq!(at("bin/busybox").mtime(), source.join("bin/ls").metadata().unwrap().mtime());
    assert_eq!(fs::read_link(target.join("bin/sh")).unwrap(), Path::new("/bin/busybox"));
    assert_eq!((at("home/mine").uid(), at("home/mine").gid()), (1000, 1001));
    assert_eq!(xattr(&target.join("home/mine"), "user.note"), Some(b"kept".to_vec()));
    assert!(!target.join("etc/fifo").exists());
    assert_eq!((imported.defaults.user.as_str(), imported.skipped), ("root", 1));
    assert_eq!((last.read_bytes, last.total_bytes), (29, 29));

    let error = import(&room.directory("source/inner"), &source).unwrap_err();
    assert!(matches!(error, ImportError::Recursive), "{error}");
}

/// `cap_net_raw+ep`, as the kernel writes it down.
const NET_RAW: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n";

fn import(target: &Path, source: &Path) -> Result<Imported, ImportError> {
    fill(target, source, &mut |_| {})
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let length = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

struct Room(TempDir);

impl Room {
    fn new() -> Room {
        Room(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

/// A tarball whose names are written as they are given, unlike the `tar`
/// crate's own writing, which refuses hostile ones.
pub(in crate::templates) struct Tarball {
    entries: Vec<(Header, Vec<u8>)>,
}

impl Tarball {
    fn new() -> Tarball {
        Tarball { entries: Vec::new() }
    }

    /// The least a root file system has.
    pub(in crate::templates) fn system() -> Tarball {
        let mut tarball = Tarball::new();
        tarball.add(EntryType::Directory, "./", "", "").own(0, 0o755);
        tarball.add(EntryType::Symlink, "bin", "usr/bin", "");
        tarball.add(EntryType::Symlink, "lib", "usr/lib", "");
        tarball.add(EntryType::Directory, "usr/lib/", "", "").own(0, 0o755);
        tarball.add(EntryType::Regular, "usr/bin/sh", "", "sh").own(0, 0o755);
        tarball.add(EntryType::Regular, "etc/passwd", "", PASSWD);
        tarball
    }

    fn add(&mut self, kind: EntryType, path: &str, link: &str, content: &str) -> &mut Tarball {
        let mut header = Header::new_gnu();
        let fields = header.as_gnu_mut().unwrap();
        fields.name[..path.len()].copy_from_slice(path.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mtime(1_000_000);
        self.entries.push((header, content.into()));
        self.own(0, 0o644)
    }

    /// Gives the entry that was added last an owner and a mode.
    fn own(&mut self, id: u64, mode: u32) -> &mut Tarball {
        let (header, _) = self.entries.last_mut().unwrap();
        header.set_uid(id);
        header.set_gid(id);
        header.set_mode(mode);
        header.set_cksum();
        self
    }

    /// Gives the entry that is added next an attribute.
    fn attribute(&mut self, key: &str, value: &[u8]) {
        // The length counts its own digits.
        let rest = key.len() + value.len() + 3;
        let length = (rest..).find(|length| length - length.to_string().len() == rest).unwrap();
        let record = [format!("{length} {key}=").as_bytes(), value, b"\n"].concat();
        match self.entries.last_mut() {
            Some((header, records)) if header.entry_type() == EntryType::XHeader => {
                records.extend(record);
                header.set_size(records.len() as u64);
                header.set_cksum();
            }
            Some(_) | None => {
                self.add(EntryType::XHeader, "pax", "", "");
                let (header, records) = self.entries.last_mut().unwrap();
                header.set_size(record.len() as u64);
                header.set_cksum();
                *records = record;
            }
        }
    }

    pub(in crate::templates) fn plain(&self) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (header, content) in &self.entries {
            builder.append(header, content.as_slice()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn gzipped(&self) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&self.plain()).unwrap();
        encoder.finish().unwrap()
    }
}
