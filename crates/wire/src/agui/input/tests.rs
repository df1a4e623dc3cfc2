//! Bodies that real clients sent, and bodies that nobody should send.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{BadInput, InputCall, InputContext, InputMessage, InputTool, RunAgentInput};
use crate::run::strategies::value;

fn parse(body: &Value) -> Result<RunAgentInput, BadInput> {
    RunAgentInput::parse(body.to_string().as_bytes())
}

/// The second turn of a conversation: the assistant asked a tool of the front
/// end's, and here is what it said.
fn second_turn() -> Vec<InputMessage> {
    vec![
        InputMessage::User { text: "hello".into() },
        InputMessage::Assistant {
            text: "hi".into(),
            calls: vec![InputCall { id: "c".into(), name: "ask".into(), args: json!({"a": 1}) }],
        },
        InputMessage::Tool { call_id: "c".into(), text: "42".into(), error: None },
    ]
}

#[test]
fn what_http_agent_sends_is_understood() {
    let body = json!({
        "threadId": "t", "runId": "70dcafd6", "protocolVersion": "1.0", "state": {},
        "messages": [
            {"id": "u", "role": "user", "content": "hello"},
            {"id": "q", "role": "reasoning", "content": "hm"},
            {"id": "m", "role": "assistant", "content": "hi", "toolCalls": [{
                "id": "c", "type": "function",
                "function": {"name": "ask", "arguments": "{\"a\":1}"},
            }]},
            {"id": "tr", "role": "tool", "content": "42", "toolCallId": "c"},
        ],
        "tools": [{"name": "ask", "description": "asks", "parameters": {"type": "object"}}],
        "context": [{"description": "d", "value": "v"}],
        "forwardedProps": {"harness": "builtin"},
    });
    let tool = InputTool {
        name: "ask".into(),
        description: "asks".into(),
        parameters: Some(json!({"type": "object"})),
    };
    let expected = RunAgentInput {
        thread_id: "t".into(),
        run_id: "70dcafd6".into(),
        parent_run_id: None,
        messages: second_turn(),
        tools: vec![tool],
        context: vec![InputContext { description: "d".into(), value: "v".into() }],
        forwarded_props: Map::from_iter([("harness".into(), json!("builtin"))]),
    };
    assert_eq!(parse(&body), Ok(expected.clone()));
    // Older ones name no version.
    let mut older = body;
    older.as_object_mut().unwrap().remove("protocolVersion");
    assert_eq!(parse(&older), Ok(expected));
}

