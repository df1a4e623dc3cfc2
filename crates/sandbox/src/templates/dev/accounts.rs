//! The accounts of a `dev` sandbox: the host's system accounts, by name and
//! id, since files of packages belong to them; and `user`. No person of the
//! host and no password is among them.

use std::collections::BTreeSet;

/// From here on ids belong to people.
const FIRST_PERSON: u32 = 1000;
const NOBODY: u32 = 65_534;
const USER: &str = "user";
const USER_ID: u32 = 1000;
const NO_LOGIN: &str = "/usr/sbin/nologin";

/// Users and groups, in the order of their ids.
#[derive(Debug)]
pub(super) struct Accounts {
    users: Vec<User>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct User {
    name: String,
    uid: u32,
    gid: u32,
    remark: String,
    home: String,
    shell: String,
}

#[derive(Debug)]
struct Group {
    name: String,
    gid: u32,
    members: Vec<String>,
}

impl Accounts {
    /// Takes what a sandbox needs from the host's `passwd` and `group`.
    pub(super) fn from_host(passwd: &str, group: &str) -> Accounts {
        let (mut users, people): (Vec<User>, Vec<User>) =
            passwd.lines().filter_map(User::parse).partition(User::is_system);
        for (name, id, group) in [("root", 0, 0), ("daemon", 1, 1), ("nobody", NOBODY, NOBODY)] {
            add_user(&mut users, name, id, group);
        }
        add_user(&mut users, "_apt", 42, NOBODY);
        if let Some(root) = users.iter_mut().find(|user| user.name == "root") {
            // Who the host's root is, and which shell they like, is theirs.
            root.remark = "root".to_owned();
            (root.home, root.shell) = ("/root".to_owned(), "/bin/bash".to_owned());
        }
        users.push(User {
            name: USER.to_owned(),
            uid: USER_ID,
            gid: USER_ID,
            remark: String::new(),
            home: "/home/user".to_owned(),
            shell: "/bin/bash".to_owned(),
        });
        users.sort_by_key(|user| user.uid);

        let people: BTreeSet<String> = people.into_iter().map(|user| user.name).collect();
        let kept: BTreeSet<&str> = users.iter().map(|user| user.name.as_str()).collect();
        let mut groups: Vec<Group> = group
            .lines()
            .filter_map(Group::parse)
            .filter(|group| group.is_system() && !people.contains(&group.name))
            .collect();
        for group in &mut groups {
            group.members.retain(|member| kept.contains(member.as_str()));
        }
        for (name, gid) in [("root", 0), ("daemon", 1), ("sudo", 27), ("nogroup", NOBODY)] {
            add_group(&mut groups, name, gid);
        }
        groups.push(Group { name: USER.to_owned(), gid: USER_ID, members: Vec::new() });
        if let Some(sudo) = groups.iter_mut().find(|group| group.name == "sudo") {
            sudo.members.push(USER.to_owned());
        }
        groups.sort_by_key(|group| group.gid);
        Accounts { users, groups }
    }

    pub(super) fn user_id(&self, name: &str) -> Option<u32> {
        self.users.iter().find(|user| user.name == name).map(|user| user.uid)
    }

    pub(super) fn group_id(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|group| group.name == name).map(|group| group.gid)
    }

    /// `/etc/passwd`.
    pub(super) fn passwd(&self) -> String {
        let line = |user: &User| {
            let User { name, uid, gid, remark, home, shell } = user;
            format!("{name}:x:{uid}:{gid}:{remark}:{home}:{shell}\n")
        };
        self.users.iter().map(line).collect()
    }

    /// `/etc/shadow`: no password opens any of them.
    pub(super) fn shadow(&self) -> String {
        self.users.iter().map(|user| format!("{}:*:20000:0:99999:7:::\n", user.name)).collect()
    }

    /// `/etc/group`.
    pub(super) fn group(&self) -> String {
        let line =
            |group: &Group| format!("{}:x:{}:{}\n", group.name, group.gid, group.members.join(","));
        self.groups.iter().map(line).collect()
    }

