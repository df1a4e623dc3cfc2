//! Why walls could not be built or taken down.

use std::{io, path::PathBuf};

use crate::Tier;

/// A failure of one step, with what it was about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sandbox's directory.
    #[error("cannot {action} {}", path.display())]
    Directory {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The command did not start.
    #[error("cannot start {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The host refused something it should be able to do.
    #[error("{what}")]
    Host {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The sandbox's keeper could not build or end it.
    #[error("{detail}")]
    Keeper {
        /// Its last words.
        detail: String,
    },
    /// The tier needs what this host or this user has not.
    #[error("tier `{tier}` needs {what}")]
    Unavailable {
        /// The tier.
        tier: Tier,
        /// What it needs.
        what: &'static str,
    },
    /// This host lets nobody but root build walls.
    #[error(
        "this host lets an ordinary user build no walls: {detail}; run as root, or allow user \
         namespaces (the sysctls `user.max_user_namespaces`, `kernel.unprivileged_userns_clone` \
         and `kernel.apparmor_restrict_unprivileged_userns`; in a container also its profile)"
    )]
    NotWithoutRoot {
        /// What was tried.
        detail: String,
    },
    /// The tier cannot do this at all.
    #[error("tier `{tier}` cannot {what}")]
    Unsupported {
        /// The tier.
        tier: Tier,
        /// What was asked for.
        what: &'static str,
    },
    /// The runtime did not do what it was asked for.
    #[error("{runtime} did not {action}: {detail}")]
    Runtime {
        /// Its name.
        runtime: &'static str,
        /// What was asked for.
        action: &'static str,
        /// Its last words.
        detail: String,
    },
    /// Every range of ids is in use.
    #[error("no ids are left for another sandbox")]
    NoIds,
    /// Control groups that could not be removed.
    #[error("cgroups are left: {0:?}")]
    CgroupsLeft(Vec<PathBuf>),
    /// Processes outlived every attempt to end them.
    #[error("{count} processes of the sandbox are still there")]
    Survivors {
        /// How many.
        count: usize,
    },
}
