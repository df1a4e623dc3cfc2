//! Which shell there is: not every image has bash.

use std::path::Path;

const BASH: &str = "/bin/bash";
const SH: &str = "/bin/sh";

/// A shell that is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Plain,
}

impl Shell {
    /// The best one.
    pub(crate) fn installed() -> Shell {
        if Path::new(BASH).exists() { Shell::Bash } else { Shell::Plain }
    }

    /// Where it is.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Shell::Bash => BASH,
            Shell::Plain => SH,
        }
    }
}
