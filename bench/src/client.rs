//! HTTP/1.1 on a plain socket: a client library would be part of the measurement.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::server::{KEY, Server};

/// The type of most bodies, as a header.
pub(crate) const JSON: &str = "Content-Type: application/json\r\n";

/// Largest body that is sent in one piece with its head.
const SMALL: usize = 64 << 10;

/// A connection that is kept for the next request.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
}

/// What is asked for. Each of `headers` ends its line.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a str,
    pub(crate) body: &'a [u8],
}

impl Connection {
    pub(crate) fn open(address: &str, server: &Server) -> Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let head =
            format!("Host: {address}\r\nX-API-Key: {KEY}\r\nX-Access-Token: {}\r\n", server.token);
        Ok(Connection { stream: BufReader::with_capacity(256 << 10, stream), head })
    }

    /// Sends a body and reads the whole answer.
    pub(crate) fn post(&mut self, path: &str, kind: &str, body: &[u8]) -> Result<Vec<u8>> {
        let headers = format!("Content-Type: {kind}\r\n");
        self.ask(&Request { method: "POST", path, headers: &headers, body })
    }

    /// The same in JSON.
    pub(crate) fn post_json(&mut self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.post(path, "application/json", body.to_string().as_bytes())?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Sends a request and reads the whole answer.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Result<Vec<u8>> {
        self.send(request)?;
        let head = self.read_head()?;
        if let Some(length) = head.length {
            let mut answer = vec![0; length];
            self.stream.read_exact(&mut answer)?;
            return Ok(answer);
        }
        let mut answer = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).context("chunk size")?;
            let start = answer.len();
            answer.resize(start + size, 0);
            self.stream.read_exact(&mut answer[start..])?;
            self.stream.read_line(&mut String::new())?;
            if size == 0 {
                return Ok(answer);
            }
        }
    }

    /// Runs a command by `/commands` and measures until its first output.
    pub(crate) fn first_output(&mut self, body: &[u8]) -> Result<Duration> {
        let began = Instant::now();
        self.begin(&Request { method: "POST", path: "/commands", headers: JSON, body })?;
        let mut first = None;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            if line.contains("\"stdout\"") && first.is_none() {
                first = Some(began.elapsed());
            }
            // The last chunk, and the empty line behind it.
            if line == "0\r\n" {
                self.stream.read_line(&mut line)?;
                return first.context("the command wrote nothing");
            }
        }
    }

    /// Sends a request whose answer is NDJSON, and shows every line of it.
    pub(crate) fn lines(
        &mut self,
        path: &str,
        accept: &str,
        body: &[u8],
        mut each: impl FnMut(&str),
    ) -> Result<()> {
        self.lines_until(path, accept, body, |line| {
            each(line);
            false
        })
    }

    /// The same until `enough` says so. The connection is of no use then.
    pub(crate) fn lines_until(
        &mut self,
        path: &str,
        accept: &str,
        body: &[u8],
        mut enough: impl FnMut(&str) -> bool,
    ) -> Result<()> {
        let headers = format!("{JSON}Accept: {accept}\r\n");
        self.begin(&Request { method: "POST", path, headers: &headers, body })?;
        self.read_lines(|line| line.starts_with('{') && enough(line))
    }

    /// Sends a request whose answer is server-sent events, and shows the name
    /// and the data of each.
    pub(crate) fn events(
        &mut self,
        path: &str,
        body: &[u8],
        mut each: impl FnMut(&str, &str),
    ) -> Result<()> {
        let headers = format!("{JSON}Accept: text/event-stream\r\n");
        self.begin(&Request { method: "POST", path, headers: &headers, body })?;
        let mut name = String::new();
        self.read_lines(|line| {
            if let Some(value) = line.strip_prefix("event: ") {
                value.trim_end().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                each(&name, data.trim_end());
            }
            false
        })
    }

    /// Sends a request and reads no more than the head of its answer.
    pub(crate) fn begin(&mut self, request: &Request<'_>) -> Result<()> {
        self.send(request)?;
        self.read_head().map(drop)
    }

    /// Shows the lines of a body until `enough` says so. Ours put whole lines
    /// into each chunk, so the sizes in between are lines of their own.
    fn read_lines(&mut self, mut enough: impl FnMut(&str) -> bool) -> Result<()> {
        loop {
            let mut line = String::new();
            ensure!(self.stream.read_line(&mut line)? > 0, "the answer broke off");
            if line == "0\r\n" {
                self.stream.read_line(&mut line)?;
                return Ok(());
            }
            if enough(&line) {
                return Ok(());
            }
        }
    }

    /// Sends a request and counts the bytes until the server closes.
    pub(crate) fn count(mut self, request: &Request<'_>) -> Result<u64> {
        let headers = format!("{}Connection: close\r\n", request.headers);
        self.begin(&Request { headers: &headers, ..*request })?;
        let mut buffer = vec![0; 256 << 10];
        let mut total = 0;
        loop {
            match self.stream.read(&mut buffer)? {
                0 => return Ok(total),
                count => total += count as u64,
            }
        }
    }

    fn send(&mut self, request: &Request<'_>) -> Result<()> {
        let Request { method, path, headers, body } = request;
        let (own, length) = (&self.head, body.len());
        let mut head = format!("{method} {path} HTTP/1.1\r\n{own}{headers}").into_bytes();
        write!(head, "Content-Length: {length}\r\n\r\n")?;
        let stream = self.stream.get_mut();
        // A small body leaves with its head; to copy a large one would count.
        if length <= SMALL {
            head.extend_from_slice(body);
            return Ok(stream.write_all(&head)?);
        }
        stream.write_all(&head)?;
        Ok(stream.write_all(body)?)
    }

    fn read_head(&mut self) -> Result<Head> {
        let mut head = Head { length: None };
        let mut status = String::new();
        self.stream.read_line(&mut status)?;
        if !status.starts_with("HTTP/1.1 2") {
            bail!("the server answered {}", status.trim());
        }
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                return Ok(head);
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                head.length = Some(length.trim().parse()?);
            }
        }
    }
}

struct Head {
    length: Option<usize>,
}
