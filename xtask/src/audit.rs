//! `cargo xtask audit`: what is slow and changes seldom. Licences, banned
//! crates and known holes by `cargo deny`, unused dependencies by `cargo machete`.

use anyhow::Result;

use crate::step::{cargo, run, timed, works};

/// Name of the cargo subcommand and the version that is installed when it is missing.
const TOOLS: [(&str, &str); 2] = [("deny", "0.20.2"), ("machete", "0.9.2")];

/// Runs both tools and installs them first when they are missing.
pub(crate) fn check_dependencies() -> Result<()> {
    for (tool, version) in TOOLS {
        if !works("cargo", &[tool, "--version"]) {
            let name = format!("cargo-{tool}");
            let arguments = ["install", "--locked", "--version", version, &name];
            timed(&format!("install {name}"), || run(&mut cargo(arguments)?)).0?;
        }
    }
    timed("deny", || run(&mut cargo(["deny", "check"])?)).0?;
    timed("machete", || run(&mut cargo(["machete"])?)).0
}
