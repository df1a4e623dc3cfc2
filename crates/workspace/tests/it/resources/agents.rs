//! Agents: what they may name, and what their sandboxes are told.

use reqwest::Method;
use serde_json::{Value, json};
use wire::workspace::ResourceKind;

use super::place::{Place, refused};

#[tokio::test]
async fn an_agent_is_made_listed_replaced_and_taken_away() {
    let place = Place::start().await;
    let sent = json!({"name": "Writer", "systemPrompt": "Write."});
    let (status, made) = place.ask(Method::POST, "/api/agents", sent.clone()).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!((&made["maxRounds"], &made["skillIds"]), (&json!(10), &json!([])));
    let path = format!("/api/agents/{}", made["id"].as_str().unwrap());
    assert_eq!(place.get(&path).await, (200, made.clone()));
    refused(&place.ask(Method::POST, "/api/agents", sent).await, 409, "name_taken", "name");

    let other = place.make("/api/agents", json!({"name": "Other", "systemPrompt": ""})).await;
    let (_, page) = place.get("/api/agents?limit=1").await;
    assert_eq!(page["items"], json!([made]));
    let next = format!("/api/agents?cursor={}", page["nextCursor"].as_str().unwrap());
    let (_, page) = place.get(&next).await;
    assert_eq!((&page["items"][0]["id"], &page["nextCursor"]), (&json!(other), &Value::Null));
    refused(&place.get("/api/agents?limit=0").await, 400, "invalid_argument", "limit");
    for cursor in ["x", "1.x", "1.%00"] {
        let page = place.get(&format!("/api/agents?cursor={cursor}")).await;
        refused(&page, 400, "invalid_argument", "cursor");
    }

    let sent = json!({"name": "Other", "systemPrompt": "x"});
    refused(&place.ask(Method::PUT, &path, sent).await, 409, "name_taken", "name");
    let sent = json!({"name": "Writer 2", "systemPrompt": "x", "maxRounds": 100});
    let (status, replaced) = place.ask(Method::PUT, &path, sent).await;
    assert_eq!(
        (status, &replaced["name"], &replaced["id"]),
        (200, &json!("Writer 2"), &made["id"])
    );

    // What is another team's is not there.
    assert_eq!(place.ask_as("blue", Method::GET, &path, Value::Null).await.0, 404);
    assert_eq!(place.ask_as("blue", Method::DELETE, &path, Value::Null).await.0, 404);
    assert_eq!(place.ask(Method::DELETE, &path, Value::Null).await.0, 204);
    assert_eq!(place.get(&path).await.0, 404);
    assert_eq!(place.get("/api/agents/env_aaaaaaaaaaaaaaaaaaaaaaaa").await.0, 404);
    // A sandbox may not make agents.
    let bearer = format!("Bearer asbx_{}", place.session(None).await);
    let asked = place.request(Method::GET, "/api/agents").header("authorization", bearer);
    assert_eq!(asked.send().await.unwrap().status(), 403);
    place.end().await;
}

#[tokio::test]
async fn a_wrong_field_of_an_agent_is_named() {
    let place = Place::start().await;
    let missing = "skill_aaaaaaaaaaaaaaaaaaaaaaaa";
    for (more, field) in [
        (json!({"name": ""}), "name"),
        (json!({"name": "a\n"}), "name"),
        (json!({"name": 1}), "name"),
        (json!({"maxRounds": 0}), "maxRounds"),
        (json!({"maxRounds": 101}), "maxRounds"),
        (json!({"maxRound": 1}), "maxRound"),
        (json!({"modelId": "model_aaaaaaaaaaaaaaaaaaaaaaaa"}), "modelId"),
        (json!({"modelId": missing}), "modelId"),
        (json!({"environmentId": "x"}), "environmentId"),
        (json!({"skillIds": ["actana_tables", "actana_files", missing]}), "skillIds[2]"),
        (json!({"skillIds": ["actana_tables", "actana_tables"]}), "skillIds[1]"),
        (json!({"skillIds": vec!["x"; 51]}), "skillIds"),
        (json!({"mcpServerIds": ["mcp_x"]}), "mcpServerIds[0]"),
        (json!({"template": ""}), "template"),
        (json!({"systemPrompt": "x".repeat((256 << 10) + 1)}), "systemPrompt"),
    ] {
        let mut sent = json!({"name": "a", "systemPrompt": ""});
        sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(
            &place.ask(Method::POST, "/api/agents", sent).await,
            400,
            "invalid_argument",
            field,
        );
    }
    place.end().await;
}

