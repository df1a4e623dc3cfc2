//! Workflows through their routes, with a runner that does what it is told.

mod double;
mod server;
mod trouble;

use reqwest::Method;
use serde_json::{Value, json};
use wire::workspace::SessionId;

use double::{Act, Double};
use server::{Server, json_of, lines, until};

/// Lines as a runner may send them: blanks, escapes, fields that nobody knows.
const ODD_LOG: &str = "{ \"type\" : \"log\", \"level\":\"info\",\"message\":\"a\\u00e4 \\/ ä\",\"more\":{\"x\":1.50}}";
const RESULT: &str = r#"{"type":"result","message":"Hello","ts":1}"#;

/// start → one → end
fn one_agent(inputs: Value) -> Value {
    json!({
        "name": "One",
        "blocks": [
            { "id": "start", "type": "start" },
            { "id": "one", "type": "agents", "inputs": inputs },
            { "id": "end", "type": "respond", "inputs": { "data": "{{one.response}}" } },
        ],
        "edges": [{ "from": "start", "to": "one" }, { "from": "one", "to": "end" }],
    })
}

fn writer() -> Value {
    json!({ "agent": "Writer", "prompt": "Write." })
}

/// The type, block and status of every line of the engine's; the others as they are.
fn outline(lines: &[String]) -> Vec<String> {
    let outline = |line: &String| {
        let json = json_of(line);
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        match json["type"].as_str() {
            Some("execution") => format!("execution {}", text("status")),
            Some("block") => format!("{} {}", text("block"), text("status")),
            _ => line.clone(),
        }
    };
    lines.iter().map(outline).collect()
}

