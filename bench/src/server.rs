//! A server of our own for the run, and a sandbox in it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::client::Connection;

/// `e2b_` and forty hex digits, as every SDK wants a key.
pub(crate) const KEY: &str = "e2b_be9c40000000000000000000000000000000000b";

/// Running until dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) sandbox_id: String,
    pub(crate) token: String,
    _data: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Result<Server> {
        let program = std::env::current_exe()?.with_file_name("mayfly");
        let data = tempfile::tempdir()?;
        let mut child = Command::new(&program)
            .args(["serve", "--listen", "127.0.0.1:0", "--tier", "process", "--data"])
            .arg(data.path())
            .env("MAYFLY_API_KEY", KEY)
            .env("MAYFLY_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} is missing: cargo xtask build", program.display()))?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut address = None;
        let mut lines = BufReader::new(stdout).lines();
        for line in lines.by_ref() {
            if let Some((_, rest)) = line?.split_once("listening on http://") {
                address = Some(rest.trim().to_owned());
                break;
            }
        }
        // Somebody has to read on, or the server's banner meets a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.context("the server did not say where it listens")?;
        let mut server =
            Server { child, address, sandbox_id: String::new(), token: String::new(), _data: data };
        let body = json!({"templateID": "base", "timeout": 3600}).to_string();
        let answer =
            server.connect()?.post("/v2/sandboxes", "application/json", body.as_bytes())?;
        let created: Value = serde_json::from_slice(&answer)?;
        let (Some(id), Some(token)) =
            (created["sandboxID"].as_str(), created["envdAccessToken"].as_str())
        else {
            bail!("no sandbox: {created}");
        };
        (server.sandbox_id, server.token) = (id.to_owned(), token.to_owned());
        Ok(server)
    }

    pub(crate) fn connect(&self) -> Result<Connection> {
        Connection::open(&self.address, self)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM, so that it takes its sandbox down; std can only send SIGKILL.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