    /// `/etc/gshadow`.
    pub(super) fn gshadow(&self) -> String {
        let line = |group: &Group| format!("{}:*::{}\n", group.name, group.members.join(","));
        self.groups.iter().map(line).collect()
    }
}

impl User {
    fn parse(line: &str) -> Option<User> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, remark, home, shell] = fields.as_slice() else { return None };
        Some(User {
            name: name.to_string(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            remark: remark.to_string(),
            home: home.to_string(),
            shell: shell.to_string(),
        })
    }

    fn is_system(&self) -> bool {
        let plain = self.uid < FIRST_PERSON && !self.home.starts_with("/home");
        self.name != USER && (plain || self.uid == NOBODY)
    }
}

impl Group {
    fn parse(line: &str) -> Option<Group> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, members] = fields.as_slice() else { return None };
        let members = members.split(',').filter(|member| !member.is_empty());
        Some(Group {
            name: name.to_string(),
            gid: gid.parse().ok()?,
            members: members.map(str::to_owned).collect(),
        })
    }

    fn is_system(&self) -> bool {
        self.name != USER && (self.gid < FIRST_PERSON || self.gid == NOBODY)
    }
}

/// Adds an account that every sandbox has, unless its name or id is taken.
fn add_user(users: &mut Vec<User>, name: &str, uid: u32, gid: u32) {
    if users.iter().any(|user| user.name == name || user.uid == uid) {
        return;
    }
    users.push(User {
        name: name.to_owned(),
        uid,
        gid,
        remark: name.to_owned(),
        home: "/nonexistent".to_owned(),
        shell: NO_LOGIN.to_owned(),
    });
}

fn add_group(groups: &mut Vec<Group>, name: &str, gid: u32) {
    if !groups.iter().any(|group| group.name == name || group.gid == gid) {
        groups.push(Group { name: name.to_owned(), gid, members: Vec::new() });
    }
}

#[cfg(test)]
mod tests {
    use super::Accounts;

    const PASSWD: &str = "root:$6$roothash:0:0:Charlie Root:/root:/bin/zsh\n\
        daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
        postgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash\n\
        old:x:501:501:Old Timer:/home/old:/bin/bash\n\
        user:x:500:500::/srv:/bin/sh\n\
        ann:$6$annhash:1000:1000:Ann Person:/home/ann:/bin/bash\n\
        broken line\n";
    const GROUP: &str = "root:x:0:\nsudo:$6$grouphash:27:ann,postgres\nshadow:x:42:\n\
        old:x:501:\npostgres:x:104:\nann:x:1000:\nteam:x:1001:ann\n";

    #[test]
    fn system_accounts_stay_and_people_and_passwords_do_not() {
        let accounts = Accounts::from_host(PASSWD, GROUP);
        let all = [accounts.passwd(), accounts.shadow(), accounts.group(), accounts.gshadow()];
        for secret in ["hash", "ann", "Ann", "Charlie", "zsh", "old", "team", "/srv"] {
            assert!(!all.concat().contains(secret), "{secret} is in {all:?}");
        }
        let [passwd, shadow, group, gshadow] = all;
        assert!(passwd.starts_with("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:"));
        assert!(passwd.contains("\npostgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash\n"));
        assert!(passwd.contains("\nuser:x:1000:1000::/home/user:/bin/bash\n"));
        assert!(
            passwd.contains("\n_apt:x:42:65534:") && passwd.contains("\nnobody:x:65534:65534:")
        );
        assert_eq!(shadow.lines().count(), passwd.lines().count());
        assert!(shadow.lines().all(|line| line.contains(":*:")));
        assert!(group.contains("\nsudo:x:27:postgres,user\n"));
        assert!(group.contains("\nuser:x:1000:\n") && group.contains("\nnogroup:x:65534:\n"));
        assert_eq!(gshadow.lines().count(), group.lines().count());
        assert_eq!(accounts.group_id("shadow"), Some(42));
    }
}
