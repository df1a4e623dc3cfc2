//! What a program inside, a caller or an upstream may try with the link.

use axum::{Router, extract::Request};
use runner::link::{AddressPolicy, Outbound, Terms, Upstreams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

use super::harness::{Inside, Upstream, answer, inline, request, terms};

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Upstream::start(|_| answer(200, "text/plain", "secret of elsewhere")).await;
    let target = elsewhere.url.clone();
    let redirecting = Upstream::start(move |seen| {
        let status = seen.path.trim_start_matches("/w/").parse().unwrap_or(302);
        let mut redirect = answer(status, "text/plain", "");
        redirect.headers_mut().insert("location", target.parse().unwrap());
        redirect
    })
    .await;
    let inside = inline(json!({
        "workspace": {"url": format!("{}/w", redirecting.url), "bearer": "asbx_1"},
        "assets": {"url": redirecting.url},
        "model": {"provider": "openai", "base_url": redirecting.url, "api_key": "k"},
    }));
    for path in ["/workspace/301", "/workspace/302", "/workspace/307", "/workspace/308", "/assets"]
    {
        let answer = inside.get(path).await;
        assert_eq!(answer.refusal(), (502, "redirect".to_owned()), "{path}");
        assert!(!answer.text().contains(&elsewhere.url), "{}", answer.text());
    }
    let model = inside.post("/model/chat/completions", "{}").await;
    assert_eq!(model.refusal(), (502, "redirect".to_owned()));
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_closed_address_is_not_dialled_by_number_or_by_name() {
    let upstream = Upstream::start(|_| answer(200, "application/json", "{}")).await;
    let port = upstream.url.rsplit(':').next().unwrap();
    let elsewhere = AddressPolicy::new(vec!["10.0.0.0/8".parse().unwrap()]);
    let closed = || Terms { outbound: Outbound::new(elsewhere.clone()).unwrap(), ..terms() };
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"] {
        let url = format!("http://{host}:{port}");
        let inside = Inside::of(Upstreams::callbacks(&url, closed()).unwrap());
        for path in ["/agent/env", "/agent/config"] {
            let refusal = inside.get(path).await.refusal();
            assert_eq!(refusal, (502, "address_denied".to_owned()), "{url}{path}");
        }
        let config = json!({
            "model": {"provider": "openai", "base_url": url},
            "assets": {"url": url},
            "mcp_servers": [{"name": "x", "transport": "http", "url": url}],
            "workspace": {"url": url},
        });
        let inside = Inside::of(Upstreams::inline(config, closed()).unwrap().0);
        for path in ["/assets", "/mcp/0", "/workspace/x", "/model/models"] {
            let refusal = inside.get(path).await.refusal();
            assert_eq!(refusal, (502, "address_denied".to_owned()), "{url}{path}");
        }
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn the_metadata_service_is_closed_by_default() {
    let inside = inline(json!({"workspace": {"url": "http://169.254.169.254/latest"}}));
    let refusal = inside.get("/workspace/meta-data").await.refusal();
    assert_eq!(refusal, (502, "address_denied".to_owned()));
}

#[tokio::test]
async fn a_path_that_climbs_never_reaches_the_upstream() {
    let upstream = Upstream::start(|_| answer(200, "text/plain", "")).await;
    let inside = inline(json!({"workspace": {"url": format!("{}/deep/er", upstream.url)}}));
    for rest in ["..", "../x", "%2e%2e/x", "%2E%2e", "a//b", "a%2f..%2fb", "a%5c..", "..;/x"] {
        let refusal = inside.get(&format!("/workspace/{rest}")).await.refusal();
        assert_eq!(refusal, (400, "unsafe_path".to_owned()), "{rest}");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn an_absolute_address_in_the_request_changes_nothing() {
    let elsewhere = Upstream::start(|_| answer(200, "text/plain", "elsewhere")).await;
    let upstream = Upstream::start(|_| answer(200, "text/plain", "here")).await;
    let inside = inline(json!({"workspace": {"url": upstream.url}}));
    let mut connection = inside.connect().await;
    let host = elsewhere.url.strip_prefix("http://").unwrap();
    let head = format!("GET {}/workspace/x HTTP/1.1\r\nhost: {host}\r\n", elsewhere.url);
    connection.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("here"), "{answer}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn heads_are_bounded_in_number_and_size() {
    let upstream = Upstream::start(|_| answer(200, "text/plain", "")).await;
    let inside = inline(json!({"workspace": {"url": upstream.url}}));
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "a".repeat(256 << 10));
    for (what, headers) in [("many", many), ("long", long)] {
        let mut connection = inside.connect().await;
        let head = format!("GET /workspace/x HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
        // The link may hang up before it has read all of it.
        let _ = connection.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{what}: {answer}");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_request_is_not_smuggled_behind_another() {
    let upstream = Upstream::start(|_| answer(200, "text/plain", "")).await;
    let inside = inline(json!({"workspace": {"url": upstream.url}}));
    let mut connection = inside.connect().await;
    let both = "POST /workspace/a HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\
        transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /workspace/b HTTP/1.1\r\nhost: h\r\n\r\n";
    connection.write_all(both.as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer).await;
    for seen in upstream.seen() {
        let length = seen.header("content-length").map(|length| length.parse().unwrap());
        assert_eq!(length.unwrap_or(0), seen.body.len());
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let upstream = Upstream::start(|_| answer(200, "text/plain", "")).await;
    let inside = inline(json!({"workspace": {"url": upstream.url}}));
    let mut held = Vec::new();
    for _ in 0..64 {
        held.push(inside.connect().await);
    }
    // One lies in the harness's own queue, the next has to wait there.
    held.push(inside.connect().await);
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(200), inside.connect());
    assert!(waiting.await.is_err());
    held.clear();
    assert_eq!(inside.get("/workspace/x").await.status, 200);
}

#[tokio::test]
async fn an_upstream_that_never_answers_is_given_up() {
    let (asked, mut arrived) = mpsc::channel(8);
    let router = Router::new().fallback(move |_: Request| async move {
        asked.send(()).await.unwrap();
        std::future::pending::<axum::response::Response>().await
    });
    let silent = Upstream::serving(router).await;
    let inside = std::sync::Arc::new(inline(json!({
        "workspace": {"url": silent.url},
        "model": {"provider": "openai", "base_url": silent.url},
    })));
    for path in ["/workspace/x", "/model/chat/completions"] {
        let asking = std::sync::Arc::clone(&inside);
        let asking =
            tokio::spawn(async move { asking.ask(request("POST", path, "{}")).await.refusal() });
        arrived.recv().await.unwrap();
        // From here on only clocks are waited for, so they may run ahead.
        tokio::time::pause();
        assert_eq!(asking.await.unwrap(), (504, "timeout".to_owned()), "{path}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_said_without_its_address() {
    let gone = Upstream::start(|_| answer(200, "text/plain", "")).await.url.clone();
    let inside = inline(json!({"workspace": {"url": format!("{gone}/x?sig=secret")}}));
    let answer = inside.get("/workspace/x").await;
    assert_eq!(answer.refusal(), (502, "unreachable".to_owned()));
    assert!(!answer.text().contains("secret") && !answer.text().contains("127.0.0.1"));
}
