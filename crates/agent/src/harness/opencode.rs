//! OpenCode, by `opencode acp`.
//!
//! Everything that it has to know is in one variable of its environment. One
//! thing the protocol does not tell: that the model failed and is asked again,
//! up to five times and for over a minute. OpenCode is a server too, and tells
//! it there: see `watch`.

mod watch;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tokio::process::Command;
use wire::agent::{ModelConfig, Provider};
use wire::run::ErrorCode;

use super::Finished;
use super::acp::{self, Asides, Dialect, Manner};
use super::job::Job;
use crate::failure::Failure;
use crate::session::Session;

/// The program.
const PROGRAM: &str = "opencode";
/// Where it keeps all its sessions, below the home.
const DATABASE: &str = ".local/share/opencode/opencode.db";
/// What it is told before any prompt, below the home.
const INSTRUCTIONS: &str = ".config/opencode/mayfly.md";
/// The name of the one provider that it knows.
const PROVIDER: &str = "mayfly";
/// The window of a model whose own nobody has told us.
const CONTEXT_TOKENS: u32 = 200_000;
/// The longest answer of such a model.
const OUTPUT_TOKENS: u32 = 32_000;

/// Runs one turn.
pub(crate) async fn run(job: &mut Job<'_>) -> Result<Finished, Failure> {
    let spoken = [Provider::Anthropic, Provider::Openai, Provider::OpenaiResponses];
    let model = job.model(&spoken)?;
    let instructions = write_instructions(job)?;
    let config = config(job, model, instructions.as_deref());
    let port = free_port();
    let child = job.spawn(command(job, &config, port))?;
    let asides = match port {
        Some(port) => Asides::of(|speaker| watch::watch(port, speaker)),
        None => Asides::none(),
    };
    let manner = Manner {
        program: PROGRAM,
        dialect: Dialect::Opencode,
        meta: Map::new(),
        model: None,
        connected: None,
        asides,
    };
    acp::run(job, child, manner).await
}

/// The files of all sessions: there is one database for them.
pub(crate) fn session_files(session: &Session, _id: &str) -> Vec<PathBuf> {
    let database = session.home.join(DATABASE);
    if !database.is_file() {
        return Vec::new();
    }
    // What was written last is in the file beside it.
    let beside = ["-wal", "-shm"].map(|end| {
        let mut path = database.clone().into_os_string();
        path.push(end);
        PathBuf::from(path)
    });
    [database].into_iter().chain(beside).filter(|path| path.is_file()).collect()
}

fn command(job: &Job<'_>, config: &Value, port: Option<u16>) -> Command {
    let home = &job.session.home;
    let mut command = job.command(PROGRAM);
    command.arg("acp");
    if let Some(port) = port {
        command.args(["--hostname", "127.0.0.1", "--port", &port.to_string()]);
    }
    command
        .env("HOME", home)
        // Its sessions have to be where they are looked for.
        .env("XDG_DATA_HOME", home.join(".local/share"))
        .env_remove("OPENCODE_DB")
        .env_remove("OPENCODE_PERMISSION")
        .env_remove("OPENCODE_SERVER_PASSWORD")
        .env("OPENCODE_CONFIG_CONTENT", config.to_string())
        .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
        .env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1")
        .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .env("OPENCODE_DISABLE_SHARE", "1");
    command
}

