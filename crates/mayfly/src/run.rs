//! `mayfly run`: dispatches a prompt to a running server and shows what happens,
//! live on a terminal, as NDJSON elsewhere. A caller like any other.

mod screen;

pub(crate) use screen::{Ending, follow};

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use reqwest::{Method, header};
use serde_json::{Value, json};
use wire::agent::Harness;

use crate::client::{Server, ServerArguments};
use crate::files;

/// The log as it is, text deltas included.
pub(crate) const RAW: &str = "application/vnd.mayfly.run+ndjson";
/// What the contract of callers asks for.
const ENVELOPE: &str = "application/x-ndjson";
/// The server's answer names the run here.
const RUN_ID: &str = "x-mayfly-run-id";

/// What `run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// What the agent is to do; `-` reads it from stdin
    prompt: String,
    #[command(flatten)]
    server: ServerArguments,
    /// Who answers; `scripted` runs the prompt's fenced shell blocks, without any model
    #[arg(long, value_enum, default_value_t = Provider::Scripted)]
    provider: Provider,
    /// The provider's model
    #[arg(long, value_name = "NAME", required_if_eq_any = [
        ("provider", "anthropic"), ("provider", "openai"), ("provider", "openai-responses"),
    ])]
    model: Option<String>,
    /// Where the provider is, when it is not the usual place
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// What the agent is told beforehand
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Rounds of tool calls before it has to be done
    #[arg(long, value_name = "N")]
    max_rounds: Option<u32>,
    /// A whole agent configuration as JSON, in place of the flags above
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "base_url", "system", "max_rounds"])]
    agent_config: Option<PathBuf>,
    /// What runs the loop; a coding agent needs its template, see `template add-harness`
    #[arg(long, value_name = "NAME", value_parser = harness_parser())]
    harness: Option<Harness>,
    /// The harness's session to go on with, as `<harness>.session-id` named it
    #[arg(long, value_name = "ID", requires = "harness")]
    session: Option<String>,
    /// Do not tell which files change
    #[arg(long)]
    no_file_events: bool,
    /// What the sandbox starts from
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Seconds it may take
    #[arg(long, value_name = "SECONDS")]
    max_runtime_sec: Option<u64>,
    /// Print the run's id and leave it to the server; `mayfly runs follow` shows it later
    #[arg(long)]
    detach: bool,
    /// Where to put the files that the agent left in `assets/`
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the log as it is, text deltas included
    #[arg(long)]
    raw: bool,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Provider {
    /// No model: the script, or the shell blocks of the prompt
    Scripted,
    /// Anthropic Messages; the key is in ANTHROPIC_API_KEY
    Anthropic,
    /// Chat Completions, also of vLLM, Ollama, …; the key is in OPENAI_API_KEY
    Openai,
    /// OpenAI Responses; the key is in OPENAI_API_KEY
    OpenaiResponses,
}

impl Provider {
    fn name(self) -> &'static str {
        match self {
            Provider::Scripted => "scripted",
            Provider::Anthropic => "anthropic",
            Provider::Openai => "openai",
            Provider::OpenaiResponses => "openai-responses",
        }
    }

    /// The variable that holds its key.
    fn key(self) -> Option<&'static str> {
        match self {
            Provider::Scripted => None,
            Provider::Anthropic => Some("ANTHROPIC_API_KEY"),
            Provider::Openai | Provider::OpenaiResponses => Some("OPENAI_API_KEY"),
        }
    }
}

/// Names all harnesses, so that help and completion know them.
fn harness_parser() -> impl TypedValueParser<Value = Harness> {
    PossibleValuesParser::new(Harness::ALL.map(Harness::name))
        .try_map(|name| Harness::parse(&name).ok_or("no such harness"))
}

/// Dispatches and shows.
pub(crate) fn command(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let body = body(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::new(&arguments.server)?;
        let live = io::stdout().is_terminal() && !arguments.raw;
        let format = if live || arguments.raw { RAW } else { ENVELOPE };
        let request = server
            .request(Method::POST, "/stream")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, format)
            .body(serde_json::to_vec(&body)?);
        let answer = server.send(request).await?;
        let id = answer.headers().get(RUN_ID).and_then(|id| id.to_str().ok());
        let id = id.context("the server does not name the run")?.to_owned();
        if arguments.detach {
            crate::output::print(&format!("{id}\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let ending = follow(&server, &id, answer, live).await?;
        if let (Some(directory), Ending::Done) = (&arguments.output, ending) {
            files::fetch(&server, &id, directory).await?;
        }
        Ok(ending.exit_code())
    })
}

fn body(arguments: &RunArguments) -> anyhow::Result<Value> {
    let mut prompt = arguments.prompt.clone();
    if prompt == "-" {
        prompt.clear();
        io::stdin().read_to_string(&mut prompt)?;
    }
    let on_disconnect = if arguments.detach { "continue" } else { "cancel" };
    let mut body = json!({
        "prompt": prompt,
        "config": config(arguments)?,
        "on_disconnect": on_disconnect,
    });
    if let Some(harness) = arguments.harness {
        body["harness"] = json!(harness);
    }
    if let Some(session) = &arguments.session {
        body["modelOptions"] = json!({ "sessionId": session });
    }
    if arguments.no_file_events {
        body["fileEvents"] = json!(false);
    }
    if let Some(template) = &arguments.template {
        body["template"] = json!(template);
    }
    if let Some(seconds) = arguments.max_runtime_sec {
        body["limits"] = json!({ "max_runtime_sec": seconds });
    }
    Ok(body)
}

fn config(arguments: &RunArguments) -> anyhow::Result<Value> {
    if let Some(path) = &arguments.agent_config {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        return serde_json::from_slice(&text)
            .with_context(|| format!("{} is not JSON", path.display()));
    }
    let provider = arguments.provider;
    let mut model = json!({ "provider": provider.name() });
    model["name"] = json!(arguments.model.as_deref().unwrap_or(provider.name()));
    if let Some(url) = &arguments.base_url {
        model["base_url"] = json!(url);
    }
    if let Some(variable) = provider.key() {
        match std::env::var(variable) {
            Ok(key) => model["api_key"] = json!(key),
            // Servers of one's own often want none.
            Err(_) if arguments.base_url.is_some() => {}
            Err(_) => bail!("set {variable}, or name a server that needs no key with --base-url"),
        }
    }
    let mut config = json!({ "model": model });
    if let Some(system) = &arguments.system {
        config["system_prompt"] = json!(system);
    }
    if let Some(rounds) = arguments.max_rounds {
        config["max_rounds"] = json!(rounds);
    }
    Ok(config)
}