#[test]
fn what_tanstack_sends_is_understood() {
    let input = parse(&json!({
        "threadId": "thread-1", "runId": "run-1", "state": {},
        "messages": [
            {"id": "msg-1", "metadata": {"tanstack": {"createdAt": "2026-11-16T03:42:48.443Z"}},
             "role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "reasoning", "id": "m-reasoning-2kl", "content": "hm"},
            {"id": "m", "metadata": {"tanstack": {}}, "role": "assistant", "content": "hi",
             "toolCalls": [{"id": "c", "type": "function",
                            "function": {"name": "ask", "arguments": "{\"a\":1}"}}]},
            {"role": "tool", "id": "tool-c", "toolCallId": "c", "content": "42",
             "metadata": {"tanstack": {"toolResult": {}}}},
        ],
        "tools": [], "context": [], "forwardedProps": {}, "data": {},
    }))
    .unwrap();
    assert_eq!((input.thread_id.as_str(), input.run_id.as_str()), ("thread-1", "run-1"));
    assert_eq!(input.messages, second_turn());
}

#[test]
fn what_may_be_missing_may_be_null() {
    let input = parse(&json!({
        "threadId": "t", "runId": "r", "parentRunId": null, "tools": null, "context": null,
        "forwardedProps": null, "state": null,
        "messages": [
            {"role": "developer", "content": "be kind"},
            {"role": "assistant", "content": null, "toolCalls": [
                {"id": "c", "function": {"name": "ask", "arguments": ""}},
                {"id": "d", "function": {"name": "ask", "arguments": "{\"a\":"}},
            ]},
            {"role": "tool", "toolCallId": "c", "content": "", "error": "broken"},
            {"role": "activity", "content": {"a": 1}},
        ],
    }))
    .unwrap();
    let call = |id: &str, args| InputCall { id: id.into(), name: "ask".into(), args };
    assert_eq!(
        input.messages,
        [
            InputMessage::System { text: "be kind".into() },
            InputMessage::Assistant {
                text: String::new(),
                calls: vec![call("c", json!({})), call("d", json!("{\"a\":"))],
            },
            InputMessage::Tool {
                call_id: "c".into(),
                text: String::new(),
                error: Some("broken".into()),
            },
        ]
    );
    assert_eq!((input.tools, input.context.len(), input.forwarded_props.len()), (vec![], 0, 0));
}

#[test]
fn arguments_that_could_not_be_passed_on_stay_text() {
    let args = |depth: usize| {
        let arguments = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let call = json!({"id": "c", "function": {"name": "ask", "arguments": arguments}});
        let messages = json!([{"role": "assistant", "toolCalls": [call]}]);
        let input = parse(&json!({"threadId": "t", "runId": "r", "messages": messages})).unwrap();
        let [InputMessage::Assistant { calls, .. }] = &input.messages[..] else { panic!() };
        calls[0].args.clone()
    };
    assert!(args(100).is_array());
    assert!(args(101).is_string());
    assert!(args(100_000).is_string());
}

#[track_caller]
fn refused(field: &str, value: Value, expected: &str) {
    let mut body = json!({"threadId": "t", "runId": "r", "messages": []});
    body[field] = value;
    assert_eq!(parse(&body).unwrap_err().to_string(), expected);
}

#[test]
fn a_fault_names_its_field() {
    refused("threadId", json!(1), "`threadId` is not a string");
    refused("runId", Value::Null, "`runId` is missing");
    refused("messages", json!({}), "`messages` is not a list");
    refused("messages", json!(["hi"]), "`messages[0]` is not an object");
    refused("messages", json!([{"content": "hi"}]), "`messages[0].role` is missing");
    let text_or_parts = "`messages[0].content` is not a string or a list of parts";
    refused("messages", json!([{"role": "user", "content": 1}]), text_or_parts);
    refused("messages", json!([{"role": "user"}]), "`messages[0].content` is missing");
    let part = json!([{"role": "user", "content": [{"type": "text", "text": 1}]}]);
    refused("messages", part, "`messages[0].content[0].text` is not a string");
    let image = json!([{"role": "user", "content": [{"type": "image", "source": {}}]}]);
    let only_text = "`messages[0].content[0]` is of type \"image\", and only text is understood";
    refused("messages", image, only_text);
    let call = json!([{"role": "assistant", "toolCalls": [{"id": "c", "function": {}}]}]);
    refused("messages", call, "`messages[0].toolCalls[0].function.name` is missing");
    let tool = json!([{"role": "tool", "content": ""}]);
    refused("messages", tool, "`messages[0].toolCallId` is missing");
    refused("tools", json!([{"description": ""}]), "`tools[0].name` is missing");
    let parameters = json!([{"name": "n", "parameters": true}]);
    refused("tools", parameters, "`tools[0].parameters` is not an object");
    refused("context", json!([{"description": ""}]), "`context[0].value` is missing");
    refused("forwardedProps", json!([]), "`forwardedProps` is not an object");
    assert_eq!(parse(&json!([])).unwrap_err().to_string(), "`the body` is not an object");
    let torn = RunAgentInput::parse(b"{").unwrap_err().to_string();
    assert!(torn.starts_with("the body is not JSON: EOF"), "{torn}");
}

#[test]
fn half_a_character_is_no_reason_to_refuse_a_conversation() {
    let body = br#"{"threadId": "t", "runId": "r", "messages": [
        {"id": "1", "role": "user", "content": "cut \ud83d"}]}"#;
    let input = RunAgentInput::parse(body).unwrap();
    assert!(format!("{:?}", input.messages[0]).contains("cut \u{fffd}"), "{input:?}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = RunAgentInput::parse(&body);
    }

    #[test]
    fn arbitrary_fields_never_panic(
        role in "system|user|assistant|tool|x", content in value(), calls in value(), tools in value(),
    ) {
        let message = json!({"role": role, "content": content, "toolCalls": [calls], "toolCallId": "c"});
        let body = json!({"threadId": "", "runId": "", "messages": [message], "tools": tools});
        if let Ok(input) = parse(&body) {
            prop_assert!(input.messages.len() <= 1);
        }
    }
}