fn config(job: &Job<'_>, model: &ModelConfig, instructions: Option<&Path>) -> Value {
    let package = match model.provider {
        Provider::Openai | Provider::Scripted => "@ai-sdk/openai-compatible",
        Provider::OpenaiResponses => "@ai-sdk/openai",
        Provider::Anthropic => "@ai-sdk/anthropic",
    };
    let chosen = format!("{PROVIDER}/{}", model.name);
    let output = model.max_tokens.unwrap_or(OUTPUT_TOKENS);
    let known = json!({
        "name": model.name,
        "tool_call": true,
        "limit": {"context": CONTEXT_TOKENS, "output": output},
    });
    let base_url = format!("{}/v1", job.model_url());
    let permission = if job.gate.is_open() { "allow" } else { "ask" };
    let mut config = json!({
        "autoupdate": false,
        "share": "disabled",
        "model": chosen,
        "small_model": chosen,
        "enabled_providers": [PROVIDER],
        "permission": {"*": permission},
        // Nobody reads the title of a session.
        "agent": {"title": {"disable": true}},
        "provider": {PROVIDER: {
            "npm": package,
            "name": "Mayfly",
            "options": {"baseURL": base_url, "apiKey": "the-host-link-has-it"},
            "models": {model.name.as_str(): known},
        }},
    });
    if let Some(temperature) = model.temperature {
        config["agent"]["build"] = json!({"temperature": temperature});
    }
    if let Some(instructions) = instructions {
        config["instructions"] = json!([instructions]);
    }
    config
}

/// Writes the system prompt where OpenCode finds it: it takes files only. None
/// if there is nothing to say.
fn write_instructions(job: &Job<'_>) -> Result<Option<PathBuf>, Failure> {
    let text = job.system_prompt();
    if text.is_empty() {
        return Ok(None);
    }
    let path = job.session.home.join(INSTRUCTIONS);
    let folder = path.parent().unwrap_or(&job.session.home);
    fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(|err| {
        let message = format!("cannot write `{}`: {err}", path.display());
        Failure::new(ErrorCode::Internal, message)
    })?;
    Ok(Some(path))
}

/// A port that nobody listens on. Somebody may take it before OpenCode does,
/// which then says so and ends; without one it chooses by itself.
fn free_port() -> Option<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).ok()?;
    Some(listener.local_addr().ok()?.port())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use serde_json::json;

    use super::{Job, Session, config, session_files, write_instructions};
    use crate::emit::Emitter;

    #[test]
    fn the_provider_speaks_as_the_model_does() {
        let mut session = Session::for_test(Path::new("/root"), Path::new("/w"));
        session.link = "http://127.0.0.1:1".to_owned();
        let out = Emitter::to(io::sink());
        for (provider, package) in [
            ("openai", "@ai-sdk/openai-compatible"),
            ("openai-responses", "@ai-sdk/openai"),
            ("anthropic", "@ai-sdk/anthropic"),
        ] {
            let model = json!({"provider": provider, "name": "a/b", "max_tokens": 9});
            session.config = serde_json::from_value(json!({"model": model})).unwrap();
            let config = config(&Job::new(&session, &out), &session.config.model, None);
            assert_eq!(config["provider"]["mayfly"]["npm"], package);
            assert_eq!(config["model"], "mayfly/a/b");
            let options = &config["provider"]["mayfly"]["options"];
            assert_eq!(options["baseURL"], "http://127.0.0.1:1/model/v1");
            let model = &config["provider"]["mayfly"]["models"]["a/b"];
            assert_eq!(model["limit"]["output"], 9);
            assert_eq!(config["permission"]["*"], "allow");
        }
        session.policy = Some(serde_json::from_value(json!({})).unwrap());
        let config = config(&Job::new(&session, &out), &session.config.model, None);
        assert_eq!(config["permission"]["*"], "ask");
    }

    #[test]
    fn instructions_are_a_file_and_sessions_are_three() {
        let home = tempfile::tempdir().unwrap();
        let mut session = Session::for_test(home.path(), Path::new("/w"));
        let out = Emitter::to(io::sink());
        assert_eq!(write_instructions(&Job::new(&session, &out)).unwrap(), None);
        session.config = serde_json::from_value(json!({"system_prompt": "Be brief."})).unwrap();
        let path = write_instructions(&Job::new(&session, &out)).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "Be brief.");
        assert!(session_files(&session, "ses_1").is_empty());
        let folder = home.path().join(".local/share/opencode");
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["opencode.db", "opencode.db-wal", "opencode.db-shm", "auth.json"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        assert_eq!(session_files(&session, "ses_1").len(), 3);
    }
}
