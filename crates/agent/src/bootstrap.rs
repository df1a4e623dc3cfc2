//! From the document on standard input to a session: who we are, what we have,
//! and a directory to work in. In the seed's order, each step once: a token
//! that was redeemed cannot be redeemed again.

mod bag;
mod callback;
mod download;
mod setup;
mod skills;

use std::path::{Path, PathBuf};

use wire::agent::{AgentConfig, AgentEnv, Bootstrap, Caller, Source};
use wire::run::{ErrorCode, Level};

use crate::emit::Emitter;
use crate::failure::Failure;
use crate::session::{Session, Variables};
use crate::writeback::{self, Taker};

pub(crate) use callback::reason;
pub(crate) use setup::Background;

/// The one harness that is ours.
const BUILTIN: &str = "builtin";

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
    let Bootstrap { run_id, link, prompt, chat_id, source, workspace_dir, harness, limits } =
        bootstrap;
    out.log(Level::Info, format!("bootstrap of {run_id}"));
    let (env, config, upload) = match source {
        Source::Callbacks { otp_setup, otp_run, otp_upload } => {
            let env = callback::env(&link, &otp_setup, &limits).await?;
            let config = callback::config(&link, &otp_run, &limits).await?;
            (env, config, otp_upload.map(Taker::Workspace))
        }
        Source::Inline { env, config } => (env, *config, Some(Taker::Host)),
    };
    check_harness(&harness)?;
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
    let session = Session { link, prompt, config, variables, workspace_dir, skills, limits };
    let background = match env.setup_script.as_deref().map(str::trim) {
        None | Some("") => None,
        Some(script) => setup::run(script, &session, &home, out).await?,
    };
    Ok(Ready { session, upload, _background: background })
}

fn check_harness(harness: &str) -> Result<(), Failure> {
    if harness == BUILTIN {
        return Ok(());
    }
    let message = format!("harness `{harness}` is not in this version; use `{BUILTIN}`");
    Err(Failure::new(ErrorCode::BadRequest, message))
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

    use super::{check_caller, check_harness};

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
    fn a_harness_that_is_not_here_is_said() {
        assert!(check_harness("builtin").is_ok());
        assert!(check_harness("codex").unwrap_err().message.contains("`codex`"));
    }
}
