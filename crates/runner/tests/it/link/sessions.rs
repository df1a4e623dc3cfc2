//! Sessions of harnesses: what one sandbox puts away, the next one gets.

use std::{convert::Infallible, path::Path};

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use runner::link::{Sessions, Upstreams};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::harness::{Inside, inline, request, terms};

/// The inside of a run of that team.
fn inside(runs: &Path, team: &str) -> Inside {
    let (upstreams, _) = Upstreams::inline(json!({}), terms()).unwrap();
    Inside::of(upstreams.keeping_sessions_in(Sessions::of_team(runs, team)))
}

/// How many files there are, whatever they are.
fn files(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn the_next_run_of_the_team_gets_what_this_one_put_away() {
    let runs = place();
    let path = "/sessions/claude-code/0a-1";
    let one = inside(runs.path(), "team");
    assert_eq!(one.get(path).await.refusal(), (404, "not_found".to_owned()));
    for content in ["first", &"second".repeat(100_000)] {
        let kept = one.ask(request("PUT", path, content)).await;
        assert_eq!((kept.status.as_u16(), kept.text()), (204, ""));
        let other = inside(runs.path(), "team");
        let found = other.get(path).await;
        assert_eq!((found.status.as_u16(), found.text()), (200, content));
        assert_eq!(found.headers["content-type"], "application/zip");
        assert_eq!(found.headers["content-length"], content.len().to_string().as_str());
    }
    assert_eq!(files(runs.path()), 1);
}

#[tokio::test]
async fn sessions_are_the_teams_own_and_the_harness_own() {
    let runs = place();
    let one = inside(runs.path(), "one");
    one.ask(request("PUT", "/sessions/codex/s", "x")).await;
    assert_eq!(one.get("/sessions/opencode/s").await.status, 404);
    assert_eq!(inside(runs.path(), "two").get("/sessions/codex/s").await.status, 404);
    assert_eq!(inside(runs.path(), "../one").get("/sessions/codex/s").await.status, 404);
    assert_eq!(one.get("/sessions/codex/s").await.status, 200);
    // A link that keeps none has none.
    assert_eq!(inline(json!({})).get("/sessions/codex/s").await.status, 404);
}

#[tokio::test]
async fn what_is_too_large_or_too_much_is_refused_and_leaves_nothing() {
    let runs = place();
    let one = inside(runs.path(), "team");
    let piece = Bytes::from(vec![0; 1 << 20]);
    let pieces =
        stream::iter((0..65).map(move |_| Ok::<_, Infallible>(Frame::data(piece.clone()))));
    let large = http::Request::put("/sessions/codex/large").body(StreamBody::new(pieces)).unwrap();
    assert_eq!(one.send(large).await.status(), 413);
    assert_eq!(files(runs.path()), 0);
    for _ in 0..15 {
        assert_eq!(one.ask(request("PUT", "/sessions/codex/s", "x")).await.status, 204);
    }
    let refused = one.ask(request("PUT", "/sessions/codex/s", "x")).await;
    assert_eq!(refused.refusal(), (429, "too_many".to_owned()));
    assert_eq!(files(runs.path()), 1);
}

#[tokio::test]
async fn an_archive_that_breaks_off_changes_nothing() {
    let runs = place();
    let one = inside(runs.path(), "team");
    one.ask(request("PUT", "/sessions/codex/s", "whole")).await;
    let (send, pieces) = mpsc::channel::<Bytes>(1);
    let pieces = stream::unfold(pieces, |mut pieces| async {
        Some((Ok::<_, Infallible>(Frame::data(pieces.recv().await?)), pieces))
    });
    let asked = http::Request::put("/sessions/codex/s").body(StreamBody::new(pieces)).unwrap();
    let connection = hyper_util::rt::TokioIo::new(one.connect().await);
    let (mut sender, driver) = hyper::client::conn::http1::handshake(connection).await.unwrap();
    let driver = tokio::spawn(driver);
    let call = tokio::spawn(async move { sender.send_request(asked).await.map(|_| ()) });
    send.send(Bytes::from_static(b"half")).await.unwrap();
    while files(runs.path()) < 2 {
        tokio::task::yield_now().await;
    }
    driver.abort();
    while files(runs.path()) > 1 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert_eq!(one.get("/sessions/codex/s").await.text(), "whole");
}
