//! Keys, values of variables and headers: never answered, never in the open on
//! disk, and kept by `null`.

use reqwest::Method;
use serde_json::{Value, json};

use super::place::{Place, refused};

#[tokio::test]
async fn values_are_kept_replaced_or_gone_and_never_shown() {
    let place = Place::start().await;
    let sent = json!({"name": "prod", "variables": {"KEPT": "SECRET-1", "GONE": "SECRET-2"}});
    let (status, made) = place.ask(Method::POST, "/api/environments", sent).await;
    assert_eq!((status, &made["variables"]), (201, &json!({"KEPT": null, "GONE": null})));
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/environments/{id}");
    let sent = json!({"name": "prod", "variables": {"KEPT": null, "NEW": "SECRET-3"}});
    let (status, replaced) = place.ask(Method::PUT, &path, sent).await;
    assert_eq!((status, &replaced["variables"]), (200, &json!({"KEPT": null, "NEW": null})));

    let agent = json!({"name": "a", "systemPrompt": "", "environmentId": id});
    let agent = place.make("/api/agents", agent).await;
    let (_, told) = place.callback(&place.session(Some(&agent)).await, "env").await;
    assert_eq!(told["variables"], json!({"KEPT": "SECRET-1", "NEW": "SECRET-3"}));

    for (variables, field) in [
        (json!({"OTHER": null}), "variables.OTHER"),
        (json!({"1A": "x"}), "variables.1A"),
        (json!({"A-B": "x"}), "variables.A-B"),
        (json!({"A": "x\u{0}"}), "variables.A"),
        (json!({"A": 1}), "variables.A"),
    ] {
        let sent = json!({"name": "prod", "variables": variables});
        refused(&place.ask(Method::PUT, &path, sent).await, 400, "invalid_argument", field);
    }
    let many: Value = (0..201).map(|number| (format!("V{number}"), json!("x"))).collect();
    let sent = json!({"name": "prod", "variables": many});
    refused(&place.ask(Method::PUT, &path, sent).await, 400, "invalid_argument", "variables");
    place.end().await;
}

#[tokio::test]
async fn a_model_says_that_it_has_a_key_and_not_which() {
    let place = Place::start().await;
    let model =
        |key: Value| json!({"name": "m", "provider": "openai", "modelName": "x", "apiKey": key});
    let (_, made) = place.ask(Method::POST, "/api/models", model(json!("SECRET-4"))).await;
    assert_eq!((&made["hasApiKey"], &made["apiKey"]), (&json!(true), &Value::Null));
    let path = format!("/api/models/{}", made["id"].as_str().unwrap());
    for (key, has) in [(json!(null), true), (json!("SECRET-5"), true), (json!(""), false)] {
        let (status, replaced) = place.ask(Method::PUT, &path, model(key)).await;
        assert_eq!((status, &replaced["hasApiKey"]), (200, &json!(has)));
        assert!(!replaced.to_string().contains("SECRET"), "{replaced}");
    }
    for (more, field) in [
        (json!({"provider": "other"}), "provider"),
        (json!({"baseUrl": "file:///etc/passwd"}), "baseUrl"),
        (json!({"modelName": ""}), "modelName"),
        (json!({"script": [{"text": "x"}]}), "script"),
    ] {
        let mut sent = model(json!(null));
        sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(&place.ask(Method::PUT, &path, sent).await, 400, "invalid_argument", field);
    }
    place.end().await;
}

#[tokio::test]
async fn a_secret_is_not_kept_for_another_address_than_it_was_given_for() {
    let place = Place::start().await;
    let mut model = json!({
        "name": "m", "provider": "openai", "modelName": "x", "apiKey": "SECRET-7",
        "baseUrl": "https://one.test",
    });
    let (_, made) = place.ask(Method::POST, "/api/models", model.clone()).await;
    let path = format!("/api/models/{}", made["id"].as_str().unwrap());
    model["apiKey"] = Value::Null;
    let (_, kept) = place.ask(Method::PUT, &path, model.clone()).await;
    assert_eq!(kept["hasApiKey"], json!(true));
    model["baseUrl"] = json!("https://two.test");
    let (_, moved) = place.ask(Method::PUT, &path, model).await;
    assert_eq!(moved["hasApiKey"], json!(false));

    let server = |url: &str, value: Value| json!({"name": "s", "transport": {"type": "http", "url": url, "headers": {"A": value}}});
    let sent = server("https://one.test", json!("SECRET-8"));
    let (_, made) = place.ask(Method::POST, "/api/mcp-servers", sent).await;
    let path = format!("/api/mcp-servers/{}", made["id"].as_str().unwrap());
    let kept = place.ask(Method::PUT, &path, server("https://one.test", Value::Null)).await;
    assert_eq!(kept.0, 200);
    let moved = place.ask(Method::PUT, &path, server("https://two.test", Value::Null)).await;
    refused(&moved, 400, "invalid_argument", "transport.headers.A");
    place.end().await;
}

#[tokio::test]
async fn variables_and_headers_of_mcp_servers_are_masked_and_checked() {
    let place = Place::start().await;
    let http = |url: &str, headers: Value| {
        let transport = json!({"type": "http", "url": url, "headers": headers});
        json!({"name": "web", "transport": transport})
    };
    let sent = http("https://example.com/mcp", json!({"Authorization": "Bearer SECRET-6"}));
    let (status, made) = place.ask(Method::POST, "/api/mcp-servers", sent).await;
    let expected = json!({
        "type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": null},
    });
    assert_eq!((status, &made["transport"]), (201, &expected));
    let path = format!("/api/mcp-servers/{}", made["id"].as_str().unwrap());
    for (sent, field) in [
        (http("ftp://a", json!({})), "transport.url"),
        (http("http://a", json!({"a b": "c"})), "transport.headers.a b"),
        (http("http://a", json!({"A": "b\n"})), "transport.headers.A"),
        (json!({"name": "w", "transport": {"type": "stdio", "command": " "}}), "transport.command"),
        (json!({"name": "w", "transport": {"type": "pigeon"}}), "transport"),
    ] {
        let answer = place.ask(Method::PUT, &path, sent).await;
        assert_eq!((answer.0, answer.1["code"].as_str()), (400, Some("invalid_argument")));
        let named = answer.1["field"].as_str().unwrap_or_default();
        assert!(named.starts_with(field), "{field}: {}", answer.1);
    }
    place.end().await;
}

#[tokio::test]
async fn no_secret_is_in_the_open_on_disk() {
    let place = Place::start().await;
    let variables = json!({"A": "SECRET-in-a-variable"});
    place.make("/api/environments", json!({"name": "e", "variables": variables})).await;
    let model =
        json!({"name": "m", "provider": "openai", "modelName": "x", "apiKey": "SECRET-key"});
    place.make("/api/models", model).await;
    let transport = json!({"type": "stdio", "command": "c", "env": {"A": "SECRET-of-a-server"}});
    place.make("/api/mcp-servers", json!({"name": "s", "transport": transport})).await;
    let mut seen = 0;
    for entry in std::fs::read_dir(place.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            seen += bytes.len();
            assert!(!bytes.windows(7).any(|part| part == b"SECRET-"), "{}", path.display());
        }
    }
    assert!(seen > 0);
    place.end().await;
}