#[tokio::test]
async fn a_sandbox_is_told_everything_its_agent_names_and_what_is_gone_is_said() {
    let place = Place::start().await;
    let model = json!({
        "name": "big", "provider": "openai", "modelName": "m-1", "baseUrl": "http://127.0.0.1:9/v1",
        "apiKey": "sk-secret", "temperature": 0.5,
    });
    let model = place.make("/api/models", model).await;
    let environment = json!({
        "name": "prod", "variables": {"TOKEN": "t-secret"}, "setupScript": "echo hi",
    });
    let environment = place.make("/api/environments", environment).await;
    let stdio = json!({"type": "stdio", "command": "server", "args": ["-v"], "env": {"A": "b"}});
    let stdio = place.make("/api/mcp-servers", json!({"name": "git", "transport": stdio})).await;
    let http = json!({"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "h"}});
    let http = place.make("/api/mcp-servers", json!({"name": "web", "transport": http})).await;
    let agent = json!({
        "name": "Writer", "systemPrompt": "Write.", "modelId": model, "environmentId": environment,
        "maxRounds": 7, "skillIds": ["actana_files"], "mcpServerIds": [stdio, http],
    });
    let agent = place.make("/api/agents", agent).await;

    let session = place.session(Some(&agent)).await;
    let expected = json!({"variables": {"TOKEN": "t-secret"}, "setup_script": "echo hi"});
    assert_eq!(place.callback(&session, "env").await, (200, expected));
    let (status, config) = place.callback(&session, "config").await;
    assert_eq!(status, 200, "{config}");
    assert_eq!(config["system_prompt"], "Write.");
    assert_eq!(config["max_rounds"], 7);
    let expected = json!({
        "provider": "openai", "name": "m-1", "base_url": "http://127.0.0.1:9/v1",
        "api_key": "sk-secret", "temperature": 0.5,
    });
    assert_eq!(config["model"], expected);
    let expected = json!([
        {
            "transport": "stdio", "name": "git", "command": "server", "args": ["-v"],
            "env": {"A": "b"},
        },
        {
            "transport": "http", "name": "web", "url": "http://127.0.0.1:9/mcp",
            "headers": {"X-Key": "h"},
        },
    ]);
    assert_eq!(config["mcp_servers"], expected);
    assert_eq!(config["skills"][0]["id"], "actana_files");

    // What is gone all the same is said.
    for (kind, id, field) in [
        (ResourceKind::McpServer, &stdio, "mcpServerIds[0]"),
        (ResourceKind::Environment, &environment, "environmentId"),
        (ResourceKind::Model, &model, "modelId"),
    ] {
        place.forget(kind, id).await;
        let told = place.callback(&place.session(Some(&agent)).await, "config").await;
        refused(&told, 400, "failed_precondition", field);
        assert!(told.1["message"].as_str().unwrap().contains(id), "{}", told.1);
    }
    place.end().await;
}

#[tokio::test]
async fn what_an_agent_has_is_not_taken_away() {
    let place = Place::start().await;
    let model = json!({"name": "big", "provider": "openai", "modelName": "m-1"});
    let model = place.make("/api/models", model).await;
    let environment = place.make("/api/environments", json!({"name": "prod"})).await;
    let http = json!({"type": "http", "url": "http://127.0.0.1:9/mcp"});
    let http = place.make("/api/mcp-servers", json!({"name": "web", "transport": http})).await;
    let agent = json!({
        "name": "Writer", "systemPrompt": "Write.", "modelId": model, "environmentId": environment,
        "mcpServerIds": [http],
    });
    let agent = place.make("/api/agents", agent).await;
    for (kind, id) in [("models", &model), ("environments", &environment), ("mcp-servers", &http)] {
        let path = format!("/api/{kind}/{id}");
        refused(&place.ask(Method::DELETE, &path, Value::Null).await, 409, "in_use", "");
    }
    let path = format!("/api/agents/{agent}");
    let plain = json!({"name": "Writer", "systemPrompt": "Write."});
    assert_eq!(place.ask(Method::PUT, &path, plain).await.0, 200);
    let path = format!("/api/models/{model}");
    assert_eq!(place.ask(Method::DELETE, &path, Value::Null).await.0, 204);

    let session = place.session(Some(&agent)).await;
    assert_eq!(
        place.ask(Method::DELETE, &format!("/api/agents/{agent}"), Value::Null).await.0,
        204
    );
    let (status, body) = place.callback(&session, "config").await;
    assert_eq!((status, body["code"].as_str()), (404, Some("not_found")), "{body}");
    assert!(body["message"].as_str().unwrap().contains(&agent), "{body}");
    place.end().await;
}

#[tokio::test]
async fn the_assistant_has_the_default_model_and_the_skills_of_ours() {
    let place = Place::start().await;
    let config = async || {
        let session = place.session(None).await;
        let (status, config) = place.callback(&session, "config").await;
        assert_eq!(status, 200, "{config}");
        config
    };
    let bare = config().await;
    assert_eq!(bare["model"]["provider"], "scripted");
    let ids: Vec<&str> =
        bare["skills"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["actana_tables", "actana_files", "actana_workflow_editor"]);
    assert!(!bare["system_prompt"].as_str().unwrap().is_empty());

    let model = |name: &str| json!({"name": name, "provider": "anthropic", "modelName": name});
    place.make("/api/models", model("only")).await;
    assert_eq!(config().await["model"]["name"], "only");
    place.make("/api/models", model("another")).await;
    assert_eq!(config().await["model"]["provider"], "scripted");
    place.make("/api/models", model("default")).await;
    assert_eq!(config().await["model"]["name"], "default");
    place.end().await;
}
