//! MCP servers as the protocol names them.

use serde_json::{Value, json};
use wire::run::Level;

use crate::emit::Emitter;
use crate::harness::job::Server;

/// The servers that a CLI can use; the others are named in the log.
pub(super) fn offered(servers: &[Server], able: &Value, out: &Emitter) -> Vec<Value> {
    let (mut offered, by_http) = (Vec::new(), able["http"] == true);
    for server in servers {
        match server {
            Server::Http { name, .. } if !by_http => {
                let message = format!("MCP server `{name}` is left out: the CLI has no HTTP");
                out.log(Level::Warn, message);
            }
            Server::Http { name, url, bearer } => {
                let headers: Vec<Value> = bearer
                    .iter()
                    .map(|bearer| format!("Bearer {}", bearer.expose()))
                    .map(|value| json!({"name": "Authorization", "value": value}))
                    .collect();
                offered.push(json!({"type": "http", "name": name, "url": url, "headers": headers}));
            }
            Server::Stdio { name, command, args, env } => {
                let env: Vec<Value> =
                    env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
                offered.push(json!({"name": name, "command": command, "args": args, "env": env}));
            }
        }
    }
    offered
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;

    use serde_json::json;
    use wire::Secret;

    use super::{Emitter, Server, offered};

    #[test]
    fn a_server_brings_its_bearer_and_its_variables() {
        let servers = [
            Server::Http {
                name: "a".to_owned(),
                url: "http://h/".to_owned(),
                bearer: Some(Secret::new("t".to_owned())),
            },
            Server::Stdio {
                name: "b".to_owned(),
                command: "c".to_owned(),
                args: vec!["d".to_owned()],
                env: BTreeMap::from([("E".to_owned(), "f".to_owned())]),
            },
        ];
        let out = Emitter::to(io::sink());
        let headers = json!([{"name": "Authorization", "value": "Bearer t"}]);
        let http = json!({"type": "http", "name": "a", "url": "http://h/", "headers": headers});
        let env = json!([{"name": "E", "value": "f"}]);
        let stdio = json!({"name": "b", "command": "c", "args": ["d"], "env": env});
        let able = json!({"http": true});
        assert_eq!(offered(&servers, &able, &out), [http, stdio.clone()]);
        assert_eq!(offered(&servers, &json!(null), &out), [stdio]);
    }
}
