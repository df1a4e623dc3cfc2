//! Who runs a command. The passwd and group files are read here: a static
//! binary has no name service, and sandboxes have nothing but files.
//!
//! Without a name, and under the name `user` where no such account exists, a
//! command runs as we do: the `process` tier has no users of its own. Where a
//! sandbox has one id only, it does so under every name.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::options::Identities;

/// Bytes read of each file: a sandbox's root can make them as long as it likes.
const FILE_LIMIT: u64 = 1 << 20;

/// The account E2B's clients ask for unless told otherwise.
const DEFAULT_USER: &str = "user";

/// A user as commands see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Login name.
    pub(crate) name: String,
    /// Home directory.
    pub(crate) home: PathBuf,
    /// What to become; `None` to stay as we are.
    pub(crate) switch: Option<Switch>,
}

/// Ids to take on before a command is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// Why a command cannot run as the user that was asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum IdentityError {
    #[error("invalid username: '{0}'")]
    Unknown(String),
    #[error("cannot run commands as '{0}': this sandbox has one user only")]
    NotRoot(String),
}

/// The files that say who exists.
pub(crate) struct Accounts {
    passwd: Vec<u8>,
    group: Vec<u8>,
}

impl Accounts {
    /// Reads the system's files. One that cannot be read has no entries.
    pub(crate) fn read() -> Accounts {
        let read = |path: &str| read_bounded(Path::new(path)).unwrap_or_default();
        Accounts { passwd: read("/etc/passwd"), group: read("/etc/group") }
    }

    /// The user we run as. `home` overrides what the passwd file says.
    pub(crate) fn own(&self, home: Option<&Path>) -> Identity {
        let uid = geteuid().as_raw();
        let entry = self.entries().find(|entry| entry.uid == uid);
        let name = entry.as_ref().map_or_else(|| uid.to_string(), |entry| entry.name.clone());
        let home = home.map(Path::to_owned).or(entry.map(|entry| entry.home));
        Identity { name, home: home.unwrap_or_else(|| "/".into()), switch: None }
    }

    /// The user of that name. `own_home` is the home of our own user.
    pub(crate) fn named(
        &self,
        name: &str,
        own_home: Option<&Path>,
        identities: Identities,
    ) -> Result<Identity, IdentityError> {
        let Some(entry) = self.entries().find(|entry| entry.name == name) else {
            if name == DEFAULT_USER {
                return Ok(self.own(own_home));
            }
            return Err(IdentityError::Unknown(name.to_owned()));
        };
        if entry.uid == geteuid().as_raw() {
            let home = own_home.map_or(entry.home, Path::to_owned);
            return Ok(Identity { name: entry.name, home, switch: None });
        }
        match identities {
            Identities::Many => {}
            Identities::One => {
                return Ok(Identity { name: entry.name, home: entry.home, switch: None });
            }
        }
        if !geteuid().is_root() {
            return Err(IdentityError::NotRoot(name.to_owned()));
        }
        let groups = self.groups_of(name, entry.gid);
        let switch = Switch { uid: entry.uid, gid: entry.gid, groups };
        Ok(Identity { name: entry.name, home: entry.home, switch: Some(switch) })
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.passwd.split(|byte| *byte == b'\n').filter_map(Entry::parse)
    }

    /// The user's own group and every group that lists it.
    fn groups_of(&self, name: &str, gid: u32) -> Vec<u32> {
        let mut groups = vec![gid];
        for line in self.group.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b':');
            let (Some(id), Some(members)) = (fields.nth(2).and_then(number), fields.next()) else {
                continue;
            };
            let member = members.split(|byte| *byte == b',').any(|one| one == name.as_bytes());
            if member && !groups.contains(&id) {
                groups.push(id);
            }
        }
        groups
    }
}

/// One line of the passwd file.
struct Entry {
    name: String,
    uid: u32,
    gid: u32,
    home: PathBuf,
}

impl Entry {
    /// `name:password:uid:gid:comment:home:shell`; `None` for anything else.
    fn parse(line: &[u8]) -> Option<Entry> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let &[name, _, uid, gid, _, home, ..] = &fields[..] else {
            return None;
        };
        let name = std::str::from_utf8(name).ok()?.to_owned();
        let home = std::ffi::OsString::from_vec(home.to_vec()).into();
        Some(Entry { name, uid: number(uid)?, gid: number(gid)?, home })
    }
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Most of these files fit, and are then read in two system calls.
    let mut bytes = Vec::with_capacity(16 << 10);
    File::open(path)?.take(FILE_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::process::geteuid;

    use super::{
        Accounts,
        Identities::{self, Many},
        IdentityError, Switch,
    };

    const GROUP: &[u8] =
        b"root:x:0:\nuser:x:1000:\nsudo:x:27:root,user\nweird:x:\nwww:x:33:user2\n";

    fn accounts(passwd: &str) -> Accounts {
        Accounts { passwd: passwd.into(), group: GROUP.into() }
    }

    #[test]
    fn an_account_is_read_with_its_groups() {
        let accounts =
            accounts("broken:x:no:1\n\nuser:x:54321:1000:A User,,,:/home/user:/bin/sh\n");
        let found = accounts.named("user", Some(Path::new("/elsewhere")), Many);
        if !geteuid().is_root() {
            assert_eq!(found, Err(IdentityError::NotRoot("user".into())));
            return;
        }
        let identity = found.unwrap();
        assert_eq!(identity.home, Path::new("/home/user"));
        let switch = Switch { uid: 54321, gid: 1000, groups: vec![1000, 27] };
        assert_eq!(identity.switch, Some(switch));
    }

    #[test]
    fn the_default_user_is_ourselves_where_it_has_no_account() {
        let identity = accounts("").named("user", Some(Path::new("/box")), Many).unwrap();
        assert_eq!(identity.home, Path::new("/box"));
        assert_eq!(identity.switch, None);
        assert_eq!(identity.name, geteuid().as_raw().to_string());
    }

    #[test]
    fn an_unknown_name_is_refused_by_name() {
        let error = accounts("user:x:1:1::/:").named("nobody2", None, Many).unwrap_err();
        assert_eq!(error.to_string(), "invalid username: 'nobody2'");
    }

    #[test]
    fn where_there_is_one_id_every_account_is_ours_with_a_home_of_its_own() {
        let accounts = accounts("user:x:54321:1000::/home/user:/bin/sh\n");
        let named = |name| accounts.named(name, None, Identities::One);
        let identity = named("user").unwrap();
        assert_eq!((identity.name.as_str(), identity.switch), ("user", None));
        assert_eq!(identity.home, Path::new("/home/user"));
        assert_eq!(named("nobody2"), Err(IdentityError::Unknown("nobody2".into())));
    }

    #[test]
    fn our_own_account_keeps_the_home_we_were_given() {
        let uid = geteuid().as_raw();
        let accounts = accounts(&format!("me:x:{uid}:4711::/home/me:/bin/sh"));
        let identity = accounts.named("me", Some(Path::new("/box")), Many).unwrap();
        assert_eq!((identity.home.as_path(), identity.switch), (Path::new("/box"), None));
        assert_eq!(accounts.own(None).home, Path::new("/home/me"));
    }
}
