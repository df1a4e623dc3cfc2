//! How Claude Code is told of MCP servers: by a file that only its user reads.
//!
//! A bearer is in it. Arguments are shown to everybody, and the environment to
//! every command of the model's, whose output is in the log. The file is gone
//! with the turn.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::harness::job::Server;

/// The file; removed when dropped.
#[derive(Debug)]
pub(super) struct ServersFile(PathBuf);

impl ServersFile {
    /// Writes the file; none if there are no servers.
    pub(super) fn write(home: &Path, servers: &[Server]) -> io::Result<Option<ServersFile>> {
        if servers.is_empty() {
            return Ok(None);
        }
        let folder = home.join(".mayfly");
        fs::create_dir_all(&folder)?;
        let path = folder.join("mcp.json");
        // What lies there is not ours, and would have a mode of its own.
        let _ = fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let written = ServersFile(path);
        file.write_all(config(servers).to_string().as_bytes())?;
        Ok(Some(written))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ServersFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn config(servers: &[Server]) -> Value {
    let named = servers.iter().map(|server| {
        let config = match server {
            Server::Http { url, bearer: None, .. } => json!({"type": "http", "url": url}),
            Server::Http { url, bearer: Some(bearer), .. } => {
                let headers = json!({"Authorization": format!("Bearer {}", bearer.expose())});
                json!({"type": "http", "url": url, "headers": headers})
            }
            Server::Stdio { command, args, env, .. } => {
                json!({"type": "stdio", "command": command, "args": args, "env": env})
            }
        };
        (server.name().to_owned(), config)
    });
    json!({"mcpServers": named.collect::<Map<String, Value>>()})
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use serde_json::json;
    use wire::Secret;

    use super::ServersFile;
    use crate::emit::Emitter;
    use crate::harness::claude::command;
    use crate::harness::job::Job;
    use crate::session::Session;

    #[test]
    fn a_bearer_is_in_a_private_file_and_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = home.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        fs::create_dir(home.path().join(".mayfly")).unwrap();
        symlink(&elsewhere, home.path().join(".mayfly/mcp.json")).unwrap();
        let mut session = Session::for_test(home.path(), home.path());
        session.tools = vec![serde_json::from_value(json!({"name": "lookup"})).unwrap()];
        session.bridge.url = "http://127.0.0.1:1/tools".to_owned();
        session.bridge.bearer = Secret::new("hidden".to_owned());
        let out = Emitter::to(std::io::sink());
        let job = Job::new(&session, &out);
        let file = ServersFile::write(home.path(), &job.mcp_servers()).unwrap().unwrap();
        let command = command(&job, &session.config.model, Some(&file));
        let shown = format!("{:?}", command.as_std());
        assert!(shown.contains("mcp.json") && !shown.contains("hidden"), "{shown}");
        let environment: Vec<_> = command.as_std().get_envs().collect();
        assert!(!format!("{environment:?}").contains("hidden"));
        let path = file.path().to_owned();
        assert!(fs::read_to_string(&path).unwrap().contains("Bearer hidden"));
        assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "kept");
        drop(file);
        assert!(!path.exists());
        assert!(ServersFile::write(home.path(), &[]).unwrap().is_none());
    }
}
