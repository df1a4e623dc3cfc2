//! Each route leads to its upstream, with what belongs there and no more.

use runner::link::{Note, Upstreams};
use serde_json::{Value, json};

use super::harness::{Inside, LINK, Upstream, VERSION, answer, inline, request, terms};

/// A workspace that offers everything.
async fn workspace() -> Upstream {
    Upstream::start(|seen| match seen.path.as_str() {
        "/api/s1/env" => answer(200, "application/json", r#"{"variables":{"A":"1"}}"#),
        "/api/s1/config" => {
            let host = seen.header("host").unwrap();
            answer(200, "application/json", config(&format!("http://{host}")).to_string())
        }
        "/api/s1/results" => answer(200, "application/json", r#"{"files":[]}"#),
        path => answer(200, "text/plain", format!("you asked for {path}")),
    })
    .await
}

fn config(base: &str) -> Value {
    json!({
        "system_prompt": "Be kind.",
        "model": {"provider": "openai", "name": "m", "base_url": format!("{base}/model"),
                  "api_key": "sk-very-secret"},
        "assets": {"url": format!("{base}/bag.zip?exp=1&sig=abc")},
        "skills": [{"id": "kit", "version": VERSION, "url": "skills/kit"}],
        "mcp_servers": [{"name": "x", "transport": "stdio", "command": "x"},
                        {"name": "y", "transport": "http", "url": format!("{base}/mcp?k=1"),
                         "headers": {"Authorization": "Bearer mcp-secret", "X-Extra": "1"}}],
        "workspace": {"url": format!("{base}/tables/"), "bearer": "asbx_1"},
    })
}

async fn called_back() -> (Upstream, Inside) {
    let workspace = workspace().await;
    let upstreams = Upstreams::callbacks(&format!("{}/api/s1", workspace.url), terms()).unwrap();
    (workspace, Inside::of(upstreams))
}

#[tokio::test]
async fn callbacks_carry_their_token_and_nothing_of_the_way() {
    let (workspace, inside) = called_back().await;
    for (method, path, body) in [("GET", "/agent/env", ""), ("POST", "/agent/results", "the file")]
    {
        let mut request = request(method, path, body);
        for (name, value) in [
            ("authorization", "otp_abc"),
            ("cookie", "session=1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-api-key", "e2b_1"),
            ("content-type", "multipart/form-data; boundary=x"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let answer = inside.ask(request).await;
        assert_eq!(answer.status, 200);
        let seen = workspace.last();
        assert_eq!(seen.path, path.replace("/agent", "/api/s1"));
        assert_eq!(seen.header("authorization"), Some("otp_abc"));
        assert_eq!(seen.header("content-type"), Some("multipart/form-data; boundary=x"));
        assert_eq!(seen.header("host"), workspace.url.strip_prefix("http://"));
        for dropped in ["cookie", "x-forwarded-for", "x-api-key", "accept-encoding"] {
            assert_eq!(seen.header(dropped), None, "{dropped}");
        }
        assert_eq!(seen.body, body);
    }
}

#[tokio::test]
async fn the_config_that_enters_has_no_key_and_no_address_but_the_links() {
    let (workspace, mut inside) = called_back().await;
    let answer = inside.get("/agent/config").await;
    assert_eq!(answer.status, 200);
    for secret in ["sk-very-secret", "mcp-secret", "sig=abc", workspace.url.as_str()] {
        assert!(!answer.text().contains(secret), "{secret} in {}", answer.text());
    }
    let config = answer.json();
    assert_eq!(config["system_prompt"], "Be kind.");
    assert_eq!(config["skills"][0]["url"], format!("{LINK}/skills/kit/{VERSION}"));
    assert_eq!(config["mcp_servers"][1]["url"], format!("{LINK}/mcp/1"));
    assert_eq!(
        config["workspace"],
        json!({"url": format!("{LINK}/workspace"), "bearer": "asbx_1"})
    );
    assert_eq!(inside.notes.recv().await, Some(Note::ConfigPassed));
}

#[tokio::test]
async fn other_upstreams_are_known_once_the_config_has_passed() {
    let (workspace, inside) = called_back().await;
    let skill = format!("/skills/kit/{VERSION}");
    for path in ["/assets", skill.as_str(), "/workspace/x", "/mcp/1", "/model/models"] {
        assert_eq!(inside.get(path).await.refusal(), (409, "no_config".to_owned()), "{path}");
    }
    assert!(workspace.seen().is_empty());
    inside.get("/agent/config").await;
    for (path, expected) in [
        ("/assets", "/bag.zip?exp=1&sig=abc".to_owned()),
        (skill.as_str(), format!("/api/s1/skills/kit/{VERSION}")),
        ("/workspace/x", "/tables/x".to_owned()),
        ("/workspace", "/tables/".to_owned()),
        ("/mcp/1", "/mcp?k=1".to_owned()),
        ("/model/models", "/model/models".to_owned()),
    ] {
        let answer = inside.get(path).await;
        assert_eq!(answer.text(), format!("you asked for {expected}"), "{path}");
    }
}

#[tokio::test]
async fn a_workspaces_refusal_passes_as_it_is() {
    let refusing = Upstream::start(|_| {
        let mut refused = answer(401, "application/json", r#"{"code":"otp_used"}"#);
        refused.headers_mut().insert("set-cookie", "a=b".parse().unwrap());
        refused
    })
    .await;
    let inside = Inside::of(Upstreams::callbacks(&refusing.url, terms()).unwrap());
    for path in ["/agent/env", "/agent/config"] {
        let answer = inside.get(path).await;
        assert_eq!(answer.status, 401);
        assert_eq!(answer.text(), r#"{"code":"otp_used"}"#);
        assert!(answer.headers.get("set-cookie").is_none());
    }
}

#[tokio::test]
async fn an_inline_run_has_no_callbacks() {
    let inside = inline(json!({}));
    assert_eq!(inside.get("/agent/env").await.refusal(), (404, "not_found".to_owned()));
    assert_eq!(inside.get("/workspace/x").await.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn a_path_that_is_not_there_says_what_is() {
    let (workspace, inside) = called_back().await;
    let answer = inside.post("/tools/run", "{}").await;
    assert_eq!(answer.refusal(), (404, "not_found".to_owned()));
    let paths = answer.json()["error"]["paths"].clone();
    assert!(paths.as_array().unwrap().contains(&json!("GET /agent/env")));
    assert!(workspace.seen().is_empty());
}

#[tokio::test]
async fn the_workspace_gets_any_method_the_query_and_the_bearer() {
    let (workspace, inside) = called_back().await;
    inside.get("/agent/config").await;
    let mut put = request("PUT", "/workspace/tables/1?upsert=true&x=%2F..", "row");
    put.headers_mut().insert("authorization", "Bearer asbx_1".parse().unwrap());
    put.headers_mut().insert("x-own", "kept".parse().unwrap());
    assert_eq!(inside.ask(put).await.status, 200);
    let seen = workspace.last();
    assert_eq!((seen.method.as_str(), seen.body.as_ref()), ("PUT", &b"row"[..]));
    assert_eq!(seen.path, "/tables/tables/1?upsert=true&x=%2F..");
    assert_eq!(seen.header("authorization"), Some("Bearer asbx_1"));
    assert_eq!(seen.header("x-own"), Some("kept"));
}

#[tokio::test]
async fn an_mcp_server_gets_the_configured_headers_instead_of_those_from_inside() {
    let (workspace, inside) = called_back().await;
    inside.get("/agent/config").await;
    let mut call = request("POST", "/mcp/1", r#"{"jsonrpc":"2.0"}"#);
    call.headers_mut().insert("authorization", "Bearer stolen".parse().unwrap());
    call.headers_mut().insert("mcp-session-id", "s7".parse().unwrap());
    assert_eq!(inside.ask(call).await.status, 200);
    let seen = workspace.last();
    assert_eq!(seen.header("authorization"), Some("Bearer mcp-secret"));
    assert_eq!(seen.header("x-extra"), Some("1"));
    assert_eq!(seen.header("mcp-session-id"), Some("s7"));
    for stdio_or_none in ["/mcp/0", "/mcp/2"] {
        let refusal = inside.get(stdio_or_none).await.refusal();
        assert_eq!(refusal, (404, "not_found".to_owned()));
    }
}

#[tokio::test]
async fn a_skill_that_the_config_does_not_name_is_not_fetched() {
    let (workspace, inside) = called_back().await;
    inside.get("/agent/config").await;
    let asked = workspace.seen().len();
    for path in [format!("/skills/other/{VERSION}"), format!("/skills/kit/{}", "1".repeat(64))] {
        assert_eq!(inside.get(&path).await.refusal(), (404, "not_found".to_owned()));
    }
    assert_eq!(workspace.seen().len(), asked);
}

#[tokio::test]
async fn a_config_that_cannot_be_used_is_refused_with_the_fields_name() {
    for (body, expected) in [
        ("<html>", "the config is not JSON"),
        (
            r#"{"model":{"provider":"openai","base_url":"nowhere"}}"#,
            "the config cannot be used: `model.base_url` is not an absolute http or https URL",
        ),
    ] {
        let workspace = Upstream::start(move |_| answer(200, "application/json", body)).await;
        let inside = Inside::of(Upstreams::callbacks(&workspace.url, terms()).unwrap());
        let answer = inside.get("/agent/config").await;
        assert_eq!(answer.refusal(), (502, "bad_config".to_owned()));
        assert_eq!(answer.json()["error"]["message"], expected);
    }
}
