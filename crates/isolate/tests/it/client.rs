//! A few requests to envd, written by hand: HTTP/1.0, so that an answer ends
//! with its connection.

use isolate::Instance;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// Makes envd ready, as the server does first.
pub(crate) async fn init(instance: &dyn Instance) {
    let mut stream = instance.dial().await.unwrap();
    send(&mut stream, "/init", "application/json", b"{}").await;
    let answer = read(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.0 204"), "{answer}");
}

/// Runs a shell script as root and returns what envd said of it.
pub(crate) async fn run(instance: &dyn Instance, script: &str) -> String {
    let mut stream = start(instance, script).await;
    read(&mut stream).await
}

/// Starts a shell script as root.
pub(crate) async fn start(instance: &dyn Instance, script: &str) -> UnixStream {
    let script = script.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let message =
        format!(r#"{{"process":{{"cmd":"/bin/sh","args":["-c","{script}"],"cwd":"/"}}}}"#);
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message.as_bytes());
    let mut stream = instance.dial().await.unwrap();
    send(&mut stream, "/process.Process/Start", "application/connect+json", &body).await;
    stream
}

/// Whether the script of an answer ended well.
pub(crate) fn succeeded(answer: &str) -> bool {
    answer.contains("exit status 0")
}

async fn send(stream: &mut UnixStream, path: &str, kind: &str, body: &[u8]) {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: envd\r\nAuthorization: Basic cm9vdDo=\r\n\
         Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
}

pub(crate) async fn read(stream: &mut UnixStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads until the connection ends, however it does.
pub(crate) async fn read_some(stream: &mut UnixStream) {
    // A reset is as good an end as any.
    let _ = stream.read_to_end(&mut Vec::new()).await;
}
