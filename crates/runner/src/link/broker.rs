//! Model calls: to the provider that the config names, by the paths it has,
//! with the key that the sandbox does not know, within the run's budget.
//!
//! Bodies pass as they are. Of the headers only those pass that say what the
//! body is and which version of the API it is for: no other account, project
//! or key can be chosen from inside.

use std::sync::Arc;

use http::{Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use sandbox::Body;
use tokio::sync::mpsc;
use wire::agent::Provider;

use super::{
    addresses::Model,
    body::Pulse,
    forward::Passage,
    headers::{self, Outward},
    meter::{Call, Metered},
    refusal::Refusal,
    route::ModelPath,
    upstreams::{Note, Upstreams},
};

/// Most bytes of a question or an answer. Pictures travel in questions.
const LARGEST: u64 = 64 << 20;

const PASSED: &[&str] =
    &["accept", "content-type", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta"];

/// Passes a model call on.
pub(super) async fn pass(
    upstreams: Arc<Upstreams>,
    call: ModelPath,
    request: Request<Incoming>,
    notes: mpsc::Sender<Note>,
) -> Result<Response<Body>, Refusal> {
    let known = upstreams.known()?;
    let model = known.model.as_ref().ok_or(Refusal::NoUpstream("model provider"))?;
    let path = path_of(model, call).ok_or(Refusal::NoUpstream("model provider with this path"))?;
    let mut headers = headers::outward(request.headers(), Outward::Only(PASSED));
    headers.extend(model.key.as_ref().and_then(|key| key.pair()));
    let passage = Passage {
        name: "model provider",
        method: request.method().clone(),
        target: model.base.below(path, request.uri().query()),
        headers,
        request_bytes: LARGEST,
        answer_bytes: LARGEST,
        silence: upstreams.model_silence(),
        sent: Pulse::default(),
    };
    let body = request.into_body();
    if let ModelPath::Models = call {
        let answer = passage.send(&upstreams.terms.outbound, body).await?;
        return Ok(answer.map(BodyExt::boxed_unsync));
    }

    let calls = Arc::clone(&upstreams.calls);
    let place = calls.acquire_owned().await.map_err(|_| Refusal::Ending)?;
    // Asked once there is a place: those that were before are booked by now.
    if let Some(refusal) = upstreams.overspent() {
        return Err(refusal);
    }
    let note = notes.reserve_owned().await.map_err(|_| Refusal::Ending)?;
    let call = Call::new(Arc::clone(&upstreams), passage.sent.clone(), place, note);
    match passage.send(&upstreams.terms.outbound, body).await {
        Ok(answer) if answer.status().is_success() => {
            let kind = answer.headers().get(header::CONTENT_TYPE);
            let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
            Ok(answer.map(|body| Metered::new(body, call, &kind).boxed_unsync()))
        }
        Ok(answer) => {
            call.forget();
            Ok(answer.map(BodyExt::boxed_unsync))
        }
        // It may still be thinking, and whoever pays will pay for that.
        Err(late @ Refusal::Late { .. }) => Err(late),
        Err(refusal) => {
            call.forget();
            Err(refusal)
        }
    }
}

/// Where a call is below the provider's address; `None` when the provider does
/// not have it.
fn path_of(model: &Model, call: ModelPath) -> Option<&'static str> {
    let path = match (model.provider, call) {
        (Provider::Anthropic, ModelPath::Messages) => "/v1/messages",
        (Provider::Anthropic, ModelPath::Models) => "/v1/models",
        (Provider::Openai, ModelPath::ChatCompletions) => "/chat/completions",
        (Provider::OpenaiResponses, ModelPath::Responses) => "/responses",
        (Provider::Openai | Provider::OpenaiResponses, ModelPath::Models) => "/models",
        (
            Provider::Anthropic | Provider::Openai | Provider::OpenaiResponses | Provider::Scripted,
            ModelPath::Messages
            | ModelPath::ChatCompletions
            | ModelPath::Responses
            | ModelPath::Models,
        ) => return None,
    };
    // People write the address with the version or without.
    match path.strip_prefix("/v1") {
        Some(rest) if model.base.ends_with("/v1") => Some(rest),
        Some(_) | None => Some(path),
    }
}
