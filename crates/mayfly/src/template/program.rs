//! The coding agents that can be laid over a template: which package each one
//! is, and where in it its programs are.

use clap::ValueEnum;
use wire::agent::Harness;

/// A coding agent of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HarnessProgram {
    /// Anthropic's Claude Code
    ClaudeCode,
    /// OpenAI's Codex
    Codex,
    /// OpenCode
    Opencode,
    /// xAI's Grok Build
    GrokBuild,
}

/// One program in a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// What it is called in a sandbox.
    pub(super) name: &'static str,
    /// Where it is, below `node_modules`.
    pub(super) path: String,
    pub(super) packing: Packing,
}

/// How a program is kept in its package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Brotli,
}

/// What the packages call a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Processor {
    /// In names of packages.
    pub(super) short: &'static str,
    /// In names of directories.
    long: &'static str,
    /// Whether it has the instructions that builds for newer ones need.
    is_new: bool,
}

impl Processor {
    /// This host's; none that the packages are not made for.
    pub(super) fn of_host() -> Option<Processor> {
        match std::env::consts::ARCH {
            "x86_64" => {
                #[cfg(target_arch = "x86_64")]
                let is_new = std::arch::is_x86_feature_detected!("avx2");
                #[cfg(not(target_arch = "x86_64"))]
                let is_new = false;
                Some(Processor { short: "x64", long: "x86_64", is_new })
            }
            "aarch64" => Some(Processor { short: "arm64", long: "aarch64", is_new: true }),
            _ => None,
        }
    }
}

impl HarnessProgram {
    pub(super) fn harness(self) -> Harness {
        match self {
            HarnessProgram::ClaudeCode => Harness::ClaudeCode,
            HarnessProgram::Codex => Harness::Codex,
            HarnessProgram::Opencode => Harness::Opencode,
            HarnessProgram::GrokBuild => Harness::GrokBuild,
        }
    }

    /// Its package in npm's registry.
    pub(super) fn package(self) -> &'static str {
        match self {
            HarnessProgram::ClaudeCode => "@anthropic-ai/claude-code",
            HarnessProgram::Codex => "@openai/codex",
            HarnessProgram::Opencode => "opencode-ai",
            HarnessProgram::GrokBuild => "@xai-official/grok",
        }
    }

    /// The release that the adapters were tested with.
    pub(super) fn tested_version(self) -> &'static str {
        match self {
            HarnessProgram::ClaudeCode => "2.1.197",
            HarnessProgram::Codex => "0.166.0",
            HarnessProgram::Opencode => "1.18.33",
            HarnessProgram::GrokBuild => "1.0.41",
        }
    }

    /// What a sandbox needs of the package; all of them run without node.
    pub(super) fn programs(self, processor: Processor) -> Vec<Program> {
        let Processor { short, long, is_new } = processor;
        let plain = |name, path| Program { name, path, packing: Packing::Plain };
        match self {
            HarnessProgram::ClaudeCode => {
                vec![plain("claude", format!("@anthropic-ai/claude-code-linux-{short}/claude"))]
            }
            // It tells its model to search with `rg`, and brings one.
            HarnessProgram::Codex => {
                let vendor =
                    format!("@openai/codex-linux-{short}/vendor/{long}-unknown-linux-musl");
                vec![
                    plain("codex", format!("{vendor}/bin/codex")),
                    plain("rg", format!("{vendor}/codex-path/rg")),
                ]
            }
            HarnessProgram::Opencode => {
                let build = if is_new { "" } else { "-baseline" };
                vec![plain("opencode", format!("opencode-linux-{short}{build}/bin/opencode"))]
            }
            HarnessProgram::GrokBuild => {
                let path = format!("@xai-official/grok-linux-{short}/bin/grok.br");
                vec![Program { name: "grok", path, packing: Packing::Brotli }]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use wire::agent::Harness;

    use super::{HarnessProgram, Processor};

    #[test]
    fn every_harness_of_somebody_else_has_a_package_under_its_own_name() {
        let named: Vec<Harness> =
            HarnessProgram::value_variants().iter().map(|one| one.harness()).collect();
        assert_eq!(named, Harness::ALL[1..]);
        for program in HarnessProgram::value_variants() {
            let value = program.to_possible_value().unwrap();
            assert_eq!(value.get_name(), program.harness().name());
            let old = Processor { short: "x64", long: "x86_64", is_new: false };
            let programs = program.programs(old);
            assert!(programs.iter().all(|one| one.path.contains("linux-x64")), "{programs:?}");
        }
    }
}
