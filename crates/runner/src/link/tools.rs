//! The caller's tools for the agent inside: an MCP server by streamable HTTP,
//! without sessions and with plain JSON answers.
//!
//! ```text
//! POST /tools ── bearer ── rpc ──┬── initialize, ping, tools/list
//!                                └── tools/call ── call ──┬── http ──► the tool's server
//!                                                         └── the client's, after the run
//! ```
//!
//! Whoever asks is inside a sandbox: messages are bounded and read strictly,
//! and the bearer, which is good for this run alone, is compared in constant
//! time. Every call is a step of the run, booked by the host and by nobody else.

mod call;
mod given;
mod http;
mod lines;
mod weight;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use sandbox::{Body, empty_body, full_body};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use wire::{
    Secret,
    agent::HostTool,
    rpc::{self, Message, RpcError},
    run::{Outcome, StepId},
};

use super::{
    body::{Allowance, Cut, Guarded, Pulse},
    forward::cut_within,
    refusal::Refusal,
    upstreams::{Note, Upstreams},
};

use weight::Weight;

pub(super) use given::{Tool, take};

/// Largest message from inside. Arguments travel in it.
const MESSAGE: u64 = 4 << 20;
/// A longer one has its place before it is read, since it takes far more memory
/// then: what waits is bytes.
const SMALL: usize = 16 << 10;
/// Longest silence of a program that sends a message.
const SILENCE: Duration = Duration::from_secs(60);
/// Calls of one run at a time; the next one waits. Each holds a place in the
/// channel of notes, so there have to be fewer than that has.
const CALLS: usize = 16;
/// What the ids of their steps begin with.
const STEP: &str = "step_tool_";
/// Our own agent asks by it for the outcome as it is in the log, and finds it
/// under it.
const OUTCOME: &str = "mayfly/outcome";
/// By this it says how many lines it had written when it called.
const LINE: &str = "mayfly/line";

/// The tools of one run, beside those that its config names.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) bearer: Secret<String>,
    pub(super) given: Vec<Tool>,
    places: Arc<Semaphore>,
    /// The number of the last call.
    calls: AtomicU64,
}

impl Bridge {
    /// One without tools, with a bearer that nobody knows yet.
    pub(super) fn new() -> Bridge {
        let bearer: [u8; 24] = rand::random();
        Bridge::with(Secret::new(wire::hex(&bearer)), Vec::new())
    }

    pub(super) fn with(bearer: Secret<String>, given: Vec<Tool>) -> Bridge {
        let places = Arc::new(Semaphore::new(CALLS));
        Bridge { bearer, given, places, calls: AtomicU64::new(0) }
    }

    /// Goes on counting after the calls that a former server booked.
    pub(super) fn count_after(&self, calls: u64) {
        self.calls.fetch_max(calls, Ordering::Relaxed);
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let given = given.and_then(|value| value.split_at_checked(b"Bearer ".len()));
        let Some((scheme, token)) = given else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && bool::from(self.bearer.expose().as_bytes().ct_eq(token))
    }

    /// A place for one more call.
    async fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.places).acquire_owned().await.map_err(|_| Refusal::Ending)
    }

    fn next_step(&self) -> Option<StepId> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        StepId::parse(&format!("{STEP}{number}")).ok()
    }
}

/// The number of a call, if the step is one.
pub(crate) fn call_number(step: &StepId) -> Option<u64> {
    step.as_str().strip_prefix(STEP)?.parse().ok()
}

