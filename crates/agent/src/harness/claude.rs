//! Claude Code, driven both ways: the prompt and our answers go in as lines,
//! what it does comes out as lines.
//!
//! ```text
//! initialize, prompt ──► claude ──► text, thoughts, calls, questions ──► result ──► stdin closed
//!                           ▲                                  │
//!                           └────── what the policy says ◄─────┘
//! ```
//!
//! With a policy, a hook of ours is asked before any tool is used, by sub-agents
//! too; the CLI's own questions, which leave out what it deems safe, are
//! answered in the same way. Without one nothing is asked.

mod decode;
mod lines;
mod permission;
mod servers;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;
use wire::agent::{ModelConfig, Provider, Ruling};
use wire::run::{ErrorCode, Level};

use super::Finished;
use super::child::Child;
use super::job::Job;
use super::steps::Steps;
use crate::failure::Failure;
use crate::model::ModelError;
use crate::session::Session;

use decode::{Decoder, Heard, Own, Verdict};
use servers::ServersFile;

/// The program.
const PROGRAM: &str = "claude";
/// Where it keeps its sessions, below the home: one folder for each directory
/// that it was started in.
const PROJECTS: &str = ".claude/projects";
/// What a silent stream has beyond the model's time: less than the host link
/// gives it, which would only have the CLI ask again.
const MARGIN: Duration = Duration::from_secs(5);
/// The id of our one request.
const INITIALIZE: &str = "initialize";

/// Runs one turn.
pub(crate) async fn run(job: &mut Job<'_>) -> Result<Finished, Failure> {
    let model = job.model(&[Provider::Anthropic])?;
    let servers = ServersFile::write(&job.session.home, &job.mcp_servers()).map_err(|err| {
        let message = format!("cannot tell `{PROGRAM}` of its MCP servers: {err}");
        Failure::new(ErrorCode::Internal, message)
    })?;
    let mut child = job.spawn(command(job, model, servers.as_ref()))?;
    let message = match talk(job, &mut child).await {
        Talk::Over(ended) => {
            child.end().await;
            ended?
        }
        Talk::GivenUp(failure) => return Err(failure),
        Talk::Gone => return Err(child.end().await.without_result(PROGRAM)),
    };
    Ok(Finished { message, session_id: job.announced().map(str::to_owned) })
}

/// The files of a session, wherever it was started.
pub(crate) fn session_files(session: &Session, id: &str) -> Vec<PathBuf> {
    let Ok(folders) = fs::read_dir(session.home.join(PROJECTS)) else { return Vec::new() };
    let name = format!("{id}.jsonl");
    let files = folders.filter_map(|folder| Some(folder.ok()?.path().join(&name)));
    files.filter(|file| file.is_file()).collect()
}

/// Where a file of a kept session belongs, both below the home: the session goes
/// on only in the folder of the directory that the CLI is started in now.
pub(super) fn place(session: &Session, id: &str, kept: &Path) -> Option<PathBuf> {
    let inside = kept.strip_prefix(PROJECTS).ok()?;
    let name = format!("{id}.jsonl");
    (inside.components().count() == 2 && inside.file_name()? == name.as_str())
        .then(|| Path::new(PROJECTS).join(folder_of(&session.workspace_dir)).join(name))
}

/// The name of the folder for a directory: everything but letters and digits is
/// a dash.
fn folder_of(directory: &Path) -> String {
    let real = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let text = real.to_string_lossy();
    text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

fn command(job: &Job<'_>, model: &ModelConfig, servers: Option<&ServersFile>) -> Command {
    let limits = &job.session.limits;
    let mut command = job.command(PROGRAM);
    command.args(["-p", "--verbose", "--include-partial-messages"]).args([
        "--output-format",
        "stream-json",
        "--input-format",
        "stream-json",
    ]);
    if !model.name.is_empty() {
        // Whatever else it would ask on the side is asked of the same model.
        command.args(["--model", &model.name]);
        for kind in ["HAIKU", "SONNET", "OPUS"] {
            command.env(format!("ANTHROPIC_DEFAULT_{kind}_MODEL"), &model.name);
        }
    }
    if let Some(tokens) = model.max_tokens {
        command.env("CLAUDE_CODE_MAX_OUTPUT_TOKENS", tokens.to_string());
    }
    if let Some(id) = &job.resume {
        command.args(["--resume", id]);
    }
    command.arg("--strict-mcp-config");
    if let Some(servers) = servers {
        let mut flag = OsString::from("--mcp-config=");
        flag.push(servers.path());
        command.arg(flag);
    }
    if job.gate.is_open() {
        command.arg("--dangerously-skip-permissions");
    } else {
        command.args(["--permission-prompt-tool", "stdio"]);
    }
    command.arg(format!("--disallowedTools={}", denied_tools(job.session).join(",")));
    // Accounts that a named environment may hold are not for this, and sessions
    // are kept where we look for them.
    for variable in [
        "CLAUDE_CONFIG_DIR",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    ] {
        command.env_remove(variable);
    }
    command
        .env("ANTHROPIC_BASE_URL", job.model_url())
        .env("ANTHROPIC_API_KEY", "the-host-link-has-it")
        .env("API_TIMEOUT_MS", limits.model_timeout_ms.to_string())
        .env("MCP_TOOL_TIMEOUT", limits.tool_timeout_ms.to_string())
        .env("CLAUDE_CODE_MAX_RETRIES", "2")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        // It runs as root, which it does only where nothing can be harmed.
        .env("IS_SANDBOX", "1")
        // What is not over with the turn is killed with it.
        .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")
        .env("CLAUDE_CODE_DISABLE_CRON", "1");
    command
}

/// Tools that the model need not even see: those that nothing allows, and those
/// that have no use in a turn that nobody watches.
fn denied_tools(session: &Session) -> Vec<&'static str> {
    let mut denied = permission::ATTENDED.to_vec();
    let Some(policy) = &session.policy else { return denied };
    if policy.capabilities.file_write == Some(Ruling::Deny) {
        denied.extend(permission::WRITERS);
    }
    if policy.capabilities.network == Some(Ruling::Deny) {
        denied.extend(permission::READERS_OF_THE_WEB);
    }
    denied
}

