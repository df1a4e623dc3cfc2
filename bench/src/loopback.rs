//! Servers of our own on loopback, for what is usually far away: models, and
//! whoever is dispatched to.

use std::{
    io::{BufRead, BufReader, Read},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};

use anyhow::{Result, ensure};

/// A request that came.
pub(crate) struct Asked {
    /// `POST /stream HTTP/1.1`
    pub(crate) line: String,
    pub(crate) body: Vec<u8>,
    /// When its head was complete.
    pub(crate) at: Instant,
}

/// Answers every request by `answer`, which writes all of the answer itself, until
/// the program ends. Gives the server's address.
pub(crate) fn serve(
    answer: impl Fn(Asked, &mut TcpStream) -> Result<()> + Send + Sync + 'static,
) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let answer = Arc::clone(&answer);
            thread::spawn(move || converse(stream, &*answer));
        }
    });
    Ok(url)
}

fn converse(
    stream: TcpStream,
    answer: &impl Fn(Asked, &mut TcpStream) -> Result<()>,
) -> Result<()> {
    // Small pieces are sent as they are written.
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let asked = read(&mut stream)?;
        answer(asked, stream.get_mut())?;
    }
}

fn read(stream: &mut BufReader<TcpStream>) -> Result<Asked> {
    let mut first = String::new();
    ensure!(stream.read_line(&mut first)? > 0, "closed");
    let mut length = 0;
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line)? > 0, "closed");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let at = Instant::now();
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Asked { line: first.trim().to_owned(), body, at })
}
