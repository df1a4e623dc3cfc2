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
    /// Starts a server of that tier, with a sandbox in it. Sandboxes have no
    /// network unless the options say so: what it costs is measured apart.
    pub(crate) fn start(tier: &str, options: &[&str]) -> Result<Server> {
        let program = std::env::current_exe()?.with_file_name("mayfly");
        let data = tempfile::tempdir()?;
        let mut child = Command::new(&program)
            .args(["serve", "--listen", "127.0.0.1:0", "--tier", tier, "--data"])
            .arg(data.path())
            .args(options)
            .env("MAYFLY_NETWORK", "none")
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
        (server.sandbox_id, server.token) = server.create()?;
        Ok(server)
    }

    /// Makes a sandbox and gives its id and token.
    pub(crate) fn create(&self) -> Result<(String, String)> {
        let body = json!({"templateID": "base", "timeout": 3600}).to_string();
        let answer = self.connect()?.post("/v2/sandboxes", "application/json", body.as_bytes())?;
        let created: Value = serde_json::from_slice(&answer)?;
        let field = |name: &str| created[name].as_str().map(str::to_owned);
        let (Some(id), Some(token)) = (field("sandboxID"), field("envdAccessToken")) else {
            bail!("no sandbox: {created}");
        };
        Ok((id, token))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> Result<Connection> {
        Connection::open(&self.address, self)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ctrl-C takes its sandboxes down; std can only send SIGKILL.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}
