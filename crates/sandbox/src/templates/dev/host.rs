//! What of the host may be seen in a `dev` sandbox, beside its `/usr`.
//!
//! Only what everybody on the host may read; and of that nothing that is
//! named like a secret or looks like a private key. Links are kept only if
//! they stay within what a sandbox sees.

use std::{
    ffi::OsStr,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use memchr::memmem;

use super::plan::{HostFile, Plan};
use crate::templates::layer::Modified;

/// Where links of the host may lead.
const SEEN: [&str; 8] = ["usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Names and beginnings and ends of names that are left out wherever they are.
/// (`settings.xml` is where Maven keeps the passwords of repositories.)
const SECRET_NAMES: [&str; 6] =
    ["private", "auth.conf", "auth.conf.d", ".netrc", "opasswd", "settings.xml"];
const SECRET_STARTS: [&str; 3] = ["secring", "private-keys", "settings-security"];
const SECRET_ENDS: [&str; 4] = [".key", ".p12", ".pfx", ".jks"];
/// How text files with a private key in them end a line.
const KEY_MARKS: [&str; 2] = ["PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"];

/// A host's file system, seen from its root.
#[derive(Debug)]
pub(super) struct Host {
    root: PathBuf,
}

/// How the content of copied files is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Screen {
    /// Files with a private key in them stay out.
    Settings,
    /// So they do here, and addresses lose the password in them.
    Sources,
    /// Lists and scripts of packages: public, and no use if one is missing.
    Packages,
}

/// Why this host makes no `dev` template.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// It has files where we need a link.
    #[error(
        "/{0} is not a link into /usr on this host, so its /usr alone cannot run; \
         import a template instead"
    )]
    NotMerged(&'static str),
    /// One of its files is not for us to read.
    #[error("cannot read {} of the host", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Host {
    pub(super) fn new(root: &Path) -> Host {
        Host { root: root.to_owned() }
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).symlink_metadata().is_ok()
    }

    pub(super) fn text(&self, path: &str) -> Result<String, HostError> {
        let bytes = fs::read(self.root.join(path)).map_err(unread(Path::new(path)))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Where the root's `name` leads within `/usr`; `None` if there is none.
    pub(super) fn usr_link(&self, name: &'static str) -> Result<Option<PathBuf>, HostError> {
        let path = self.root.join(name);
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unread(Path::new(name))(error)),
            Ok(facts) if !facts.is_symlink() => return Err(HostError::NotMerged(name)),
            Ok(_) => {}
        }
        let target = fs::read_link(&path).map_err(unread(Path::new(name)))?;
        let inner = target.strip_prefix("/").unwrap_or(&target);
        if !inner.starts_with("usr") {
            return Err(HostError::NotMerged(name));
        }
        Ok(Some(inner.to_owned()))
    }

    /// The directories below `path` that everybody may enter, links not
    /// followed, as paths relative to it and sorted.
    pub(super) fn directories_below(
        &self,
        path: &str,
        depth: u32,
    ) -> Result<Vec<String>, HostError> {
        let mut found = Vec::new();
        let mut open = vec![(String::new(), depth)];
        while let Some((inner, depth)) = open.pop() {
            for (name, facts) in self.entries(&Path::new(path).join(&inner))? {
                let seen = facts.is_dir() && facts.mode() & 0o005 == 0o005;
                let Some(name) = name.to_str().filter(|_| seen) else { continue };
                let inner = if inner.is_empty() { name.into() } else { format!("{inner}/{name}") };
                found.push(inner.clone());
                if depth > 1 {
                    open.push((inner, depth - 1));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Plans to copy what is called `name` in `/etc`; `name*` stands for all
    /// that begin so.
    pub(super) fn copy_etc(
        &self,
        plan: &mut Plan,
        name: &str,
        screen: Screen,
    ) -> Result<(), HostError> {
        let Some(start) = name.strip_suffix('*') else {
            return self.copy(plan, &Path::new("etc").join(name), screen);
        };
        for (name, _) in self.entries(Path::new("etc"))? {
            if name.to_string_lossy().starts_with(start) {
                self.copy(plan, &Path::new("etc").join(name), screen)?;
            }
        }
        Ok(())
    }

    /// Plans to copy `path` and all below it that may be seen.
    pub(super) fn copy(
        &self,
        plan: &mut Plan,
        path: &Path,
        screen: Screen,
    ) -> Result<(), HostError> {
        let source = self.root.join(path);
        let facts = match source.symlink_metadata() {
            Ok(facts) => facts,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unread(path)(error)),
        };
        let name = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
        let mode = facts.mode() & 0o755;
        if is_secret(&name) {
            return Ok(());
        }
        if facts.is_symlink() {
            let target = fs::read_link(&source).map_err(unread(path))?;
            if stays_seen(path, &target) {
                plan.host_link(path, target);
            }
        } else if facts.is_dir() && mode & 0o005 == 0o005 {
            plan.host_directory(path, mode);
            for (name, _) in self.entries(path)? {
                self.copy(plan, &path.join(name), screen)?;
            }
        } else if facts.is_file() && mode & 0o004 != 0 {
            plan.host_file(path, mode, host_file(source, &facts, screen));
        }
        Ok(())
    }

    /// What is in a directory, sorted; nothing if there is no such directory.
    fn entries(&self, path: &Path) -> Result<Vec<(std::ffi::OsString, Metadata)>, HostError> {
        let listing = match fs::read_dir(self.root.join(path)) {
            Ok(listing) => listing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unread(path)(error)),
        };
        let mut entries = Vec::new();
        for entry in listing {
            let entry = entry.map_err(unread(path))?;
            match entry.metadata() {
                Ok(facts) => entries.push((entry.file_name(), facts)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unread(&path.join(entry.file_name()))(error)),
            }
        }
        entries.sort_by(|one, two| one.0.cmp(&two.0));
        Ok(entries)
    }
}

impl Screen {
    /// The content as a sandbox may see it, or `None` if it may not.
    pub(super) fn admit(self, content: Vec<u8>) -> Option<Vec<u8>> {
        match self {
            Screen::Packages => Some(content),
            Screen::Settings => (!has_private_key(&content)).then_some(content),
            Screen::Sources if has_private_key(&content) => None,
            Screen::Sources => Some(match String::from_utf8(content) {
                Ok(text) => without_passwords(&text).into_bytes(),
                // A keyring; it has no addresses.
                Err(binary) => binary.into_bytes(),
            }),
        }
    }
}

fn host_file(source: PathBuf, facts: &Metadata, screen: Screen) -> HostFile {
    let modified = Modified {
        seconds: facts.mtime(),
        nanoseconds: u32::try_from(facts.mtime_nsec()).unwrap_or_default(),
    };
    HostFile { source, length: facts.len(), modified, screen }
}

fn is_secret(name: &str) -> bool {
    SECRET_NAMES.contains(&name)
        || SECRET_STARTS.iter().any(|start| name.starts_with(start))
        || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a link at `path` leads to what a sandbox sees, by its words alone.
fn stays_seen(path: &Path, target: &Path) -> bool {
    let mut place = match path.parent() {
        Some(parent) if target.is_relative() => parent.to_owned(),
        Some(_) | None => PathBuf::new(),
    };
    for component in target.components() {
        match component {
            Component::ParentDir => drop(place.pop()),
            Component::Normal(name) => place.push(name),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    SEEN.iter().any(|seen| place.starts_with(seen))
}

fn has_private_key(content: &[u8]) -> bool {
    KEY_MARKS.iter().any(|mark| memmem::find(content, mark.as_bytes()).is_some())
}

/// `text` with `https://name:password@host` made `https://host`.
fn without_passwords(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || "/\"';".contains(c));
        let (authority, tail) = after.split_at(end.unwrap_or(after.len()));
        clean.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

fn unread(path: &Path) -> impl FnOnce(io::Error) -> HostError {
    let path = Path::new("/").join(path);
    move |source| HostError::Read { path, source }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{stays_seen, without_passwords};

    #[test]
    fn a_link_is_kept_only_if_it_leads_to_what_a_sandbox_sees() {
        let check = |path: &str, target: &str, expected: bool| {
            assert_eq!(stays_seen(Path::new(path), Path::new(target)), expected, "{target}");
        };
        check("etc/os-release", "../usr/lib/os-release", true);
        check("etc/localtime", "/usr/share/zoneinfo/Etc/UTC", true);
        check("etc/ssl/certs/a.0", "a.pem", true);
        check("etc/alternatives/tool", "/opt/tool/bin/tool", false);
        check("etc/ssl/certs/ours.pem", "/home/ann/ours.pem", false);
        check("etc/ssl/certs/ours.pem", "../../../root/ours.pem", false);
    }

    #[test]
    fn an_address_loses_its_password_and_nothing_else() {
        let check = |text: &str, expected: &str| assert_eq!(without_passwords(text), expected);
        check("deb https://bob:hunter2@deb.corp/x y main", "deb https://deb.corp/x y main");
        check("Proxy \"http://t0ken@proxy:3128\";", "Proxy \"http://proxy:3128\";");
        check("deb http://deb.corp/a@b main\n", "deb http://deb.corp/a@b main\n");
        check("URIs: http://a:p@x http://b:q@y", "URIs: http://x http://y");
        check("no address, mail@example.org", "no address, mail@example.org");
    }
}
