//! From the document on standard input to a session: who we are, what we have,
//! and a directory to work in. In the seed's order, each step once: a token
//! that was redeemed cannot be redeemed again.

mod bag;
mod callback;
mod download;
mod setup;
mod skills;

use std::path::{Path, PathBuf};

use wire::agent::{AgentConfig, AgentEnv, Bootstrap, Caller, Harness, HostTool, Source};
use wire::run::{ErrorCode, Level};

use crate::emit::Emitter;
use crate::failure::Failure;
use crate::session::{Session, Variables};
use crate::writeback::{self, Taker};

pub(crate) use callback::reason;
pub(crate) use setup::Background;

/// A session that can begin.
pub(crate) struct Ready {
    pub(crate) session: Session,
    /// Who takes what lies in the assets directory at the end.
    pub(crate) upload: Option<Taker>,
    /// What the setup script left running, for as long as the agent lives.
    pub(crate) _background: Option<Background>,
}

/// Where things are kept that belong neither to the workspace nor to tools.
#[derive(Clone, Debug)]
struct Home(PathBuf);

/// Does everything that comes before the turn.
pub(crate) async fn prepare(bootstrap: Bootstrap, out: &Emitter) -> Result<Ready, Failure> {
    let Bootstrap {
        run_id,
        link,
        prompt,
        chat_id,
        source,
        workspace_dir,
        harness,
        session_id,
        bridge,
        mut tools,
        policy,
        file_events,
        code_mode,
        limits,
    } = bootstrap;
    out.log(Level::Info, format!("bootstrap of {run_id}"));
    let (env, config, upload) = match source {
        Source::Callbacks { otp_setup, otp_run, otp_upload } => {
            let env = callback::env(&link, &otp_setup, &limits).await?;
            let config = callback::config(&link, &otp_run, &limits).await?;
            (env, config, otp_upload.map(Taker::Workspace))
        }
        Source::Inline { env, config } => (env, *config, Some(Taker::Host)),
    };
    let (harness, resume) = harness_of(harness, session_id, &config)?;
    check_caller(chat_id.as_deref(), &config)?;
    let home = Home::of_process();
    let workspace_dir = PathBuf::from(workspace_dir);
    let variables = variables(&env, &config, &link, &workspace_dir, &home)?;
    let skills = skills::fetch_all(&config.skills, &home, &limits, out).await?;
    // Both at once, so that a tool can leave a file there without making a place.
    std::fs::create_dir_all(workspace_dir.join(writeback::DIRECTORY)).map_err(|err| {
        let message = format!("cannot make {}: {err}", workspace_dir.display());
        Failure::new(ErrorCode::BootstrapFailed, message)
    })?;
    if let Some(assets) = &config.assets {
        bag::fetch(assets, &workspace_dir, &home, &limits, out).await?;
    }
    // One of the dispatch hides the configuration's of that name.
    let more = config.tools.iter().filter(|tool| !tools.iter().any(|one| one.name == tool.name));
    let more: Vec<HostTool> = more.cloned().collect();
    tools.extend(more);
    let session = Session {
        link,
        prompt,
        config,
        variables,
        home: home.0.clone(),
        workspace_dir,
        skills,
        harness,
        resume,
        bridge,
        tools,
        policy,
        file_events,
        code_mode,
        limits,
    };
    let background = match env.setup_script.as_deref().map(str::trim) {
        None | Some("") => None,
        Some(script) => setup::run(script, &session, &home, out).await?,
    };
    Ok(Ready { session, upload, _background: background })
}

/// The dispatch says which harness runs and which session of it goes on; where
/// it says nothing, the configuration does.
fn harness_of(
    dispatched: Option<Harness>,
    session_id: Option<String>,
    config: &AgentConfig,
) -> Result<(Harness, Option<String>), Failure> {
    let Some(configured) = &config.harness else {
        return Ok((dispatched.unwrap_or_default(), session_id));
    };
    if let Some(harness) = dispatched {
        return Ok((harness, session_id));
    }
    let harness = Harness::parse(&configured.kind).ok_or_else(|| {
        let names = Harness::ALL.map(Harness::name).join("`, `");
        let message = format!("`harness.kind` is `{}`; known are `{names}`", configured.kind);
        Failure::new(ErrorCode::BadRequest, message)
    })?;
    Ok((harness, session_id.or_else(|| configured.session_id.clone())))
}

