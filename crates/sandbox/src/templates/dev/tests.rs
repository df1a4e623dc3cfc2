//! The `dev` layers, of a made-up host full of secrets and of the real one.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

use tempfile::TempDir;

use super::{DevTemplate, HostError};
use crate::templates::tests::is_root;

/// In the name or the content of everything that must not be copied.
const SECRET: &str = "S3CRET";

/// What a sandbox may see of the made-up host.
const PUBLIC: [(&str, &str); 9] = [
    ("etc/os-release", "ID=debian\n"),
    ("etc/ssl/certs/root.pem", "-----BEGIN CERTIFICATE-----\n"),
    ("etc/ca-certificates.conf", "mozilla/root.crt\n"),
    ("etc/pam.d/common-auth", "auth required pam_unix.so\n"),
    ("etc/apt/keyrings/archive.asc", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"),
    ("etc/python3.11/sitecustomize.py", "pass\n"),
    ("etc/maven/m2.conf", "main is x\n"),
    ("var/lib/dpkg/status", "Package: bash\n"),
    ("var/lib/dpkg/info/ssl.postinst", "# PRIVATE KEY-----\n"),
];

/// What it may not, although everybody on the host may read it.
const PRIVATE: [(&str, &str); 22] = [
    ("etc/environment", "TOKEN=S3CRET\n"),
    ("etc/gitconfig", "S3CRET"),
    ("etc/hosts", "10.0.0.1 S3CRET\n"),
    ("etc/machine-id", "S3CRET"),
    ("etc/npmrc", "//registry/:_authToken=S3CRET"),
    ("etc/pip.conf", "index-url = https://S3CRET@pypi/"),
    ("etc/profile", "export KEY=S3CRET"),
    ("etc/profile.d/keys.sh", "export KEY=S3CRET"),
    ("etc/resolv.conf", "search S3CRET"),
    ("etc/shadow", "root:S3CRET:1::::::\n"),
    ("etc/sudoers", "S3CRET"),
    ("etc/ssh/ssh_host_rsa_key", "S3CRET"),
    ("etc/maven/settings.xml", "<password>S3CRET</password>"),
    ("etc/security/opasswd", "ann:S3CRET"),
    ("etc/apt/auth.conf", "password S3CRET"),
    ("etc/apt/auth.conf.d/corp.conf", "password S3CRET"),
    ("etc/ssl/private/server.pem", "S3CRET"),
    ("etc/ssl/certs/both.pem", "-----BEGIN RSA PRIVATE KEY-----\nS3CRET"),
    ("etc/ssl/S3CRET.key", "der"),
    ("home/ann/.ssh/id_rsa", "S3CRET"),
    ("root/.bash_history", "S3CRET"),
    ("var/cache/debconf/passwords.dat", "S3CRET"),
];

#[test]
fn nothing_secret_of_the_host_is_in_the_layers() {
    let host = fake_host();
    let before = contents(host.path());
    assert!(before.values().filter(|text| text.contains(SECRET)).count() > PRIVATE.len() - 2);

    let made = make(host.path());
    let found = contents(made.path());
    for (path, text) in &found {
        assert!(!path.contains(SECRET) && !text.contains(SECRET), "{path}: {text}");
        assert!(!text.contains("Ann Person") && !text.contains("ann:"), "{path}: {text}");
    }
    for (path, text) in PUBLIC {
        assert_eq!(found.get(&format!("rootfs/{path}")).map(String::as_str), Some(text), "{path}");
    }
    let sources = &found["rootfs/etc/apt/sources.list"];
    assert_eq!(sources, "deb https://deb.corp/debian bookworm main\n");
    assert_eq!(found["rootfs/etc/localtime"], "-> /usr/share/zoneinfo/Etc/UTC");
    assert!(!found.contains_key("rootfs/etc/alternatives/tool"));
}

#[test]
fn the_usr_layer_has_python_and_an_open_local() {
    let host = fake_host();
    let made = make(host.path());
    let usr = made.path().join("usr");
    assert_eq!(fs::read_link(usr.join("bin/python")).unwrap(), Path::new("python3"));
    for path in ["local", "local/lib/python3.11/dist-packages"] {
        assert_eq!(mode(&usr.join(path)), 0o777, "{path}");
    }
    for path in ["local/lib/python3.11/dist-packages/deeper", "local/closed"] {
        assert!(!usr.join(path).exists(), "{path}");
    }

    // A host that has the command keeps its own.
    fs::write(host.path().join("usr/bin/python"), "").unwrap();
    assert!(!make(host.path()).path().join("usr/bin").exists());
}

#[test]
fn a_host_without_merged_usr_is_refused_by_name() {
    let host = fake_host();
    fs::remove_file(host.path().join("sbin")).unwrap();
    fs::create_dir(host.path().join("sbin")).unwrap();
    let error = DevTemplate::plan(host.path()).unwrap_err();
    assert!(matches!(error, HostError::NotMerged("sbin")), "{error}");
    assert!(error.to_string().starts_with("/sbin is not a link into /usr"), "{error}");
}

#[test]
fn the_stamp_follows_the_files_that_are_used_and_no_others() {
    let host = fake_host();
    let stamp = || DevTemplate::plan(host.path()).unwrap().stamp();
    let first = stamp();
    fs::write(host.path().join("home/ann/diary"), "today").unwrap();
    fs::write(host.path().join("etc/hosts"), "10.0.0.2 other\n").unwrap();
    assert_eq!(stamp(), first);
    for path in ["var/lib/dpkg/status", "etc/os-release", "etc/passwd"] {
        let before = stamp();
        let text = fs::read_to_string(host.path().join(path)).unwrap();
        fs::write(host.path().join(path), format!("{text}new:x:7:7::/:/bin/sh\n")).unwrap();
        assert_ne!(stamp(), before, "{path}");
    }
}

#[test]
fn the_real_host_gives_a_root_with_the_right_owners_and_modes() {
    if !is_root() {
        return;
    }
    let made = make(Path::new("/"));
    let root = made.path().join("rootfs");
    let check = |path: &str, uid: u32, mode: u32| {
        let facts = root.join(path).symlink_metadata().unwrap();
        assert_eq!((facts.uid(), facts.mode() & 0o7777), (uid, mode), "{path}");
    };
    check("", 0, 0o755);
    check("etc", 0, 0o755);
    check("etc/passwd", 0, 0o644);
    check("etc/shadow", 0, 0o640);
    check("etc/sudoers.d/user", 0, 0o440);
    check("root", 0, 0o700);
    check("home/user", 1000, 0o755);
    check("home/user/.bashrc", 1000, 0o644);
    check("tmp", 0, 0o1777);
    check("var/tmp", 0, 0o1777);
    check("code", 0, 0o777);
    assert_eq!(fs::read_link(root.join("bin")).unwrap(), Path::new("usr/bin"));
    assert_eq!(fs::read_dir(root.join("usr")).unwrap().count(), 0);
    assert!(!root.join("etc/ssl/private").exists());
    assert!(!root.join("etc/gitconfig").exists());
    let profile = fs::read_to_string(root.join("etc/profile")).unwrap();
    assert!(profile.contains(r"PS1='\w $ '"));

    // Whoever can log in on the host is not known inside.
    let passwd = fs::read_to_string(root.join("etc/passwd")).unwrap();
    for line in fs::read_to_string("/etc/passwd").unwrap().lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if (1000..65_534).contains(&fields[2].parse::<u32>().unwrap()) {
            assert!(!passwd.contains(&format!("\n{}:", fields[0])), "{}", fields[0]);
        }
    }
    for path in contents(&root).keys() {
        let facts = root.join(path).symlink_metadata().unwrap();
        assert!(facts.mode() & 0o6000 == 0 && facts.uid() <= 1000, "{path}");
    }
}

