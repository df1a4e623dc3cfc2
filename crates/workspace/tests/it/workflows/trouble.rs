//! Executions that meet trouble: callers that go away, lost answers, deep values.

use reqwest::Method;
use serde_json::{Value, json};
use store::StreamEvent;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{
    double::{Act, Double},
    one_agent, outline,
    server::{Server, json_of, lines, until},
    writer,
};

/// start → end, with that answer.
fn answer(data: Value) -> Value {
    json!({
        "name": "Answer",
        "blocks": [
            { "id": "start", "type": "start" },
            { "id": "end", "type": "respond", "inputs": { "data": data } },
        ],
        "edges": [{ "from": "start", "to": "end" }],
    })
}

fn deep(levels: usize, inside: Value) -> Value {
    (0..levels).fold(inside, |value, _| json!([value]))
}

#[tokio::test]
async fn an_answer_of_too_many_levels_fails_and_executions_stay_readable() {
    let server = Server::start("").await;
    let graph = answer(deep(100, json!("{{start.input}}")));
    let lines = server.lines(graph, deep(100, Value::Null)).await;
    let last = json_of(lines.last().unwrap());
    assert_eq!((&last["status"], &last["code"]), (&json!("failed"), &json!("bad_input")));
    let (status, page) = server.ask(Method::GET, "/api/workspace/executions", None).await;
    assert_eq!((status, &page["items"][0]["state"]), (200, &json!("failed")));
}

#[tokio::test]
async fn a_caller_that_goes_away_at_once_leaves_no_execution_open() {
    let server = Server::start("").await;
    let workflow = server.workflow(answer(json!("x"))).await;
    let address = server.url.strip_prefix("http://").unwrap();
    let request = format!(
        "POST /api/workspace/workflows/{workflow}/execute HTTP/1.1\r\nhost: {address}\r\n\
         x-api-key: key_of_red\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    for _ in 0..100 {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
    }
    let begun = async || server.get("/api/workspace/executions").await["items"][0].clone();
    until(async || Some(begun().await).filter(|row| !row.is_null())).await;
    let none_open = async || server.store.open_executions().await.unwrap().is_empty();
    until(async || none_open().await.then_some(())).await;
}

#[tokio::test]
async fn an_execution_ends_although_the_number_of_a_line_is_taken() {
    let result = "{\"type\":\"result\",\"message\":\"Hello\"}\n";
    let script = vec![Act::Hang, Act::Send(result)];
    let double = Double::start([script]).await;
    let server = Server::with_agent(&double.url).await;
    let workflow = server.workflow(one_agent(writer())).await;
    let answer = server.execute(&workflow, json!({})).await;
    let id = answer.headers()["x-mayfly-execution-id"].to_str().unwrap().to_owned();
    until(async || double.dispatches().pop()).await;
    let (last, _) = server.store.last_event(&id).await.unwrap().unwrap();
    // As a write leaves it whose answer was lost for good.
    let lost = StreamEvent {
        seq: last + 1,
        kind: "line".to_owned(),
        data: r#"{"type":"log","level":"info","message":"lost"}"#.to_owned(),
        upstream: None,
    };
    server.store.append_events(&id, &[lost]).await.unwrap();
    let cancel = format!("/api/workspace/executions/{id}/cancel");
    let (status, row) = server.ask(Method::POST, &cancel, None).await;
    assert_eq!((status, &row["state"]), (200, &json!("cancelled")));
    let told = outline(&lines(&answer.text().await.unwrap()));
    assert_eq!(told.last().map(String::as_str), Some("execution cancelled"), "{told:?}");
}
