//! Model calls: the key, the paths, the stream as it is, tokens, the budget.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use runner::link::{Basis, Note, Terms, Upstreams, Usage};
use serde_json::json;
use tokio::sync::mpsc;

use super::harness::{Inside, Upstream, answer, inline, request, terms};

const CHAT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":9}}\n\n\
data: [DONE]\n\n";

async fn streaming() -> Upstream {
    Upstream::start(|_| answer(200, "text/event-stream", CHAT)).await
}

fn model(provider: &str, url: &str) -> serde_json::Value {
    json!({"model": {"provider": provider, "name": "m", "base_url": url, "api_key": "sk-secret"}})
}

fn usage(input: u64, output: u64) -> Note {
    Note::Usage(Usage { input_tokens: input, output_tokens: output, ..Usage::default() })
}

#[tokio::test]
async fn each_provider_has_its_path_and_its_place_for_the_key() {
    for (provider, base, path, expected, key) in [
        ("anthropic", "", "/model/v1/messages", "/v1/messages", ("x-api-key", "sk-secret")),
        ("anthropic", "/v1", "/model/v1/messages", "/v1/messages", ("x-api-key", "sk-secret")),
        (
            "openai",
            "/v1",
            "/model/chat/completions",
            "/v1/chat/completions",
            ("authorization", "Bearer sk-secret"),
        ),
        (
            "openai-responses",
            "/v1",
            "/model/responses",
            "/v1/responses",
            ("authorization", "Bearer sk-secret"),
        ),
    ] {
        let upstream = streaming().await;
        let inside = inline(model(provider, &format!("{}{base}", upstream.url)));
        let mut call = request("POST", &format!("{path}?beta=true"), r#"{"stream":true}"#);
        for (name, value) in [
            ("authorization", "Bearer from-inside"),
            ("x-api-key", "from-inside"),
            ("api-key", "from-inside"),
            ("openai-organization", "from-inside"),
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
        ] {
            call.headers_mut().insert(name, value.parse().unwrap());
        }
        let answer = inside.ask(call).await;
        assert_eq!(answer.text(), CHAT);
        let seen = upstream.last();
        assert_eq!(seen.path, format!("{expected}?beta=true"), "{provider}");
        assert_eq!(seen.header(key.0), Some(key.1));
        assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(seen.body, r#"{"stream":true}"#);
        let headers = format!("{:?}", seen.headers);
        assert!(!headers.contains("from-inside"), "{headers}");
        for path in ["/model/v1/messages", "/model/chat/completions", "/model/responses"] {
            if !path.ends_with(expected.trim_start_matches("/v1")) {
                let refusal = inside.post(path, "{}").await.refusal();
                assert_eq!(refusal, (404, "not_found".to_owned()), "{provider} {path}");
            }
        }
    }
}

#[tokio::test]
async fn a_scripted_run_has_no_provider() {
    for config in [json!({}), model("scripted", "http://127.0.0.1:1")] {
        let refusal = inline(config).post("/model/chat/completions", "{}").await.refusal();
        assert_eq!(refusal, (404, "not_found".to_owned()));
    }
}

#[tokio::test]
async fn tokens_are_told_once_the_answer_has_passed() {
    let upstream = streaming().await;
    let mut inside = inline(model("openai", &upstream.url));
    inside.post("/model/chat/completions", "{}").await;
    assert_eq!(inside.notes.recv().await, Some(usage(40, 9)));
}

#[tokio::test]
async fn bytes_arrive_while_the_provider_is_still_speaking() {
    let (send, pieces) = mpsc::channel::<Bytes>(1);
    let pieces = Arc::new(Mutex::new(Some(pieces)));
    let upstream = Upstream::start(move |_| {
        let pieces = pieces.lock().unwrap().take().unwrap();
        let pieces = stream::unfold(pieces, |mut pieces| async {
            let piece = pieces.recv().await?;
            Some((Ok::<_, Infallible>(piece), pieces))
        });
        answer(200, "text/event-stream", Body::from_stream(pieces))
    })
    .await;
    let mut inside = inline(model("openai", &upstream.url));
    let call = request("POST", "/model/chat/completions", "{}");
    let mut body = inside.send(call).await.into_body();
    // Each byte is a piece, and each is here before the next is there.
    for byte in CHAT.as_bytes().chunks(1) {
        send.send(Bytes::copy_from_slice(byte)).await.unwrap();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), byte);
    }
    drop(send);
    assert!(body.frame().await.is_none());
    assert_eq!(inside.notes.recv().await, Some(usage(40, 9)));
}

#[tokio::test]
async fn over_the_budget_the_next_call_is_refused() {
    let upstream = streaming().await;
    let budget = Terms { tokens: Some(98), ..terms() };
    let (upstreams, _) = Upstreams::inline(model("openai", &upstream.url), budget).unwrap();
    let mut inside = Inside::of(upstreams);
    for _ in 0..2 {
        assert_eq!(inside.post("/model/chat/completions", "{}").await.status, 200);
        assert_eq!(inside.notes.recv().await, Some(usage(40, 9)));
    }
    let refused = inside.post("/model/chat/completions", "{}").await;
    assert_eq!(refused.refusal(), (429, "token_budget".to_owned()));
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test]
async fn hanging_up_early_is_no_way_around_the_budget() {
    let endless = Upstream::start(|_| {
        let piece = Bytes::from_static(b"data: {\"choices\":[]}\n\n");
        let pieces = stream::repeat_with(move || Ok::<_, Infallible>(piece.clone()));
        answer(200, "text/event-stream", Body::from_stream(pieces))
    })
    .await;
    let mut inside = inline(model("openai", &endless.url));
    let call = request("POST", "/model/chat/completions", &"x".repeat(4000));
    let mut body = inside.send(call).await.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    let Some(Note::Usage(usage)) = inside.notes.recv().await else { panic!("no usage") };
    assert_eq!((usage.input_tokens, usage.basis), (1000, Basis::Estimated));
    assert!(usage.output_tokens > 0);
}

#[tokio::test]
async fn a_providers_refusal_passes_and_costs_nothing() {
    let refusing = Upstream::start(|_| {
        let mut refused = answer(429, "application/json", r#"{"error":{"type":"rate_limit"}}"#);
        refused.headers_mut().insert("retry-after", "3".parse().unwrap());
        refused
    })
    .await;
    let (upstreams, _) =
        Upstreams::inline(model("openai", &refusing.url), Terms { tokens: Some(1), ..terms() })
            .unwrap();
    let inside = Inside::of(upstreams);
    for _ in 0..3 {
        let answer = inside.post("/model/chat/completions", "{}").await;
        assert_eq!(answer.refusal(), (429, "rate_limit".to_owned()));
        assert_eq!(answer.headers.get("retry-after").unwrap(), "3");
    }
}
