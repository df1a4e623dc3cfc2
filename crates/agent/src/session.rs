//! All that one run knows once its bootstrap is over. It does not change any
//! more, so that everything in a turn can borrow it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokio::process::Command;
use wire::agent::{
    AgentConfig, AgentLimits, CodeMode, FileEvents, Harness, HostTool, Policy, ToolBridge,
};

/// What a turn works with.
#[derive(Debug)]
pub(crate) struct Session {
    /// The host link's address, without a slash at its end.
    pub(crate) link: String,
    /// What the user asks.
    pub(crate) prompt: String,
    /// Who the agent is and what it has.
    pub(crate) config: AgentConfig,
    /// Environment of tools, recipes and the setup script.
    pub(crate) variables: Variables,
    /// The home of the user we run as.
    pub(crate) home: PathBuf,
    /// The directory to work in.
    pub(crate) workspace_dir: PathBuf,
    /// Skills on disk, in the order of the configuration.
    pub(crate) skills: Vec<Skill>,
    /// What runs the loop.
    pub(crate) harness: Harness,
    /// The harness's own session that goes on.
    pub(crate) resume: Option<String>,
    /// Where the caller's tools are served.
    pub(crate) bridge: ToolBridge,
    /// The caller's tools.
    pub(crate) tools: Vec<HostTool>,
    /// What the agent may do on its own.
    pub(crate) policy: Option<Policy>,
    /// Whether changes of files are told.
    pub(crate) file_events: FileEvents,
    /// Whether the model may write programs that call tools.
    pub(crate) code_mode: CodeMode,
    /// What may be fetched, sent and waited for.
    pub(crate) limits: AgentLimits,
}

/// A skill that lies unpacked on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skill {
    /// Its id.
    pub(crate) id: String,
    /// Its name for the model.
    pub(crate) name: String,
    /// Where its `SKILL.md` is.
    pub(crate) directory: PathBuf,
}

impl Session {
    /// A session that asks nothing of nobody.
    #[cfg(test)]
    pub(crate) fn for_test(home: &Path, workspace_dir: &Path) -> Session {
        Session {
            link: String::new(),
            prompt: String::new(),
            config: serde_json::from_value(serde_json::json!({})).unwrap(),
            variables: Variables::default(),
            home: home.to_owned(),
            workspace_dir: workspace_dir.to_owned(),
            skills: Vec::new(),
            harness: Harness::Builtin,
            resume: None,
            bridge: ToolBridge { url: String::new(), bearer: wire::Secret::new(String::new()) },
            tools: Vec::new(),
            policy: None,
            file_events: FileEvents::Off,
            code_mode: CodeMode::Off,
            limits: AgentLimits::STANDARD,
        }
    }

    /// A command in the working directory, with the variables of the session
    /// over the agent's own environment, which holds no secret. It dies with
    /// its handle.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        // A model may have removed it, and no command starts in what is not there.
        let _ = std::fs::create_dir_all(&self.workspace_dir);
        self.variables.command(program.as_ref(), &self.workspace_dir)
    }
}

/// Environment variables. Their values are often secrets, so they are not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Variables(BTreeMap<String, String>);

/// A variable that no process can have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be an environment variable")]
pub(crate) struct BadVariable(String);

impl Variables {
    /// Checks what a workspace gave.
    pub(crate) fn new(given: BTreeMap<String, String>) -> Result<Variables, BadVariable> {
        let bad = |name: &str, value: &str| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        };
        match given.iter().find(|(name, value)| bad(name, value)) {
            Some((name, _)) => Err(BadVariable(name.escape_default().to_string())),
            None => Ok(Variables(given)),
        }
    }

    /// Adds one of ours, which wins over one that was given.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// A command with these variables, in a process group of its own, so that
    /// whatever it starts can be ended with it.
    pub(crate) fn command(&self, program: &Path, directory: &Path) -> Command {
        let mut command = Command::new(program);
        command.envs(&self.0).current_dir(directory).process_group(0).kill_on_drop(true);
        command
    }
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{BadVariable, Variables};

    #[test]
    fn what_no_process_can_have_is_refused_by_name() {
        let check = |name: &str, value: &str, expected: Result<(), &str>| {
            let given = [(name.to_owned(), value.to_owned())].into();
            let made = Variables::new(given).map(|_| ());
            assert_eq!(made, expected.map_err(|name| BadVariable(name.to_owned())));
        };
        check("A", "b=c\n", Ok(()));
        check("", "b", Err(""));
        check("A=B", "c", Err("A=B"));
        check("A\0", "c", Err("A\\u{0}"));
        check("A", "c\0", Err("A"));
    }
}