#[tokio::test]
async fn two_agents_in_a_row_hand_on_what_they_made() {
    let double = Double::start([
        vec![
            Act::Send(ODD_LOG),
            Act::Send("\n{\"type\":\"step\",\"id\":\"step_1\",\"name\":\"shell\",\"status\":"),
            Act::Send("\"running\",\"args\":{}}\n"),
            Act::Send("{\"type\":\"step\",\"id\":\"step_1\",\"name\":\"shell\",\"status\":\"failed\",\"error\":\"x\"}\r\n"),
            Act::WriteBack { name: "report.txt", content: "Mayflies live one day." },
            Act::Send("{\"type\":\"result\",\"message\":\"Found \\\"it\\\"\"}\n"),
        ],
        vec![Act::Send(RESULT), Act::Send("\n")],
    ])
    .await;
    let server = Server::with_agent(&double.url).await;
    let lines = server
        .lines(
            json!({
                "name": "Two",
                "blocks": [
                    { "id": "start", "type": "start" },
                    { "id": "one", "type": "agents",
                      "inputs": { "agent": "Writer", "prompt": "About {{start.topic}}: {{start.input}}" } },
                    { "id": "two", "type": "agents",
                      "inputs": { "agent": "Writer", "prompt": "{{one.response}} in {{one.files.0.name}}" } },
                    { "id": "keep", "type": "save_file", "inputs": { "files": "{{one.files}}" } },
                    { "id": "note", "type": "save_file",
                      "inputs": { "name": "note.md", "content": "# {{two.response}}" } },
                    { "id": "end", "type": "respond",
                      "inputs": { "data": { "text": "{{two.response}}", "kept": "{{keep.files}}" } } },
                ],
                "edges": [
                    { "from": "start", "to": "one" }, { "from": "one", "to": "two" },
                    { "from": "two", "to": "keep" }, { "from": "two", "to": "note" },
                    { "from": "keep", "to": "end" }, { "from": "note", "to": "end" },
                ],
            }),
            json!({ "topic": "mayflies" }),
        )
        .await;
    let expected = [
        "execution running",
        "start running",
        "start succeeded",
        "one running",
        ODD_LOG,
        r#"{"type":"step","id":"step_1","name":"shell","status":"running","args":{}}"#,
        "{\"type\":\"step\",\"id\":\"step_1\",\"name\":\"shell\",\"status\":\"failed\",\"error\":\"x\"}\r",
        r#"{"type":"result","message":"Found \"it\""}"#,
        "one succeeded",
        "two running",
        RESULT,
        "two succeeded",
        "keep running",
        "keep succeeded",
        "note running",
        "note succeeded",
        "end running",
        "end succeeded",
        "execution succeeded",
    ];
    assert_eq!(outline(&lines), expected);
    assert_eq!(
        double.prompts(),
        [r#"About mayflies: {"topic":"mayflies"}"#, r#"Found "it" in report.txt"#]
    );
    for dispatch in double.dispatches() {
        assert_eq!(dispatch.headers["x-api-key"], "key_for_the_runner");
        assert_eq!(dispatch.headers["accept"], "application/x-ndjson");
        assert_eq!(dispatch.body.get("chat_id"), None);
        assert_eq!(dispatch.body["on_disconnect"], "cancel");
    }
    let last = json_of(lines.last().unwrap());
    assert_eq!(last["outputs"]["text"], "Hello");
    let kept = last["outputs"]["kept"][0]["id"].as_str().unwrap();
    let path = format!("/api/workspace/files/{kept}/content");
    let content = server.send(Method::GET, &path, None, "*/*").await.text().await.unwrap();
    assert_eq!(content, "Mayflies live one day.");

    let id = last["id"].as_str().unwrap();
    let execution = server.get(&format!("/api/workspace/executions/{id}")).await;
    assert_eq!(execution["state"], "succeeded");
    assert_eq!(execution["outputs"], last["outputs"]);
    assert_eq!(execution["input"], json!({ "topic": "mayflies" }));
    let workflow = execution["workflowId"].as_str().unwrap();
    let listed = format!("/api/workspace/executions?workflowId={workflow}&limit=1");
    assert_eq!(server.get(&listed).await["items"][0]["id"], id);
    let bag = server.get(&format!("/api/workspace/executions/{id}/files")).await;
    assert_eq!(bag["items"][0]["name"], "report.txt");
    let file = bag["items"][0]["id"].as_str().unwrap();
    let path = format!("/api/workspace/executions/{id}/files/{file}/content");
    let content = server.send(Method::GET, &path, None, "*/*").await.text().await.unwrap();
    assert_eq!(content, "Mayflies live one day.");

    let path = format!("/api/workspace/executions/{id}/stream");
    for after in 0..=lines.len() {
        let rest = server.get_lines(&format!("{path}?after={after}")).await;
        assert_eq!(rest, lines[after..], "after {after}");
    }
}

#[tokio::test]
async fn an_agent_that_fails_ends_the_execution() {
    let error = r#"{"type":"error","code":"model_timeout","message":"too slow"}"#;
    let double = Double::start([vec![Act::Send(error), Act::Send("\n")]]).await;
    let server = Server::with_agent(&double.url).await;
    let lines = server.lines(one_agent(writer()), Value::Null).await;
    let expected = [
        "execution running",
        "start running",
        "start succeeded",
        "one running",
        error,
        "one failed",
        "execution failed",
    ];
    assert_eq!(outline(&lines), expected);
    let (block, execution) = (json_of(&lines[5]), json_of(&lines[6]));
    assert_eq!((&block["code"], &block["error"]), (&json!("model_timeout"), &json!("too slow")));
    assert_eq!(execution["code"], "model_timeout");
    assert!(execution["error"].as_str().unwrap().contains("block `one`"), "{execution}");
    let id = execution["id"].as_str().unwrap();
    let stored = server.get(&format!("/api/workspace/executions/{id}")).await;
    assert_eq!((&stored["state"], &stored["error"]), (&json!("failed"), &execution["error"]));
}

#[tokio::test]
async fn a_runner_that_breaks_the_rules_is_told_and_its_line_is_not_passed_on() {
    let forged = r#"{"type":"execution","id":"exec_1","status":"succeeded"}"#;
    for (sent, code) in [
        (forged, "bad_stream"),
        ("nonsense", "bad_stream"),
        ("", "bad_stream"),
        (r#"{"type":"step","id":"step_1","name":"x","status":"failed","error":"x"}"#, "bad_stream"),
    ] {
        let script = vec![Act::Send(ODD_LOG), Act::Send("\n"), Act::Send(sent), Act::Send("\n")];
        let double = Double::start([script]).await;
        let server = Server::with_agent(&double.url).await;
        let lines = server.lines(one_agent(writer()), Value::Null).await;
        let outline = outline(&lines);
        assert_eq!(outline[4..], [ODD_LOG, "one failed", "execution failed"], "{sent:?}");
        assert_eq!(json_of(&lines[5])["code"], code, "{sent:?}");
    }
}

#[tokio::test]
async fn a_runner_that_goes_away_or_is_not_there_is_told() {
    for (script, code) in [
        (vec![Act::Send(ODD_LOG), Act::Send("\n")], "sandbox_lost"),
        (vec![Act::Send("{\"type\":\"result\"")], "sandbox_lost"),
        (vec![], "sandbox_lost"),
    ] {
        let double = Double::start([script]).await;
        let server = Server::with_agent(&double.url).await;
        let lines = server.lines(one_agent(writer()), Value::Null).await;
        assert_eq!(json_of(&lines[lines.len() - 2])["code"], code, "{lines:?}");
    }
    let server = Server::with_agent("http://127.0.0.1:1").await;
    let lines = server.lines(one_agent(writer()), Value::Null).await;
    let last = json_of(lines.last().unwrap());
    assert_eq!(last["code"], "dispatch_failed");
    assert!(last["error"].as_str().unwrap().contains("SANDBOX_URL"), "{last}");
}

#[tokio::test]
async fn what_an_agents_block_names_has_to_be_there() {
    let server = Server::with_agent("").await;
    let inputs = json!({ "agent": "Nobody", "prompt": "x", "sandboxUrl": "http://127.0.0.1:1" });
    for (name, inputs, code) in [
        ("a", inputs, "no_agent"),
        ("b", writer(), "no_sandbox_url"),
        ("c", json!({ "agent": "Writer", "prompt": "{{start.topic}}" }), "bad_input"),
    ] {
        let mut graph = one_agent(inputs);
        graph["name"] = json!(name);
        let lines = server.lines(graph, Value::Null).await;
        assert_eq!(json_of(lines.last().unwrap())["code"], code, "{lines:?}");
    }
}

#[tokio::test]
async fn the_nearest_sandbox_url_counts_and_only_the_servers_own_gets_a_key() {
    let script = || vec![Act::Send(RESULT), Act::Send("\n")];
    let own = Double::start([script(), script()]).await;
    let environments = Double::start([script()]).await;
    let blocks = Double::start([script()]).await;
    let server = Server::with_agent(&own.url).await;
    let run = async |name: &str, environment: Option<&str>, block: Option<&str>| {
        let mut inputs = writer();
        if let Some(url) = block {
            inputs["sandboxUrl"] = json!(url);
        }
        let mut graph = one_agent(inputs);
        graph["name"] = json!(name);
        if let Some(url) = environment {
            graph["environment"] = json!({ "variables": { "SANDBOX_URL": url } });
        }
        let lines = server.lines(graph, Value::Null).await;
        assert_eq!(json_of(lines.last().unwrap())["status"], "succeeded", "{lines:?}");
    };
    run("server", None, None).await;
    run("environment", Some(&environments.url), None).await;
    run("block", Some(&environments.url), Some(&format!("{}/", blocks.url))).await;
    run("named", None, Some(&own.url)).await;
    let keys = |double: &Double| -> Vec<Option<String>> {
        let key = |one: double::Dispatch| {
            assert!(!one.headers.contains_key("authorization"));
            Some(one.headers.get("x-api-key")?.to_str().unwrap().to_owned())
        };
        double.dispatches().into_iter().map(key).collect()
    };
    let ours = Some("key_for_the_runner".to_owned());
    assert_eq!(keys(&own), [ours.clone(), ours]);
    assert_eq!(keys(&environments), [None]);
    assert_eq!(keys(&blocks), [None]);
}

#[tokio::test]
async fn a_cancel_reaches_the_runner_and_ends_the_session() {
    let double = Double::start([vec![Act::Send(ODD_LOG), Act::Send("\n"), Act::Hang]]).await;
    let server = Server::with_agent(&double.url).await;
    let workflow = server.workflow(one_agent(writer())).await;
    let path = format!("/api/workspace/workflows/{workflow}/execute");
    let (status, started) = server.ask(Method::POST, &path, Some(&json!({}))).await;
    assert_eq!((status, &started["state"]), (202, &json!("running")));
    let id = started["executionId"].as_str().unwrap();
    assert_eq!(started["streamUrl"], format!("/api/workspace/executions/{id}/stream"));
    let dispatch = until(async || double.dispatches().pop()).await;
    let agent_url = dispatch.body["agent_url"].as_str().unwrap();
    let (address, session) = agent_url.rsplit_once('/').unwrap();
    assert_eq!(address, format!("{}/api/agents/sandbox", server.url));
    let session = SessionId::parse(session).unwrap();
    let row = server.store.session(&session).await.unwrap().unwrap();
    assert_eq!((row.scope.as_str(), row.work.as_str(), row.settled_at), (id, "one", None));

    let cancel = format!("/api/workspace/executions/{id}/cancel");
    let (status, cancelled) = server.ask(Method::POST, &cancel, None).await;
    assert_eq!((status, &cancelled["state"]), (200, &json!("cancelled")));
    dispatch.hung_up.cancelled().await;
    let row = server.store.session(&session).await.unwrap().unwrap();
    assert!(row.settled_at.is_some());
    let lines = server.get_lines(&format!("/api/workspace/executions/{id}/stream")).await;
    assert_eq!(outline(&lines)[4..], [ODD_LOG, "one failed", "execution cancelled"]);
    assert_eq!(json_of(&lines[5])["code"], "cancelled");
    let (status, again) = server.ask(Method::POST, &cancel, None).await;
    assert_eq!((status, again), (200, cancelled));
}

#[tokio::test]
async fn a_caller_that_hangs_up_cancels_unless_it_said_otherwise() {
    let ends = || vec![Act::Hang];
    let double = Double::start([ends(), ends()]).await;
    let server = Server::with_agent(&double.url).await;
    let workflow = server.workflow(one_agent(writer())).await;
    for (on_disconnect, state) in [("cancel", "cancelled"), ("continue", "running")] {
        let body = json!({ "onDisconnect": on_disconnect });
        let answer = server.execute(&workflow, body).await;
        let id = answer.headers()["x-mayfly-execution-id"].to_str().unwrap().to_owned();
        let living = |one: &double::Dispatch| !one.hung_up.is_cancelled();
        let dispatch = until(async || double.dispatches().pop().filter(living)).await;
        drop(answer);
        let path = format!("/api/workspace/executions/{id}");
        if on_disconnect == "cancel" {
            dispatch.hung_up.cancelled().await;
            until(async || (server.get(&path).await["state"] == state).then_some(())).await;
        } else {
            // A follower that comes and goes means nothing either way.
            drop(server.send(Method::GET, &format!("{path}/stream"), None, "*/*").await);
            assert_eq!(server.get(&path).await["state"], state);
            assert!(!dispatch.hung_up.is_cancelled());
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_its_executions_with_a_last_line() {
    let double = Double::start([vec![Act::Hang]]).await;
    let server = Server::with_agent(&double.url).await;
    let workflow = server.workflow(one_agent(writer())).await;
    let answer = server.execute(&workflow, json!({})).await;
    let dispatch = until(async || double.dispatches().pop()).await;
    server.workspace.close().await;
    dispatch.hung_up.cancelled().await;
    let lines = lines(&answer.text().await.unwrap());
    let last = json_of(lines.last().unwrap());
    assert_eq!((&last["status"], &last["code"]), (&json!("failed"), &json!("server_restarted")));
}

#[tokio::test]
async fn what_a_server_leaves_open_the_next_one_ends() {
    let double = Double::start([vec![Act::Hang]]).await;
    let server = Server::with_agent(&double.url).await;
    let workflow = server.workflow(one_agent(writer())).await;
    let answer = server.execute(&workflow, json!({})).await;
    let id = answer.headers()["x-mayfly-execution-id"].to_str().unwrap().to_owned();
    let dispatch = until(async || double.dispatches().pop()).await;
    let agent_url = dispatch.body["agent_url"].as_str().unwrap();
    let session = SessionId::parse(agent_url.rsplit_once('/').unwrap().1).unwrap();

    // This server knows of the execution, and leaves it alone.
    server.workspace.take_up().await;
    let path = format!("/api/workspace/executions/{id}");
    assert_eq!(server.get(&path).await["state"], "running");
    // The next one has it from the store only.
    server.next().take_up().await;
    let execution = server.get(&path).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("failed"), &json!("server_restarted"))
    );
    let row = server.store.session(&session).await.unwrap().unwrap();
    assert!(row.settled_at.is_some());
    let events = server.store.events_after(&id, 0, 100).await.unwrap();
    assert_eq!(json_of(&events.last().unwrap().data)["code"], "server_restarted");
}

#[tokio::test]
async fn a_workflow_that_cannot_be_carried_out_is_not_stored() {
    let server = Server::start("").await;
    let path = "/api/workspace/workflows";
    let mut graph = one_agent(writer());
    graph["blocks"][2]["inputs"]["data"] = json!(["{{one.answer}}"]);
    let (status, body) = server.ask(Method::POST, path, Some(&graph)).await;
    assert_eq!((status, &body["field"]), (400, &json!("blocks[2].inputs.data[0]")));
    graph["blocks"][1]["type"] = json!("agent");
    let (status, body) = server.ask(Method::POST, path, Some(&graph)).await;
    assert_eq!((status, &body["field"]), (400, &json!("blocks[1].type")));

    let id = server.workflow(one_agent(writer())).await;
    let (status, body) = server.ask(Method::POST, path, Some(&one_agent(writer()))).await;
    assert_eq!((status, &body["code"]), (409, &json!("name_taken")));
    let one = format!("{path}/{id}");
    let mut stored = server.get(&one).await;
    assert_eq!(stored["blocks"][1], one_agent(writer())["blocks"][1]);
    // What was read can be written back with a change.
    stored["name"] = json!("Renamed");
    let (status, body) = server.ask(Method::PUT, &one, Some(&stored)).await;
    assert_eq!((status, &body["name"]), (200, &json!("Renamed")));
    let (status, body) =
        server.ask(Method::POST, &format!("{one}/execute"), Some(&json!({ "inputs": 1 }))).await;
    assert_eq!((status, &body["field"]), (400, &json!("inputs")));
    let (status, _) = server.ask(Method::DELETE, &one, None).await;
    assert_eq!(status, 204);
    let (status, _) = server.ask(Method::POST, &format!("{one}/execute"), Some(&json!({}))).await;
    assert_eq!(status, 404);
}