/// The Assistant always has a conversation, and an Agents block never.
fn check_caller(chat_id: Option<&str>, config: &AgentConfig) -> Result<(), Failure> {
    let wrong = match (config.caller, chat_id, config.chat_id.as_deref()) {
        (Some(Caller::Assistant), None, _) => "caller `assistant` needs a `chat_id`",
        (Some(Caller::Agents), Some(_), _) => "caller `agents` has no `chat_id`",
        (_, Some(dispatched), Some(configured)) if dispatched != configured => {
            "the `chat_id` of the dispatch is not the one of the configuration"
        }
        _ => return Ok(()),
    };
    Err(Failure::new(ErrorCode::BadRequest, wrong))
}

/// The named environment, and ours over it. No one-time token is among them.
fn variables(
    env: &AgentEnv,
    config: &AgentConfig,
    link: &str,
    workspace_dir: &Path,
    home: &Home,
) -> Result<Variables, Failure> {
    let mut variables = Variables::new(env.variables.clone())
        .map_err(|err| Failure::new(ErrorCode::BootstrapFailed, format!("variables: {err}")))?;
    variables.set("HOME", home.0.display().to_string());
    variables.set("WORKSPACE_DIR", workspace_dir.display().to_string());
    variables.set("AGENT_URL", format!("{link}/agent"));
    if let Some(workspace) = &config.workspace {
        variables.set("WORKSPACE_API_URL", workspace.url.clone());
        variables.set("WORKSPACE_API_TOKEN", workspace.bearer.expose().clone());
    }
    Ok(variables)
}

impl Home {
    /// The home of the user we run as, which is root inside a sandbox.
    fn of_process() -> Home {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        Home(home.map_or_else(|| PathBuf::from("/root"), PathBuf::from))
    }

    /// A directory of ours, made when it is missing.
    fn directory(&self, name: &str) -> std::io::Result<PathBuf> {
        let path = self.0.join(".mayfly").join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::run::ErrorCode;

    use wire::agent::Harness;

    use super::{check_caller, harness_of};

    #[track_caller]
    fn check(chat_id: Option<&str>, config: Value, expected: Option<&str>) {
        let config = serde_json::from_value(config).unwrap();
        match (check_caller(chat_id, &config), expected) {
            (Ok(()), None) => {}
            (Err(failure), Some(part)) => {
                assert_eq!(failure.code, ErrorCode::BadRequest);
                assert!(failure.message.contains(part), "{}", failure.message);
            }
            (other, _) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_assistant_has_a_conversation_and_an_agents_block_has_none() {
        check(Some("c"), json!({"caller": "assistant"}), None);
        check(Some("c"), json!({"caller": "assistant", "chat_id": "c"}), None);
        check(None, json!({"caller": "assistant"}), Some("needs a `chat_id`"));
        check(None, json!({"caller": "agents"}), None);
        check(Some("c"), json!({"caller": "agents"}), Some("has no `chat_id`"));
        check(Some("c"), json!({"caller": "assistant", "chat_id": "d"}), Some("is not the one"));
        check(None, json!({}), None);
        check(Some("c"), json!({}), None);
    }

    #[test]
    fn the_dispatch_chooses_the_harness_before_the_configuration_does() {
        let config = |harness: Value| serde_json::from_value(json!({"harness": harness})).unwrap();
        let codex = config(json!({"kind": "codex", "session_id": "s"}));
        let chosen = harness_of(None, None, &codex).unwrap();
        assert_eq!(chosen, (Harness::Codex, Some("s".to_owned())));
        let chosen = harness_of(Some(Harness::Opencode), None, &codex).unwrap();
        assert_eq!(chosen, (Harness::Opencode, None));
        assert_eq!(harness_of(None, None, &config(Value::Null)).unwrap().0, Harness::Builtin);
        let failure = harness_of(None, None, &config(json!({"kind": "gemini"}))).unwrap_err();
        assert!(failure.message.contains("`gemini`"), "{}", failure.message);
    }
}
