//! The `dev` template: a root made of this host, without a download.
//!
//! The launcher lays it together from two layers and the host's own `/usr`:
//!
//! ```text
//! /      rootfs/            generated: accounts, settings, an empty home
//! /usr   usr/ over /usr     the `python` command, a `/usr/local` open to all
//! ```
//!
//! Both are planned first and written only if no earlier plan was the same;
//! so a change on the host that matters here makes a new generation, and
//! sandboxes that run on an old one keep it. What of the host may be copied is
//! decided in `host`; no home, key or password is.

mod accounts;
mod host;
mod plan;
#[cfg(test)]
pub(super) mod tests;
mod texts;

use std::{collections::BTreeMap, fs, io, path::Path};

use self::{
    accounts::Accounts,
    host::{Host, Screen},
    plan::Plan,
};
use super::{
    layer::{Layer, LayerError, Owners},
    record::Defaults,
};

pub use self::host::HostError;

/// Where the two layers are, in a generation's directory.
pub(super) const ROOT_LAYER: &str = "rootfs";
pub(super) const USR_LAYER: &str = "usr";

/// Links from the root into `/usr`; on a host that keeps files there instead
/// of links we could not show `/usr` alone.
const MERGED: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Directories with nothing in them, and their modes.
const EMPTY: [(&str, u32); 28] = [
    ("code", 0o777),
    ("dev", 0o755),
    ("etc/opt", 0o755),
    ("home", 0o755),
    ("media", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    ("run", 0o755),
    ("run/lock", 0o1777),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var", 0o755),
    ("var/backups", 0o755),
    ("var/cache", 0o755),
    ("var/cache/apt", 0o755),
    ("var/cache/apt/archives", 0o755),
    ("var/cache/debconf", 0o755),
    ("var/lib", 0o755),
    ("var/lib/apt", 0o755),
    ("var/lib/apt/lists", 0o755),
    ("var/lib/misc", 0o755),
    ("var/local", 0o755),
    ("var/log", 0o755),
    ("var/spool", 0o755),
    ("var/tmp", 0o1777),
];

/// Settings that programs in `/usr` expect, as they are on the host. A name
/// that ends in `*` stands for all that begin so.
const SETTINGS: [&str; 38] = [
    "adduser.conf",
    "alternatives",
    "ca-certificates*",
    "debconf.conf",
    "debian_version",
    "default/useradd",
    "deluser.conf",
    "dpkg",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java*",
    "ld.so.cache",
    "ld.so.conf*",
    "locale.alias",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "maven",
    "mime.types",
    "os-release",
    "pam.conf",
    "pam.d",
    "perl",
    "protocols",
    "python3*",
    "security",
    "services",
    "shells",
    "ssl",
    "terminfo",
    "timezone",
    "ucf.conf",
    "vim",
    "xattr.conf",
];

/// What package tools know about the files in `/usr`.
const PACKAGES: [&str; 3] = ["var/lib/dpkg", "var/lib/pam", "var/lib/ucf"];

/// How deep directories of `/usr/local` are opened to all.
const LOCAL_DEPTH: u32 = 3;

/// The id of the account that a sandbox's commands have.
const USER_ID: u32 = 1000;

/// Both layers, before they are written.
#[derive(Debug)]
pub(super) struct DevTemplate {
    /// The host's `os-release`: another system is another template, even if
    /// every copied file looks the same.
    system: String,
    root: Plan,
    usr: Plan,
}

impl DevTemplate {
    /// Looks at the host below `host_root` and plans.
    pub(super) fn plan(host_root: &Path) -> Result<DevTemplate, HostError> {
        let host = Host::new(host_root);
        Ok(DevTemplate {
            system: host.text("etc/os-release").unwrap_or_default(),
            root: plan_root(&host)?,
            usr: plan_usr(&host)?,
        })
    }

    /// Names the plan: the same for the same layers, and for no others.
    pub(super) fn stamp(&self) -> String {
        plan::stamp(&self.system, &[&self.root, &self.usr])
    }

    /// Writes both layers into `directory`; answers with their length.
    pub(super) fn write(&self, directory: &Path) -> Result<u64, WriteError> {
        let mut size_bytes = 0;
        for (name, plan) in [(ROOT_LAYER, &self.root), (USR_LAYER, &self.usr)] {
            let path = directory.join(name);
            fs::create_dir(&path)?;
            let mut layer = Layer::open(&path, Owners::possible())?;
            plan.write(&mut layer)?;
            size_bytes += layer.size_bytes();
        }
        Ok(size_bytes)
    }

    /// What its sandboxes start with.
    pub(super) fn defaults() -> Defaults {
        Defaults {
            user: "user".to_owned(),
            workdir: "/home/user".to_owned(),
            envs: BTreeMap::new(),
            start_command: None,
        }
    }
}

/// Why the planned layers were not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("cannot make a directory")]
    Directory(#[from] io::Error),
    #[error(transparent)]
    File(#[from] LayerError),
}

fn plan_root(host: &Host) -> Result<Plan, HostError> {
    let mut plan = Plan::new();
    for name in MERGED {
        if let Some(target) = host.usr_link(name)? {
            plan.link(name, target);
        }
    }
    for (path, mode) in EMPTY {
        plan.directory(path, mode);
    }
    plan.link("var/run", "/run").link("var/lock", "/run/lock");
    plan_accounts(&mut plan, host)?;
    plan_texts(&mut plan, host);
    for name in SETTINGS {
        host.copy_etc(&mut plan, name, Screen::Settings)?;
    }
    host.copy_etc(&mut plan, "apt", Screen::Sources)?;
    for path in PACKAGES {
        host.copy(&mut plan, Path::new(path), Screen::Packages)?;
    }
    Ok(plan)
}

fn plan_accounts(plan: &mut Plan, host: &Host) -> Result<(), HostError> {
    let accounts = Accounts::from_host(&host.text("etc/passwd")?, &host.text("etc/group")?);
    let shadow = accounts.group_id("shadow").unwrap_or(0);
    plan.file("etc/passwd", 0o644, accounts.passwd());
    plan.file("etc/group", 0o644, accounts.group());
    plan.file("etc/shadow", 0o640, accounts.shadow()).owned_by(0, shadow);
    plan.file("etc/gshadow", 0o640, accounts.gshadow()).owned_by(0, shadow);
    plan.file("etc/subuid", 0o644, "").file("etc/subgid", 0o644, "");
    let apt = accounts.user_id("_apt").unwrap_or(0);
    plan.directory("var/lib/apt/lists/partial", 0o700).owned_by(apt, 0);
    plan.directory("var/cache/apt/archives/partial", 0o700).owned_by(apt, 0);
    Ok(())
}

fn plan_texts(plan: &mut Plan, host: &Host) {
    for (path, text) in texts::SETTINGS {
        plan.file(path, 0o644, text);
    }
    plan.link("etc/mtab", "../proc/self/mounts");
    // Where sudo is yet to be installed, its package brings this file and
    // would ask about ours.
    if host.has("usr/bin/sudo") {
        plan.file("etc/sudoers", 0o440, texts::SUDOERS);
    }
    plan.directory("etc/sudoers.d", 0o750);
    plan.file("etc/sudoers.d/user", 0o440, texts::SUDOERS_USER);
    plan.directory("root", 0o700);
    plan.directory("home/user", 0o755).owned_by(USER_ID, USER_ID);
    for (name, text) in texts::HOME {
        plan.file(&format!("etc/skel/{name}"), 0o644, text);
        plan.file(&format!("root/{name}"), 0o644, text);
        plan.file(&format!("home/user/{name}"), 0o644, text).owned_by(USER_ID, USER_ID);
    }
}

/// `/usr/local` is open to everybody, as in E2B's own base: `pip` and `npm`
/// install there without being root.
fn plan_usr(host: &Host) -> Result<Plan, HostError> {
    let mut plan = Plan::new();
    if host.has("usr/bin/python3") && !host.has("usr/bin/python") {
        plan.directory("bin", 0o755).link("bin/python", "python3");
    }
    plan.directory("local", 0o777);
    for directory in host.directories_below("usr/local", LOCAL_DEPTH)? {
        plan.directory(&format!("local/{directory}"), 0o777);
    }
    Ok(plan)
}
