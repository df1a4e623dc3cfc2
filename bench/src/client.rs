//! HTTP/1.1 on a plain socket: a client library would be part of the measurement.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::server::{KEY, Server};

/// A connection that is kept for the next request.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Connection {
    pub(crate) fn open(address: &str, server: &Server) -> Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let head =
            format!("Host: {address}\r\nX-API-Key: {KEY}\r\nX-Access-Token: {}\r\n", server.token);
        Ok(Connection { stream: BufReader::with_capacity(256 << 10, stream), head })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) fn post(&mut self, path: &str, kind: &str, body: &[u8]) -> Result<Vec<u8>> {
        self.send(path, kind, "", body)?;
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
        self.send("/commands", "application/json", "", body)?;
        self.read_head()?;
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
        self.send(path, "application/json", &format!("Accept: {accept}\r\n"), body)?;
        self.read_head()?;
        loop {
            let mut line = String::new();
            ensure!(self.stream.read_line(&mut line)? > 0, "the answer broke off");
            if line == "0\r\n" {
                self.stream.read_line(&mut line)?;
                return Ok(());
            }
            if line.starts_with('{') && enough(&line) {
                return Ok(());
            }
        }
    }

    /// Sends a request and counts the bytes until the server closes.
    pub(crate) fn count(mut self, path: &str, headers: &str, body: &[u8]) -> Result<u64> {
        let headers = format!("{headers}Connection: close\r\n");
        self.send(path, "application/connect+json", &headers, body)?;
        self.read_head()?;
        let mut buffer = vec![0; 256 << 10];
        let mut total = 0;
        loop {
            match self.stream.read(&mut buffer)? {
                0 => return Ok(total),
                count => total += count as u64,
            }
        }
    }

    fn send(&mut self, path: &str, kind: &str, headers: &str, body: &[u8]) -> Result<()> {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\n{}{headers}Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            self.head,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)?;
        Ok(())
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
