//! How Codex is started: everything is configured by flags, so that nothing has
//! to be written to its home.

use serde_json::Value;
use tokio::process::Command;
use wire::agent::{ModelConfig, Ruling};
use wire::run::Level;

use super::PROGRAM;
use crate::harness::job::{Job, Server};
use crate::policy::Action;

/// Names the variable with the key that Codex wants to have.
const KEY: &str = "MAYFLY_MODEL_KEY";
/// How often a provider that fails is asked again.
const RETRIES: u64 = 1;
/// How long an MCP server may take to start, in seconds.
const MCP_START: u64 = 30;

/// The command of one turn.
pub(super) fn command(job: &Job<'_>, model: &ModelConfig) -> Command {
    let mut command = job.command(PROGRAM);
    command.arg("app-server");
    let mut flag = |key: &str, value: Value| {
        command.arg("-c").arg(format!("{key}={}", toml(&value)));
    };
    if !model.name.is_empty() {
        flag("model", Value::from(model.name.as_str()));
    }
    flag("model_provider", Value::from("mayfly"));
    let provider = [
        ("name", Value::from("mayfly")),
        ("base_url", Value::from(job.model_url())),
        ("env_key", Value::from(KEY)),
        ("wire_api", Value::from("responses")),
        ("request_max_retries", Value::from(RETRIES)),
        ("stream_max_retries", Value::from(RETRIES)),
        ("stream_idle_timeout_ms", Value::from(job.session.limits.model_timeout_ms)),
    ];
    for (key, value) in provider {
        flag(&format!("model_providers.mayfly.{key}"), value);
    }
    // Without these it looks up names of its vendor's.
    flag("features.plugins", Value::from(false));
    flag("analytics.enabled", Value::from(false));
    flag("check_for_update_on_startup", Value::from(false));
    if !searches_the_web(job) {
        flag("web_search", Value::from("disabled"));
    }
    command.env(KEY, "the-host-link-has-it");
    // Sessions are archived from the home, and from nowhere else.
    command.env("HOME", &job.session.home).env_remove("CODEX_HOME");
    servers(job, &mut command);
    command
}

/// Whether the model may search the web. The provider does that by itself, and
/// nobody is asked in between: what is not allowed beforehand is not offered.
fn searches_the_web(job: &Job<'_>) -> bool {
    match job.gate.standing(&Action::Network("web_search")) {
        Ruling::Allow => true,
        Ruling::Deny => false,
        Ruling::Ask => {
            let message = "web search is off: the policy wants somebody to agree to \
                           `codex:network:web_search` first";
            job.out.log(Level::Info, message);
            false
        }
    }
}

/// Tells Codex of MCP servers. A bearer goes into the environment: arguments are
/// shown to everybody.
fn servers(job: &Job<'_>, command: &mut Command) {
    let seconds = job.session.limits.tool_timeout_ms.div_ceil(1000);
    let names: Vec<String> = command
        .as_std()
        .get_envs()
        .filter(|(name, value)| value.is_some() && *name != KEY)
        .filter_map(|(name, _)| name.to_str().map(str::to_owned))
        .collect();
    let mut known: Vec<String> = Vec::new();
    for (number, server) in job.mcp_servers().iter().enumerate() {
        let name = plain(server.name());
        if known.contains(&name) {
            let message = format!("MCP server `{}` is left out: the name is taken", server.name());
            job.out.log(Level::Warn, message);
            continue;
        }
        let mut flag = |key: &str, value: Value| {
            command.arg("-c").arg(format!("mcp_servers.{name}.{key}={}", toml(&value)));
        };
        flag("startup_timeout_sec", Value::from(MCP_START));
        flag("tool_timeout_sec", Value::from(seconds));
        match server {
            Server::Http { url, bearer, .. } => {
                flag("url", Value::from(url.as_str()));
                if let Some(bearer) = bearer {
                    let variable = format!("MAYFLY_MCP_{number}_BEARER");
                    flag("bearer_token_env_var", Value::from(variable.as_str()));
                    command.env(variable, bearer.expose());
                }
            }
            Server::Stdio { command: program, args, env, .. } => {
                flag("command", Value::from(program.as_str()));
                flag("args", Value::from(args.as_slice()));
                // Of our variables it passes on what it is told to.
                flag("env_vars", Value::from(names.as_slice()));
                flag(
                    "env",
                    env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
                );
            }
        }
        known.push(name);
    }
}

/// A server's name in letters that Codex takes.
fn plain(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    name.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect()
}