impl Upstreams {
    /// Answers a message to the bridge.
    pub(super) async fn serve_tools(
        &self,
        request: Request<Incoming>,
        notes: mpsc::Sender<Note>,
    ) -> Result<Response<Body>, Refusal> {
        if !self.bridge.knows(request.headers()) {
            return Err(Refusal::Bearer);
        }
        if request.method() != Method::POST {
            // There is no stream to listen to, and no session to end.
            return Err(Refusal::Method("POST"));
        }
        let allowance = Allowance { bytes: MESSAGE, silence: SILENCE };
        let body = Guarded::new(request.into_body(), allowance, Pulse::default());
        let body = body.collect().await.map_err(|err| match cut_within(&*err) {
            Some(Cut::TooLarge { limit }) => Refusal::RequestTooLarge { limit },
            Some(Cut::Silent { after }) => Refusal::Late { from: "agent", after },
            None => Refusal::Broken { from: "agent" },
        })?;
        let body = body.to_bytes();
        if Weight::of(&body).bytes > weight::MESSAGE {
            let err = RpcError::wrong("the message holds too many values");
            return Ok(json_response(StatusCode::BAD_REQUEST, err.answer(&Value::Null)));
        }
        let place = if body.len() > SMALL { Some(self.bridge.place().await?) } else { None };
        let message = rpc::parse(&body);
        drop(body);
        let (id, method, params) = match message {
            Ok(Message::Request { id, method, params }) => (id, method, params),
            Ok(Message::Notice) => {
                let mut response = Response::new(empty_body());
                *response.status_mut() = StatusCode::ACCEPTED;
                return Ok(response);
            }
            Err((id, err)) => return Ok(json_response(StatusCode::BAD_REQUEST, err.answer(&id))),
        };
        let answered = match method.as_str() {
            "initialize" => Ok(rpc::initialized(&params, "mayfly", env!("CARGO_PKG_VERSION"))),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.listed()),
            "tools/call" => self.call(params, place, notes).await?,
            _ => Err(RpcError::no_method(&method)),
        };
        let answer = match answered {
            Ok(result) => rpc::answer(&id, result),
            Err(err) => err.answer(&id),
        };
        Ok(json_response(StatusCode::OK, answer))
    }

    /// All tools. One that the dispatch gives hides the config's of that name.
    fn listed(&self) -> Value {
        let known = self.addresses();
        let configured = known.as_ref().map_or(&[][..], |known| &known.tools);
        let hidden =
            |tool: &&Tool| !self.bridge.given.iter().any(|given| given.name() == tool.name());
        let tools = self.bridge.given.iter().chain(configured.iter().filter(hidden));
        let shown = tools.map(|Tool { tool, .. }| {
            json!({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters})
        });
        json!({"tools": shown.collect::<Vec<Value>>()})
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        let named = |tool: &&Tool| tool.name() == name;
        let given = self.bridge.given.iter().find(named).cloned();
        given.or_else(|| self.addresses()?.tools.iter().find(named).cloned())
    }

    async fn call(
        &self,
        mut params: Value,
        place: Option<OwnedSemaphorePermit>,
        notes: mpsc::Sender<Note>,
    ) -> Result<Result<Value, RpcError>, Refusal> {
        let Some(name) = params["name"].as_str() else {
            return Ok(Err(RpcError::wrong("`name` is missing")));
        };
        let Some(tool) = self.tool(name) else {
            let name: String = name.escape_debug().take(64).collect();
            return Ok(Err(RpcError::wrong(format!("there is no tool `{name}`"))));
        };
        let arguments = match params.get_mut("arguments").map(Value::take) {
            None | Some(Value::Null) => json!({}),
            Some(arguments @ Value::Object(_)) => arguments,
            Some(_) => return Ok(Err(RpcError::wrong("`arguments` is not an object"))),
        };
        let line = params["_meta"][LINE].as_u64();
        let place = match place {
            Some(place) => place,
            None => self.bridge.place().await?,
        };
        let outcome = call::run(self, &tool, arguments, line, notes).await?;
        drop(place);
        let plain = !params["_meta"][OUTCOME].is_null();
        Ok(Ok(if plain { as_it_is(&outcome) } else { told(&outcome) }))
    }
}

/// What any MCP client reads: one text.
fn told(outcome: &Outcome) -> Value {
    let (text, failed) = match outcome {
        Outcome::Succeeded { result: Value::String(text), .. } => (text.clone(), false),
        Outcome::Succeeded { result, .. } => (result.to_string(), false),
        Outcome::Failed { error, .. } => (format!("Tool execution failed: {error}"), true),
        Outcome::Deferred => (HostTool::DEFERRED.to_owned(), false),
    };
    json!({"content": [{"type": "text", "text": text}], "isError": failed})
}

/// What our own agent reads: a text is no number, and a deferred call no result.
fn as_it_is(outcome: &Outcome) -> Value {
    let failed = matches!(outcome, Outcome::Failed { .. });
    json!({"content": [], "isError": failed, "_meta": {OUTCOME: outcome}})
}

fn json_response(status: StatusCode, body: Value) -> Response<Body> {
    let mut response = Response::new(full_body(body.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use ::http::HeaderMap;
    use wire::{Secret, run::StepId};

    use super::{Bridge, call_number};

    #[test]
    fn only_the_whole_bearer_is_known() {
        let bridge = Bridge::with(Secret::new("abc".to_owned()), Vec::new());
        let check = |value: Option<&str>, expected: bool| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert("authorization", value.parse().unwrap());
            }
            assert_eq!(bridge.knows(&headers), expected, "{value:?}");
        };
        check(Some("Bearer abc"), true);
        check(Some("bearer abc"), true);
        for wrong in ["Bearer ab", "Bearer abcd", "Bearer ", "Bearer", "abc", "Basic abc", ""] {
            check(Some(wrong), false);
        }
        check(None, false);
        assert_ne!(Bridge::new().bearer.expose(), Bridge::new().bearer.expose());
        assert_eq!(Bridge::new().bearer.expose().len(), 48);
    }

    #[test]
    fn calls_are_counted_on_after_those_of_a_former_server() {
        let bridge = Bridge::new();
        bridge.count_after(7);
        assert_eq!(bridge.next_step(), StepId::parse("step_tool_8").ok());
        let number = |id: &str| call_number(&StepId::parse(id).unwrap());
        assert_eq!(number("step_tool_8"), Some(8));
        assert_eq!(number("step_toolu_8"), None);
        assert_eq!(number("step_tool_x"), None);
        assert_eq!(number("step_8"), None);
    }
}