/// How talking to the CLI ended.
enum Talk {
    /// By the end of its turn.
    Over(Result<String, Failure>),
    /// By us, while it goes on.
    GivenUp(Failure),
    /// It is gone.
    Gone,
}

/// Says what there is to say and hears the turn to its end.
async fn talk(job: &Job<'_>, child: &mut Child) -> Talk {
    let content = json!([{"type": "text", "text": job.prompt}]);
    let prompt = json!({"type": "user", "message": {"role": "user", "content": content}});
    for line in [initialize(job), prompt] {
        if child.write_line(&line.to_string()).await.is_err() {
            return Talk::Gone;
        }
    }
    let now = Instant::now();
    let mut turn = Turn { job, steps: Steps::new(job.out), asked: now, asks: false };
    let mut decoder = Decoder::default();
    let talked = 'talk: loop {
        // A stream that falls silent is asked for again and again, without a word.
        let thinks = turn.asks && !turn.steps.any_open() && !decoder.awaits_the_caller();
        let line = tokio::select! {
            line = child.line() => line,
            () = sleep(turn.patience() + MARGIN), if thinks => {
                break Talk::GivenUp(turn.timeout());
            }
        };
        let Ok(Some(line)) = line else { break Talk::Gone };
        for heard in decoder.decode(&line) {
            match turn.hear(heard) {
                Reaction::Nothing => {}
                Reaction::Say(line) => {
                    if child.write_line(&line).await.is_err() {
                        break 'talk Talk::Gone;
                    }
                }
                Reaction::End(talk) => break 'talk talk,
            }
        }
    };
    turn.steps.interrupt_all();
    talked
}

/// The system prompt goes this way too: it may be longer than an argument.
fn initialize(job: &Job<'_>) -> Value {
    let mut request = json!({"subtype": "initialize"});
    let system = job.system_prompt();
    if !system.is_empty() {
        request["appendSystemPrompt"] = Value::String(system);
    }
    if !job.gate.is_open() {
        request["hooks"] = json!({"PreToolUse": [{"hookCallbackIds": ["policy"]}]});
    }
    json!({"type": "control_request", "request_id": INITIALIZE, "request": request})
}

/// A turn as it happens.
struct Turn<'a> {
    job: &'a Job<'a>,
    steps: Steps<'a>,
    /// When the model was asked last.
    asked: Instant,
    /// Whether it was asked at all.
    asks: bool,
}

/// What follows from something that was heard.
enum Reaction {
    Nothing,
    Say(String),
    End(Talk),
}

impl Turn<'_> {
    fn hear(&mut self, heard: Heard) -> Reaction {
        let Some(own) = self.job.tell(&mut self.steps, heard) else { return Reaction::Nothing };
        match own {
            Own::Session { id, model, tools } => {
                let extra = [("model", json!(model)), ("tools", json!(tools))];
                let extra = extra.map(|(name, value)| (name.to_owned(), value));
                self.job.announce(&id, extra.into_iter().collect());
            }
            Own::Asking => (self.asked, self.asks) = (Instant::now(), true),
            Own::Retry { status, notice } => {
                // A provider that did not answer in time is not asked again.
                if status.is_none() && self.asked.elapsed() >= self.patience() {
                    return Reaction::End(Talk::GivenUp(self.timeout()));
                }
                self.asked = Instant::now();
                self.job.out.log(Level::Warn, notice);
            }
            Own::Question { request_id, question } => {
                let answer = permission::answer(&self.job.gate, &request_id, &question);
                return Reaction::Say(answer);
            }
            Own::Ended(verdict) => return Reaction::End(Talk::Over(self.end(verdict))),
        }
        Reaction::Nothing
    }

    fn end(&self, verdict: Verdict) -> Result<String, Failure> {
        match verdict {
            Verdict::Message(message) => Ok(message),
            Verdict::TooManyTurns => {
                let message = "no final message after as many rounds as there may be";
                Err(Failure::new(ErrorCode::MaxRounds, message))
            }
            Verdict::Failed(words) => Err(self.job.model_failed(&words)),
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.job.session.limits.model_timeout_ms)
    }

    fn timeout(&self) -> Failure {
        ModelError::Timeout { limit_ms: self.job.session.limits.model_timeout_ms }.into()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Session, folder_of, place};

    #[test]
    fn a_kept_session_goes_to_the_folder_of_the_directory_of_now() {
        let session = Session::for_test(Path::new("/root"), Path::new("/no_such/work.dir"));
        assert_eq!(folder_of(&session.workspace_dir), "-no-such-work-dir");
        let check = |kept: &str, expected: Option<&str>| {
            assert_eq!(place(&session, "id", Path::new(kept)), expected.map(PathBuf::from));
        };
        let now = ".claude/projects/-no-such-work-dir/id.jsonl";
        check(".claude/projects/-elsewhere/id.jsonl", Some(now));
        check(".claude/projects/-elsewhere/other.jsonl", None);
        check(".claude/projects/id.jsonl", None);
        check(".claude/projects/a/b/id.jsonl", None);
        check(".bashrc", None);
    }
}
