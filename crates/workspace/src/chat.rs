//! `/api/assistant/chat/stream`: a turn is begun by POST and followed as
//! server-sent events, by the answer itself or by a signed address that a
//! browser's `EventSource` can open.
//!
//! A turn whose listeners are all gone is cancelled after a moment, all the way
//! down to its sandbox, unless it was begun with `onDisconnect: "continue"`.

use axum::{
    Json as Answer,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use store::{OnDisconnect, TurnRow};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::workspace::TurnId;

use crate::{
    body::{Json, Query},
    clock,
    member::Owner,
    problem::{Problem, ProblemBody},
    signature::Signed,
    state::Workspace,
    tokens::delta,
    turn::{Follower, NewTurn},
};

/// Longest message, in bytes: what a runner takes as a prompt.
const MESSAGE_LIMIT: usize = 1 << 20;
/// Most files with one message.
const ATTACHMENTS_LIMIT: usize = 100;
/// Longest name of a template.
const TEMPLATE_LIMIT: usize = 255;
const PATH: &str = "/api/assistant/chat/stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Proxies that would collect events before they pass them on are told not to.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Both methods of the one path.
pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new().routes(routes!(begin_turn, follow_turn))
}

/// A message to the Assistant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChatRequest {
    /// The conversation; without one a new one begins.
    conversation_id: Option<String>,
    /// What the user says, at most 1 MiB.
    message: String,
    /// Files of the conversation's bag that go with it.
    attachment_ids: Option<Vec<String>>,
    /// What it means when nobody listens any more; `cancel` unless said.
    on_disconnect: Option<WhenAlone>,
    /// What the sandbox starts from, if not the usual.
    template: Option<String>,
}

/// What it means when nobody listens to a turn any more.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum WhenAlone {
    /// It is cancelled.
    Cancel,
    /// It goes on, also past a restart of the server.
    Continue,
}

/// A turn that has begun.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnBegun {
    /// The turn.
    turn_id: String,
    /// Its conversation.
    conversation_id: String,
    /// The user's message.
    message_id: String,
    /// Where its events are, for an `EventSource`; good without a key.
    stream_url: String,
}

/// Begins a turn. With `Accept: text/event-stream` the answer is its events.
#[utoipa::path(
    post,
    path = "/api/assistant/chat/stream",
    tag = "assistant",
    request_body = ChatRequest,
    responses(
        (status = 200, description = "The turn's events", content_type = "text/event-stream"),
        (status = 202, description = "The turn, and where its events are", body = TurnBegun),
        (status = 400, description = "A field is wrong", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such conversation", body = ProblemBody),
        (status = 409, description = "Another turn of the conversation runs", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody),
    )
)]
async fn begin_turn(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    headers: HeaderMap,
    Json(request): Json<ChatRequest>,
) -> Result<Response, Problem> {
    let started = workspace.start_turn(&owner, new_turn(request)?).await?;
    if wants_events(&headers) {
        let row = workspace.store.turn(&owner, &started.turn).await?;
        let row = row.ok_or_else(|| Problem::not_found("turn", started.turn.as_str()))?;
        return Ok(events(Follower::new(workspace, row, 0)));
    }
    let begun = TurnBegun {
        stream_url: stream_url(&workspace, &owner, &started.turn),
        turn_id: started.turn.to_string(),
        conversation_id: started.chat.to_string(),
        message_id: started.message.to_string(),
    };
    Ok((StatusCode::ACCEPTED, Answer(begun)).into_response())
}

/// Which turn, behind which event, and by what right.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Following {
    /// The turn.
    turn: String,
    /// The number of the last event that was seen; `Last-Event-ID` goes before it.
    after: Option<u64>,
    /// Whose turn it is; part of a signed address.
    workspace: Option<String>,
    /// When a signed address stops being good, in Unix seconds.
    exp: Option<i64>,
    /// The signature of a signed address.
    sig: Option<String>,
}

