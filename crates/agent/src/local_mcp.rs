//! Our own tools for a CLI: an MCP server on loopback, by streamable HTTP,
//! without sessions and with plain JSON answers, as long as the CLI runs.
//!
//! Whoever asks is inside the sandbox with us: messages are bounded, and the
//! bearer keeps out what is not the CLI's. The CLI shows its calls as steps of its
//! own; what is told here is only what happens within them.

use std::future::Future;
use std::io;
use std::time::Duration;

use ::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use wire::Secret;
use wire::rpc::{self, Message, RpcError};

use crate::code_mode::{self, Interpreter, Language};
use crate::session::Session;
use crate::tools::{Returned, ToolError};

/// The name under which CLIs know this server.
pub(crate) const NAME: &str = "code";

/// Largest message; programs travel in it.
const MESSAGE_BYTES: usize = 1 << 20;
/// Connections at a time; the next ones wait.
const CONNECTIONS: usize = 32;
/// How long a message may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much earlier than a CLI a program gives up, so that the CLI is told.
const AHEAD: Duration = Duration::from_secs(2);

type Body = Full<Bytes>;

/// A server that has an address, and answers while somebody lets it.
pub(crate) struct LocalServer {
    listener: TcpListener,
    pub(crate) url: String,
    pub(crate) bearer: Secret<String>,
}

impl LocalServer {
    /// A server with an address and a bearer of its own.
    pub(crate) async fn open() -> io::Result<LocalServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let bearer: [u8; 24] = rand::random();
        Ok(LocalServer { listener, url, bearer: Secret::new(wire::hex(&bearer)) })
    }

    /// Answers until the work is done. What is under way then is dropped.
    pub(crate) async fn serve_during<T>(
        &self,
        interpreter: Interpreter<'_>,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(()) = connections.next() => {}
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => {
                    // A connection that was lost on its way is nobody's.
                    if let Ok((stream, _)) = accepted {
                        connections.push(self.converse(stream, interpreter));
                    }
                }
            }
        }
    }

    async fn converse(&self, stream: TcpStream, interpreter: Interpreter<'_>) {
        let service = service_fn(|request| self.answer(request, interpreter));
        let mut connection = http1::Builder::new();
        connection.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        // Who hangs up does not want to know.
        let _ = connection.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        interpreter: Interpreter<'_>,
    ) -> Result<Response<Body>, ::http::Error> {
        if !self.knows(request.headers()) {
            return plain(StatusCode::UNAUTHORIZED);
        }
        if request.method() != Method::POST {
            // There is no stream to listen to, and no session to end.
            return plain(StatusCode::METHOD_NOT_ALLOWED);
        }
        let body = Limited::new(request.into_body(), MESSAGE_BYTES).collect();
        let body = match timeout(PATIENCE, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return plain(StatusCode::PAYLOAD_TOO_LARGE),
            Err(_) => return plain(StatusCode::REQUEST_TIMEOUT),
        };
        let (id, method, params) = match rpc::parse(&body) {
            Ok(Message::Request { id, method, params }) => (id, method, params),
            Ok(Message::Notice) => return plain(StatusCode::ACCEPTED),
            Err((id, err)) => return with_json(StatusCode::BAD_REQUEST, &err.answer(&id)),
        };
        let answered = match method.as_str() {
            "initialize" => Ok(rpc::initialized(&params, NAME, env!("CARGO_PKG_VERSION"))),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(listed(interpreter.session)),
            "tools/call" => call(interpreter, &params).await,
            _ => Err(RpcError::no_method(&method)),
        };
        let answer = match answered {
            Ok(result) => rpc::answer(&id, result),
            Err(err) => err.answer(&id),
        };
        with_json(StatusCode::OK, &answer)
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let given = given.and_then(|value| value.split_at_checked(b"Bearer ".len()));
        let Some((scheme, token)) = given else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && bool::from(self.bearer.expose().as_bytes().ct_eq(token))
    }
}

fn listed(session: &Session) -> Value {
    let tools = Language::ALL.map(|language| {
        let spec = code_mode::spec(session, language);
        json!({"name": spec.name, "description": spec.description, "inputSchema": spec.schema})
    });
    json!({"tools": tools})
}

async fn call(interpreter: Interpreter<'_>, params: &Value) -> Result<Value, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    let language = Language::ALL.into_iter().find(|language| language.tool() == name);
    let Some(language) = language else {
        return Err(RpcError::wrong(format!("there is no tool `{}`", name.escape_debug())));
    };
    let Some(code) = params["arguments"][language.field()].as_str() else {
        return Err(RpcError::wrong(format!("`{}` is not a string", language.field())));
    };
    let limit = Duration::from_millis(interpreter.session.limits.tool_timeout_ms);
    let limit = limit.saturating_sub(AHEAD).max(limit / 2);
    let (value, failed) = match interpreter.run(language, code, limit).await {
        Ok(Returned { value, .. }) => (value, false),
        Err(ToolError { message, result }) => (result.unwrap_or_else(|| json!(message)), true),
    };
    let content = json!([{"type": "text", "text": value.to_string()}]);
    Ok(json!({"content": content, "structuredContent": value, "isError": failed}))
}

fn plain(status: StatusCode) -> Result<Response<Body>, ::http::Error> {
    Response::builder().status(status).body(Body::default())
}

fn with_json(status: StatusCode, body: &Value) -> Result<Response<Body>, ::http::Error> {
    let answer = Response::builder().status(status);
    let answer = answer.header(header::CONTENT_TYPE, "application/json");
    answer.body(Body::from(body.to_string()))
}

#[cfg(test)]
mod tests;
