//! How strong the walls are. There is no silent fallback between tiers.

use std::{fmt, str::FromStr};

/// A kind of walls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// None: a plain child process, for development on loopback.
    Process,
    /// Linux namespaces, ids of its own, cgroups, a system call filter.
    Native,
    /// gVisor: a kernel of its own in user space, through `runsc`.
    Gvisor,
    /// A container as Docker makes it, through `runc`.
    Runc,
}

/// The name is no tier that this build can give.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadTier {
    /// Planned, not there.
    #[error("tier `{0}` is not in this version; use `native`")]
    NotYet(String),
    /// Not a tier at all.
    #[error("`{0}` is not a tier; there are `native`, `gvisor`, `runc` and `process`")]
    Unknown(String),
}

impl Tier {
    /// The tier's name, as in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Process => "process",
            Tier::Native => "native",
            Tier::Gvisor => "gvisor",
            Tier::Runc => "runc",
        }
    }

    /// Whether it builds walls. Only root can.
    pub fn has_walls(self) -> bool {
        match self {
            Tier::Process => false,
            Tier::Native | Tier::Gvisor | Tier::Runc => true,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tier {
    type Err = BadTier;

    fn from_str(name: &str) -> Result<Tier, BadTier> {
        match name {
            "process" => Ok(Tier::Process),
            "native" => Ok(Tier::Native),
            "gvisor" => Ok(Tier::Gvisor),
            "runc" => Ok(Tier::Runc),
            "kubernetes" => Err(BadTier::NotYet(name.to_owned())),
            other => Err(BadTier::Unknown(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BadTier, Tier};

    #[test]
    fn a_tier_that_is_not_there_is_refused_by_name() {
        assert_eq!("process".parse(), Ok(Tier::Process));
        assert_eq!("native".parse(), Ok(Tier::Native));
        assert_eq!("gvisor".parse(), Ok(Tier::Gvisor));
        assert_eq!("runc".parse(), Ok(Tier::Runc));
        assert_eq!("kubernetes".parse::<Tier>(), Err(BadTier::NotYet("kubernetes".into())));
        assert_eq!("none".parse::<Tier>(), Err(BadTier::Unknown("none".into())));
    }
}
