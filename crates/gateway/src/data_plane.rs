//! Traffic for a sandbox, before any route of ours: who is meant, may they,
//! and the way to envd, byte for byte.

mod target;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, Method, StatusCode, Version, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use http_kit::Fault;
use hyper::body::Incoming;
use sandbox::Sandbox;
use serde_json::json;
use tokio_util::sync::WaitForCancellationFutureOwned;
use wire::{Code, ConnectError};

use self::target::{ENVD_PORT, Target};
use crate::Gateway;

const ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-access-token");

/// Headers that speak of one connection and not of the message.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Middleware: takes requests that name a sandbox, passes the others on.
pub(crate) async fn divert(
    State(gateway): State<Gateway>,
    request: Request,
    next: Next,
) -> Response {
    match Target::of(request.uri(), request.headers()) {
        Ok(None) => next.run(request).await,
        Ok(Some(target)) => serve(&gateway, target, request).await,
        Err(fault) => fault.into_response(),
    }
}

async fn serve(gateway: &Gateway, target: Target, request: Request) -> Response {
    let sandbox = target.id().and_then(|id| gateway.sandboxes.get(&id));
    let Some(sandbox) = sandbox else { return target.not_found() };
    // A client asks for its sandbox's health after a stream broke, to learn why.
    let is_health = request.uri().path() == "/health" && request.method() == Method::GET;
    if !is_health && !may_enter(gateway, &sandbox, request.headers()) {
        let message = "missing or wrong access token: send it as `X-Access-Token`";
        return Fault::new(Code::Unauthenticated, message).into_response();
    }
    if target.port != ENVD_PORT {
        let message = format!("port {} is not served in this version of Mayfly", target.port);
        return Fault::new(Code::Unimplemented, message).into_response();
    }
    match Door::of(request.uri().path()) {
        Door::Open => pass_on(&target, &sandbox, request).await,
        Door::NotYet => not_yet(request.uri().path()),
        Door::Closed => Fault::new(Code::NotFound, "there is no such route").into_response(),
    }
}

fn may_enter(gateway: &Gateway, sandbox: &Sandbox, headers: &HeaderMap) -> bool {
    headers
        .get(ACCESS_TOKEN)
        .and_then(|token| token.to_str().ok())
        .is_some_and(|token| gateway.tokens.accepts(sandbox.id(), token))
}

/// Which of envd's routes the outside may reach. A list of what is open, so
/// that its private ones (`/init`, `/control`) need no list of what is not.
enum Door {
    Open,
    NotYet,
    Closed,
}

impl Door {
    fn of(path: &str) -> Door {
        match path {
            "/health" => Door::Open,
            "/files" | "/files/compose" | "/metrics" | "/envs" => Door::NotYet,
            rpc if rpc.starts_with("/process.Process/") => Door::Open,
            rpc if rpc.starts_with("/filesystem.Filesystem/") => Door::NotYet,
            _ => Door::Closed,
        }
    }
}

fn not_yet(path: &str) -> Response {
    let message = format!("{path} is not in this version of Mayfly");
    if !path.starts_with("/filesystem.Filesystem/") {
        return Fault::new(Code::Unimplemented, message).into_response();
    }
    let body = ConnectError::new(Code::Unimplemented, message).to_json();
    (StatusCode::NOT_IMPLEMENTED, [(header::CONTENT_TYPE, "application/json")], body)
        .into_response()
}

async fn pass_on(target: &Target, sandbox: &Arc<Sandbox>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    strip(&mut parts.headers);
    parts.headers.remove(ACCESS_TOKEN);
    // What the host alone may ask of envd.
    parts.headers.remove("mayfly-hold");
    parts.version = Version::HTTP_11;
    let body = body.map_err(Into::into).boxed_unsync();
    let sent = sandbox.envd().send(http::Request::from_parts(parts, body));
    let answer = tokio_util::future::FutureExt::with_cancellation_token(sent, sandbox.gone());
    let response = match answer.await {
        Some(Ok(response)) => response,
        Some(Err(_)) if !sandbox.gone().is_cancelled() => return target.port_closed(),
        Some(Err(_)) | None => return target.not_found(),
    };
    let (mut parts, body) = response.into_parts();
    strip(&mut parts.headers);
    Response::from_parts(parts, Body::new(Tether::new(body, sandbox)))
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// A body out of a sandbox that breaks off when the sandbox ends. The SDKs
/// take a clean end for a protocol error and a broken one for what it is.
struct Tether {
    body: Incoming,
    gone: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Debug)]
struct SandboxEnded;

impl std::fmt::Display for SandboxEnded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the sandbox ended")
    }
}

impl std::error::Error for SandboxEnded {}

impl Tether {
    fn new(body: Incoming, sandbox: &Sandbox) -> Tether {
        Tether { body, gone: Box::pin(sandbox.gone().clone().cancelled_owned()) }
    }
}

impl http_body::Body for Tether {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.gone.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(Box::new(SandboxEnded))));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl Target {
    /// Unknown, ended: one answer, whose words the SDKs look for.
    fn not_found(&self) -> Response {
        self.unreachable("The sandbox was not found", json!({}))
    }

    fn port_closed(&self) -> Response {
        let extra = json!({"port": self.port});
        self.unreachable("The sandbox is running but port is not open", extra)
    }

    fn unreachable(&self, message: &str, extra: serde_json::Value) -> Response {
        let mut body = json!({"sandboxId": self.name, "message": message, "code": 502});
        if let (Some(body), serde_json::Value::Object(extra)) = (body.as_object_mut(), extra) {
            body.extend(extra);
        }
        (StatusCode::BAD_GATEWAY, Json(body)).into_response()
    }
}