/// A value as TOML writes it: as JSON does, but for tables.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                format!("{} = {}", toml(&Value::from(name.as_str())), toml(value))
            });
            format!("{{{}}}", fields.collect::<Vec<String>>().join(", "))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(toml).collect::<Vec<String>>().join(", "))
        }
        // The one letter that JSON leaves as it is and TOML does not.
        Value::String(_) => value.to_string().replace('\u{7f}', "\\u007f"),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};
    use wire::Secret;
    use wire::agent::Harness;

    use super::{command, toml};
    use crate::emit::Emitter;
    use crate::harness::job::Job;
    use crate::session::Session;

    /// The arguments that Codex is started with under this configuration.
    fn arguments(config: Value, policy: Value) -> Vec<String> {
        let mut session = Session::for_test(Path::new("/root"), Path::new("/root/workspace"));
        session.harness = Harness::Codex;
        session.link = "http://127.0.0.1:1".to_owned();
        session.config = serde_json::from_value(config).unwrap();
        session.policy = serde_json::from_value(policy).unwrap();
        session.tools = vec![serde_json::from_value(json!({"name": "lookup"})).unwrap()];
        session.bridge.url = "http://127.0.0.1:1/tools".to_owned();
        session.bridge.bearer = Secret::new("bearer".to_owned());
        let out = Emitter::to(std::io::sink());
        let job = Job::new(&session, &out);
        let command = command(&job, &session.config.model);
        let bearer = command.as_std().get_envs().find(|(name, _)| *name == "MAYFLY_MCP_0_BEARER");
        assert_eq!(bearer.unwrap().1.unwrap(), "bearer");
        let arguments = command.as_std().get_args();
        arguments.map(|argument| argument.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn everything_is_told_by_flags_and_no_secret_is() {
        let servers = json!([
            {"transport": "http", "name": "my facts", "url": "http://127.0.0.1:1/mcp/0"},
            {"transport": "http", "name": "my.facts", "url": "http://127.0.0.1:1/mcp/1"},
            {"transport": "stdio", "name": "local", "command": "run", "args": ["a", "\"b\""],
             "env": {"X.Y": "z"}},
        ]);
        let config = json!({
            "model": {"provider": "openai-responses", "name": "some \"model\""},
            "mcp_servers": servers,
        });
        let arguments = arguments(config, Value::Null);
        assert_eq!(arguments[0], "app-server");
        let expected = [
            r#"model="some \"model\"""#,
            r#"model_providers.mayfly.base_url="http://127.0.0.1:1/model""#,
            "model_providers.mayfly.stream_idle_timeout_ms=60000",
            "features.plugins=false",
            r#"mcp_servers.mayfly.url="http://127.0.0.1:1/tools""#,
            r#"mcp_servers.mayfly.bearer_token_env_var="MAYFLY_MCP_0_BEARER""#,
            "mcp_servers.mayfly.tool_timeout_sec=600",
            r#"mcp_servers.my_facts.url="http://127.0.0.1:1/mcp/0""#,
            r#"mcp_servers.local.args=["a", "\"b\""]"#,
            r#"mcp_servers.local.env={"X.Y" = "z"}"#,
        ];
        for flag in expected {
            assert!(arguments.iter().any(|argument| argument == flag), "{flag} {arguments:?}");
        }
        let all = arguments.join(" ");
        assert!(
            !all.contains("mcp/1") && !all.contains("=\"bearer\"") && !all.contains("web_search")
        );
    }

    #[test]
    fn the_web_is_searched_only_where_the_policy_allows_it_beforehand() {
        let model = json!({"model": {"provider": "openai-responses", "name": "m"}});
        let check = |policy: Value, expected: bool| {
            let off =
                arguments(model.clone(), policy).contains(&r#"web_search="disabled""#.to_owned());
            assert_eq!(!off, expected);
        };
        check(Value::Null, true);
        check(json!({}), false);
        check(json!({"capabilities": {"network": "allow"}}), true);
        check(json!({"capabilities": {"network": "deny"}}), false);
        check(json!({"approvals": {"codex:network:web_search": "allow"}}), true);
    }

    #[test]
    fn values_are_written_as_toml() {
        let value = json!({"a": [1, true, "b\u{7f}\n"], "c d": {"e": "f"}});
        assert_eq!(toml(&value), r#"{"a" = [1, true, "b\u007f\n"], "c d" = {"e" = "f"}}"#);
    }
}
