//! Grok Build, by `grok agent stdio`.
//!
//! What it has to know is in its `config.toml`, written anew for each run: no
//! telemetry, no updates, no requests beside the turn's own. Its two ways of
//! asking a failing model again take most of a minute; both are switched off
//! or nearly so, and the provider's words come at once.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokio::process::Command;
use wire::agent::{ModelConfig, Provider};
use wire::run::ErrorCode;

use super::Finished;
use super::acp::{self, Asides, Dialect, Manner};
use super::job::Job;
use crate::failure::Failure;
use crate::session::Session;

/// The program.
const PROGRAM: &str = "grok";
/// Its own directory, below the home.
const DIRECTORY: &str = ".grok";
/// Its name for the one model that it uses.
const MODEL: &str = "mayfly";
/// Its notice that it has tried to connect to all MCP servers.
const CONNECTED: &str = "_x.ai/mcp_initialized";
/// The variable with the key, which is none.
const KEY: &str = "MAYFLY_MODEL_KEY";
/// The window of a model whose own nobody has told us.
const CONTEXT_TOKENS: u32 = 200_000;
/// What a session goes on with; the rest is for its own screens.
const SESSION_FILES: [&str; 2] = ["chat_history.jsonl", "summary.json"];

/// By itself it asks about what it deems dangerous only.
const ASK: &str = r#"
[permission]
rules = [
  { action = "ask", tool = "bash" },
  { action = "ask", tool = "edit" },
  { action = "ask", tool = "grep" },
  { action = "ask", tool = "mcp" },
  { action = "ask", tool = "read" },
  { action = "ask", tool = "webfetch" },
  { action = "ask", tool = "websearch" },
]
"#;

/// Runs one turn.
pub(crate) async fn run(job: &mut Job<'_>) -> Result<Finished, Failure> {
    let spoken = [Provider::Anthropic, Provider::Openai, Provider::OpenaiResponses];
    let model = job.model(&spoken)?;
    let directory = job.session.home.join(DIRECTORY);
    let mut config = config(&job.model_url(), model);
    if !job.gate.is_open() {
        config.push_str(ASK);
    }
    write_config(&directory, &config)?;
    let child = job.spawn(command(job, &directory))?;
    job.remind();
    let mut meta = Map::new();
    let rules = job.system_prompt();
    if !rules.is_empty() {
        meta.insert("rules".to_owned(), Value::from(rules));
    }
    let manner = Manner {
        program: PROGRAM,
        dialect: Dialect::Grok,
        meta,
        model: Some(MODEL),
        connected: Some(CONNECTED),
        asides: Asides::none(),
    };
    acp::run(job, child, manner).await
}

/// The files of a session, wherever it was started.
pub(crate) fn session_files(session: &Session, id: &str) -> Vec<PathBuf> {
    let sessions = session.home.join(DIRECTORY).join("sessions");
    let Ok(folders) = fs::read_dir(sessions) else { return Vec::new() };
    let folders = folders.filter_map(|folder| Some(folder.ok()?.path().join(id)));
    let files = folders.flat_map(|folder| SESSION_FILES.map(|name| folder.join(name)));
    files.filter(|file| file.is_file()).collect()
}

fn command(job: &Job<'_>, directory: &Path) -> Command {
    let mut command = job.command(PROGRAM);
    command.args(["agent", "-m", MODEL, "--no-leader"]);
    if job.gate.is_open() {
        command.arg("--always-approve");
    }
    command
        .arg("stdio")
        .env("HOME", &job.session.home)
        .env("GROK_HOME", directory)
        .env(KEY, "the-host-link-has-it")
        .env("GROK_DISABLE_AUTOUPDATER", "1")
        .env("GROK_TELEMETRY_ENABLED", "false")
        .env("GROK_TURN_TRANSIENT_RETRY", "false")
        // Accounts and addresses that a named environment may hold are not for
        // this.
        .env_remove("GROK_CONFIG")
        .env_remove("GROK_CONFIG_PATH")
        .env_remove("GROK_MAX_RETRIES")
        .env_remove("XAI_API_KEY");
    command
}

fn write_config(directory: &Path, config: &str) -> Result<(), Failure> {
    let path = directory.join("config.toml");
    fs::create_dir_all(directory).and_then(|()| fs::write(&path, config)).map_err(|err| {
        let message = format!("cannot write `{}`: {err}", path.display());
        Failure::new(ErrorCode::Internal, message)
    })
}

fn config(model_url: &str, model: &ModelConfig) -> String {
    let backend = match model.provider {
        Provider::Openai | Provider::Scripted => "chat_completions",
        Provider::OpenaiResponses => "responses",
        Provider::Anthropic => "messages",
    };
    // A string of JSON is one of TOML.
    let name = Value::from(model.name.as_str());
    let base_url = Value::from(format!("{model_url}/v1"));
    let mut config = format!(
        r#"[cli]
auto_update = false

[features]
telemetry = false
feedback = false
remote_fetch = false
managed_config = false
session_recap = false
title_refresh = false
turn_summary = false

[telemetry]
trace_upload = false

[models]
default = "{MODEL}"
session_summary = "{MODEL}"
max_retries = 1

[model.{MODEL}]
model = {name}
base_url = {base_url}
env_key = "{KEY}"
api_backend = "{backend}"
context_window = {CONTEXT_TOKENS}
"#
    );
    if let Some(tokens) = model.max_tokens {
        config.push_str(&format!("max_completion_tokens = {tokens}\n"));
    }
    if let Some(temperature) = model.temperature {
        config.push_str(&format!("temperature = {temperature:?}\n"));
    }
    config
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;
    use wire::agent::ModelConfig;

    use super::{Session, config, session_files};

    #[test]
    fn the_model_is_described_in_its_own_words() {
        for (provider, backend) in [
            ("openai", "chat_completions"),
            ("openai-responses", "responses"),
            ("anthropic", "messages"),
        ] {
            let model = json!({"provider": provider, "name": "a \"b\"", "temperature": 1.0});
            let model: ModelConfig = serde_json::from_value(model).unwrap();
            let config = config("http://127.0.0.1:1/model", &model);
            for line in [
                &format!("api_backend = \"{backend}\""),
                "model = \"a \\\"b\\\"\"",
                "base_url = \"http://127.0.0.1:1/model/v1\"",
                "temperature = 1.0",
                "max_retries = 1",
            ] {
                assert!(config.lines().any(|found| found == line), "{line}: {config}");
            }
        }
    }

    #[test]
    fn a_session_is_found_by_its_id_wherever_it_was_started() {
        let home = tempfile::tempdir().unwrap();
        let session = Session::for_test(home.path(), Path::new("/w"));
        assert!(session_files(&session, "s1").is_empty());
        for id in ["s1", "s2"] {
            let folder = home.path().join(".grok/sessions/%2Fw").join(id);
            fs::create_dir_all(&folder).unwrap();
            for name in ["chat_history.jsonl", "summary.json", "updates.jsonl"] {
                fs::write(folder.join(name), name).unwrap();
            }
        }
        let found = session_files(&session, "s1");
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|file| file.parent().unwrap().ends_with("%2Fw/s1")), "{found:?}");
    }
}
