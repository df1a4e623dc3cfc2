//! What runs the agent loop in a sandbox.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A harness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harness {
    /// Our own loop.
    #[default]
    Builtin,
    /// Anthropic's Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    Codex,
    /// OpenCode.
    Opencode,
    /// xAI's Grok Build.
    GrokBuild,
}

impl Harness {
    /// Every harness, for tables and tests.
    pub const ALL: [Harness; 5] = [
        Harness::Builtin,
        Harness::ClaudeCode,
        Harness::Codex,
        Harness::Opencode,
        Harness::GrokBuild,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Harness::Builtin => "builtin",
            Harness::ClaudeCode => "claude-code",
            Harness::Codex => "codex",
            Harness::Opencode => "opencode",
            Harness::GrokBuild => "grok-build",
        }
    }

    /// Reads a name from the wire.
    pub fn parse(name: &str) -> Option<Harness> {
        Harness::ALL.into_iter().find(|harness| harness.name() == name)
    }
}

impl fmt::Display for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Harness;

    #[test]
    fn every_harness_reads_back_from_its_name_and_its_json() {
        for harness in Harness::ALL {
            assert_eq!(Harness::parse(harness.name()), Some(harness));
            assert_eq!(serde_json::to_string(&harness).unwrap(), format!("\"{harness}\""));
        }
        assert_eq!(Harness::parse("gemini"), None);
    }
}