fn make(host: &Path) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    DevTemplate::plan(host).unwrap().write(directory.path()).unwrap();
    directory
}

/// A host with something to hide in every corner.
pub(in crate::templates) fn fake_host() -> TempDir {
    let host = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = host.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    PUBLIC.iter().chain(&PRIVATE).for_each(|(path, text)| write(path, text));
    write("usr/bin/python3", "");
    write("usr/local/lib/python3.11/dist-packages/deeper/x.py", "");
    write("etc/apt/sources.list", "deb https://bob:S3CRET@deb.corp/debian bookworm main\n");
    write(
        "etc/passwd",
        "root:x:0:0:S3CRET:/root:/bin/sh\nann:x:1000:1000:Ann Person:/home/ann:/bin/sh\n",
    );
    write("etc/group", "root:x:0:\nsudo:x:27:ann\nshadow:x:42:\nann:x:1000:\n");
    write("etc/pam.d/mine", SECRET);
    write("etc/dpkg/closed/file", SECRET);
    write("usr/local/closed/file", SECRET);
    // Whatever the umask of whoever runs the tests.
    for path in contents(host.path()).keys() {
        set_mode(&host.path().join(path), 0o755);
    }
    set_mode(&host.path().join("etc/pam.d/mine"), 0o640);
    set_mode(&host.path().join("etc/dpkg/closed"), 0o700);
    set_mode(&host.path().join("usr/local/closed"), 0o700);
    for name in ["bin", "sbin", "lib"] {
        symlink(format!("usr/{name}"), host.path().join(name)).unwrap();
    }
    symlink("/usr/share/zoneinfo/Etc/UTC", host.path().join("etc/localtime")).unwrap();
    symlink("/home/S3CRET/ca.pem", host.path().join("etc/ssl/certs/ours.pem")).unwrap();
    fs::create_dir_all(host.path().join("etc/alternatives")).unwrap();
    symlink("/opt/S3CRET/tool", host.path().join("etc/alternatives/tool")).unwrap();
    host
}

/// Every path below `root` with its content, or with `-> target`.
fn contents(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap().file_type();
            let text = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if kind.is_dir() {
                open.push(path.clone());
                String::new()
            } else {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            };
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), text);
        }
    }
    found
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}
