//! Large, slow and endless bodies.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{Router, body::Body, extract::Request};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use runner::link::{Terms, Upstreams};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use wire::agent::AgentLimits;

use super::harness::{Inside, Upstream, answer, inline, request, terms};

const PIECE: usize = 64 << 10;
const PIECES: u64 = 2048;
/// What sockets and clients on the way may hold; far below the whole.
const IN_FLIGHT: u64 = 24 << 20;

/// Pieces of a body, counted as they are taken.
fn counted(made: &Arc<AtomicU64>) -> impl stream::Stream<Item = Bytes> + use<> {
    let made = Arc::clone(made);
    stream::iter(0..PIECES).map(move |number| {
        made.fetch_add(PIECE as u64, Ordering::Relaxed);
        Bytes::from(vec![number as u8; PIECE])
    })
}

fn whole_hash() -> Vec<u8> {
    let mut hash = Sha256::new();
    (0..PIECES).for_each(|number| hash.update(vec![number as u8; PIECE]));
    hash.finalize().to_vec()
}

#[tokio::test]
async fn a_large_answer_passes_whole_and_waits_for_its_reader() {
    let made = Arc::new(AtomicU64::new(0));
    let source = Arc::clone(&made);
    let upstream = Upstream::start(move |_| {
        let pieces = counted(&source).map(Ok::<_, Infallible>);
        answer(200, "application/zip", Body::from_stream(pieces))
    })
    .await;
    let inside = inline(json!({"assets": {"url": upstream.url}}));
    let mut body = inside.send(request("GET", "/assets", "")).await.into_body();
    let (mut hash, mut read) = (Sha256::new(), 0);
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        read += data.len() as u64;
        hash.update(&data);
        let ahead = made.load(Ordering::Relaxed).saturating_sub(read);
        assert!(ahead < IN_FLIGHT, "{ahead} bytes are held after {read}");
        tokio::task::yield_now().await;
    }
    assert_eq!(read, PIECES * PIECE as u64);
    assert_eq!(hash.finalize().to_vec(), whole_hash());
}

#[tokio::test]
async fn a_large_upload_passes_whole_and_waits_for_its_reader() {
    let made = Arc::new(AtomicU64::new(0));
    let source = Arc::clone(&made);
    let router = Router::new().fallback(move |request: Request| async move {
        let mut body = request.into_body();
        let (mut hash, mut read) = (Sha256::new(), 0);
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            read += data.len() as u64;
            hash.update(&data);
            let ahead = source.load(Ordering::Relaxed).saturating_sub(read);
            assert!(ahead < IN_FLIGHT, "{ahead} bytes are held after {read}");
        }
        answer(200, "application/octet-stream", hash.finalize().to_vec())
    });
    let upstream = Upstream::serving(router).await;
    let inside = inline(json!({"workspace": {"url": upstream.url}}));
    let body = StreamBody::new(counted(&made).map(|piece| Ok::<_, Infallible>(Frame::data(piece))));
    let put = http::Request::put("/workspace/file").header("host", "h").body(body).unwrap();
    let answer = inside.send(put).await.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(answer, whole_hash());
}

#[tokio::test]
async fn an_endless_config_is_cut_at_its_limit() {
    let endless = Upstream::start(|_| {
        let pieces = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b' '; 4096])));
        answer(200, "application/json", Body::from_stream(pieces))
    })
    .await;
    let inside = Inside::of(Upstreams::callbacks(&endless.url, terms()).unwrap());
    let refusal = inside.get("/agent/config").await.refusal();
    assert_eq!(refusal, (502, "answer_too_large".to_owned()));
}

#[tokio::test]
async fn a_skill_and_an_upload_over_their_limits_are_cut() {
    let upstream = Upstream::start(|seen| {
        let length = if seen.path.starts_with("/known") { 2000 } else { 0 };
        if length > 0 {
            return answer(200, "application/zip", vec![0; length]);
        }
        let pieces =
            stream::iter(0..20).map(|_| Ok::<_, Infallible>(Bytes::from_static(&[0; 100])));
        answer(200, "application/zip", Body::from_stream(pieces))
    })
    .await;
    let limits = AgentLimits { skill_bytes: 1000, bag_bytes: 1000, ..AgentLimits::STANDARD };
    let version = super::harness::VERSION;
    let config = json!({
        "skills": [{"id": "known", "version": version, "url": format!("{}/known", upstream.url)},
                   {"id": "streamed", "version": version, "url": format!("{}/s", upstream.url)}],
        "workspace": {"url": upstream.url},
    });
    let inside = Inside::of(Upstreams::inline(config, Terms { limits, ..terms() }).unwrap().0);
    // A length that is said is refused at once; one that is not, on the way.
    let known = inside.get(&format!("/skills/known/{version}")).await;
    assert_eq!(known.refusal(), (502, "answer_too_large".to_owned()));
    let streamed = request("GET", &format!("/skills/streamed/{version}"), "");
    assert!(inside.send(streamed).await.into_body().collect().await.is_err());
    let upload = inside.post("/workspace/x", &"a".repeat(1001)).await;
    assert_eq!(upload.refusal(), (413, "too_large".to_owned()));
    let pieces = stream::iter(0..20)
        .map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[0; 100]))));
    let put = http::Request::put("/workspace/x").header("host", "h");
    let put = put.body(StreamBody::new(pieces)).unwrap();
    assert_eq!(inside.send(put).await.status(), 413);
}

#[tokio::test]
async fn an_answer_that_falls_silent_is_cut() {
    let (hold, kept) = mpsc::channel::<()>(1);
    let kept = Arc::new(tokio::sync::Mutex::new(kept));
    let upstream = Upstream::start(move |_| {
        let kept = Arc::clone(&kept);
        let silent = stream::once(async move {
            kept.lock().await.recv().await;
            Ok::<_, Infallible>(Bytes::new())
        });
        let first = stream::iter([Ok(Bytes::from_static(b"begun"))]);
        answer(200, "text/plain", Body::from_stream(first.chain(silent)))
    })
    .await;
    let inside = inline(json!({"workspace": {"url": upstream.url}}));
    let mut body = inside.send(request("GET", "/workspace/x", "")).await.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "begun");
    // From here on only clocks are waited for, so they may run ahead.
    tokio::time::pause();
    assert!(body.frame().await.unwrap().is_err());
    drop(hold);
}
