//! A client of a running server, for the commands that are callers like any other.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::BytesMut;
use clap::Args;
use reqwest::{Method, RequestBuilder, Response, header};
use serde::de::DeserializeOwned;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an answer that is an error; the rest of it is not shown.
const COMPLAINT: usize = 4 << 10;

/// Which server, and whose key.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArguments {
    /// Address of the server [env: MAYFLY_URL] [default: http://127.0.0.1:3000]
    ///
    /// The key comes from MAYFLY_API_KEY or E2B_API_KEY.
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) url: Option<String>,
}

/// The server that was asked for.
pub(crate) struct Server {
    client: reqwest::Client,
    url: String,
    key: Option<String>,
}

impl Server {
    pub(crate) fn new(arguments: &ServerArguments) -> anyhow::Result<Server> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url = arguments.url.clone().or_else(|| variable("MAYFLY_URL"));
        let url = url.unwrap_or_else(|| "http://127.0.0.1:3000".to_owned());
        let client = reqwest::Client::builder().connect_timeout(CONNECT).build()?;
        let key = variable("MAYFLY_API_KEY").or_else(|| variable("E2B_API_KEY"));
        Ok(Server { client, url: url.trim_end_matches('/').to_owned(), key })
    }

    /// A request to be filled in.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.key {
            Some(key) => request.header("x-api-key", key),
            None => request,
        }
    }

    /// Sends it. An answer that is no success becomes an error with what it says.
    pub(crate) async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let answer = request.send().await;
        let answer = answer.with_context(|| {
            format!("no server answers at {}; start one with `mayfly serve`", self.url)
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        if status == reqwest::StatusCode::UNAUTHORIZED {
            bail!("the server does not take this key; set MAYFLY_API_KEY to one it knows");
        }
        bail!("the server refused ({status}): {}", complaint(answer).await);
    }

    /// Gets JSON.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let request = self.request(Method::GET, path).header(header::ACCEPT, "application/json");
        let answer = self.send(request).await?.bytes().await?;
        serde_json::from_slice(&answer).context("the server's answer is not what it should be")
    }
}

/// What an answer says is wrong: the message of our faults, or its first bytes.
async fn complaint(mut answer: Response) -> String {
    let mut text = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await
        && text.len() < COMPLAINT
    {
        text.extend_from_slice(&chunk);
    }
    let message = serde_json::from_slice::<serde_json::Value>(&text).ok();
    let message = message.and_then(|fault| Some(fault.get("message")?.as_str()?.to_owned()));
    message.unwrap_or_else(|| String::from_utf8_lossy(&text).trim().to_owned())
}

/// Cuts a stream of NDJSON into lines.
pub(crate) struct Lines {
    answer: Response,
    waiting: BytesMut,
    /// Bytes of it that are known to have no line's end.
    searched: usize,
}

impl Lines {
    pub(crate) fn new(answer: Response) -> Lines {
        Lines { answer, waiting: BytesMut::new(), searched: 0 }
    }

    /// The next line with its end; `None` when the stream is over.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<BytesMut>> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.waiting[self.searched..]) {
                let line = self.waiting.split_to(self.searched + at + 1);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.waiting.len();
            match self.answer.chunk().await.context("the stream broke")? {
                Some(chunk) => self.waiting.extend_from_slice(&chunk),
                None if self.waiting.is_empty() => return Ok(None),
                None => bail!("the stream ended in the middle of a line"),
            }
        }
    }
}