/// Follows a turn, by its signed address or with an API key. One that has ended
/// is 204, unless the reader says how far it was and has not seen the end.
#[utoipa::path(
    get,
    path = "/api/assistant/chat/stream",
    tag = "assistant",
    params(
        Following,
        ("Last-Event-ID" = Option<u64>, Header, description = "The last event that was seen"),
    ),
    security(("signature" = []), ("api_key" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "The turn's events", content_type = "text/event-stream"),
        (status = 204, description = "The turn has ended, and there is nothing more"),
        (status = 400, description = "The query cannot be read", body = ProblemBody),
        (status = 401, description = "No API key and no signature", body = ProblemBody),
        (status = 403, description = "The address is not signed, or expired", body = ProblemBody),
        (status = 404, description = "There is no such turn", body = ProblemBody),
    )
)]
async fn follow_turn(
    State(workspace): State<Workspace>,
    headers: HeaderMap,
    Query(following): Query<Following>,
) -> Result<Response, Problem> {
    let row = allowed(&workspace, &headers, &following).await?;
    let seen = last_event(&headers)?.or(following.after);
    if row.ended_at.is_some() {
        let last = workspace.store.last_event(row.id.as_str()).await?;
        let heard = match (seen, last) {
            (Some(seen), Some((last, _))) => seen >= last,
            (None, _) | (_, None) => true,
        };
        if heard {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let mut response = events(Follower::new(workspace, row, seen.unwrap_or(0)));
    if following.sig.is_some() {
        // A page of any origin may read it: its right is the signature, and no
        // browser adds another to it.
        let anybody = HeaderValue::from_static("*");
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, anybody);
    }
    Ok(response)
}

/// The turn that is asked for, if the asker may hear it.
async fn allowed(
    workspace: &Workspace,
    headers: &HeaderMap,
    following: &Following,
) -> Result<TurnRow, Problem> {
    let unknown = || Problem::not_found("turn", &following.turn);
    let signed = match (&following.exp, &following.sig, &following.workspace) {
        (Some(exp), Some(sig), Some(owner)) => {
            Some((owner, Signed { exp: *exp, sig: sig.clone() }))
        }
        (_, _, _) => None,
    };
    let owner = match signed {
        Some((owner, signed)) => {
            workspace.check_signature(&subject(owner, &following.turn), &signed)?;
            owner.clone()
        }
        None => workspace.keys.team(headers).await?.0,
    };
    let turn = TurnId::parse(&following.turn).map_err(|_| unknown())?;
    workspace.store.turn(&owner, &turn).await?.ok_or_else(unknown)
}

/// Where a browser finds the events of a turn.
fn stream_url(workspace: &Workspace, owner: &str, turn: &TurnId) -> String {
    let expires_at = clock::now() + delta(workspace.settings.max_runtime);
    let query = workspace.keyring.sign(&subject(owner, turn.as_str()), expires_at);
    let owner = utf8_percent_encode(owner, NON_ALPHANUMERIC);
    let base = &workspace.settings.base_url;
    // From the beginning, also for one who comes when the turn has ended.
    format!("{base}{PATH}?turn={turn}&workspace={owner}&after=0&{query}")
}

/// What is signed: the path, whose turn it is, and which.
fn subject(owner: &str, turn: &str) -> String {
    format!("{PATH}\n{turn}\n{owner}")
}

fn new_turn(request: ChatRequest) -> Result<NewTurn, Problem> {
    let ChatRequest { conversation_id, message, attachment_ids, on_disconnect, template } = request;
    let attachments = attachment_ids.unwrap_or_default();
    if message.trim().is_empty() {
        return Err(Problem::bad_field("message", "message is empty"));
    }
    if message.len() > MESSAGE_LIMIT {
        let limit = format!("message is longer than {MESSAGE_LIMIT} bytes");
        return Err(Problem::bad_field("message", limit));
    }
    if attachments.len() > ATTACHMENTS_LIMIT {
        let limit = format!("a message has at most {ATTACHMENTS_LIMIT} files");
        return Err(Problem::bad_field("attachmentIds", limit));
    }
    let named = |name: &String| !name.trim().is_empty() && name.len() <= TEMPLATE_LIMIT;
    if !template.as_ref().is_none_or(named) {
        let limit = format!("template is 1 to {TEMPLATE_LIMIT} bytes long");
        return Err(Problem::bad_field("template", limit));
    }
    let on_disconnect = match on_disconnect {
        None | Some(WhenAlone::Cancel) => OnDisconnect::Cancel,
        Some(WhenAlone::Continue) => OnDisconnect::Continue,
    };
    Ok(NewTurn { conversation: conversation_id, message, attachments, on_disconnect, template })
}

fn wants_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = values.flat_map(|value| value.split(','));
    types.any(|range| {
        let name = range.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case("text/event-stream")
    })
}

/// What an `EventSource` sends when it comes back.
fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().unwrap_or("?").trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map(Some);
    number.map_err(|_| {
        Problem::bad_field("Last-Event-ID", "Last-Event-ID is not the number of an event")
    })
}

fn events(follower: Follower) -> Response {
    let bytes = stream::unfold(follower, |mut follower| async move {
        let bytes = follower.next().await?;
        Some((bytes, follower))
    });
    let mut response = Body::from_stream(bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header::ACCEPT};

    use super::{LAST_EVENT_ID, last_event, wants_events};

    #[test]
    fn only_who_asks_for_events_gets_them() {
        let check = |accept: &'static str, expected| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(wants_events(&headers), expected, "{accept}");
        };
        check("text/event-stream", true);
        check("application/json, Text/Event-Stream;q=0.5", true);
        check("application/json", false);
        check("*/*", false);
        assert!(!wants_events(&HeaderMap::new()));
    }

    #[test]
    fn the_last_event_is_a_number_or_nothing() {
        let check = |value: &'static str, expected: Option<Option<u64>>| {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_EVENT_ID, HeaderValue::from_static(value));
            assert_eq!(last_event(&headers).ok(), expected, "{value}");
        };
        check("17", Some(Some(17)));
        check("", Some(None));
        check("-1", None);
        check("x", None);
    }
}
