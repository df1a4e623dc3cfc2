//! What Codex 0.166.0 really wrote, read again. The transcripts were recorded
//! against a scripted model; paths in them are made plain.

use serde_json::{Value, json};
use wire::run::{Level, Outcome};

use super::super::questions::Question;
use super::{Decoder, Heard, Own, Verdict};

macro_rules! transcript {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/transcripts/codex/", $name, ".jsonl"))
    };
}

/// Everything that a transcript says but answers to requests, with the pieces
/// of one message put together. Questions are denied, as by a policy.
fn hear(transcript: &str) -> Vec<Heard> {
    let mut decoder = Decoder::default();
    let mut heard: Vec<Heard> = Vec::new();
    for line in transcript.lines() {
        for next in decoder.decode(line) {
            match (heard.last_mut(), next) {
                (_, Heard::Own(Own::Answer { outcome, .. })) => {
                    let answer = outcome.unwrap();
                    if let Some(thread) = answer.pointer("/thread/id").and_then(Value::as_str) {
                        decoder.follow(thread);
                    }
                }
                (
                    Some(
                        Heard::Text { message_id, delta } | Heard::Reasoning { message_id, delta },
                    ),
                    Heard::Text { message_id: id, delta: piece }
                    | Heard::Reasoning { message_id: id, delta: piece },
                ) if *message_id == id => delta.push_str(&piece),
                (_, next) => {
                    if let Heard::Own(Own::Question {
                        question:
                            Question::Command { item, .. }
                            | Question::FileChange { item, .. }
                            | Question::Tool { item, .. },
                        ..
                    }) = &next
                    {
                        decoder.denied(item.clone(), "because".to_owned());
                    }
                    heard.push(next);
                }
            }
        }
    }
    // The scripted model's name is one that Codex does not know.
    let unknown = |heard: &Heard| {
        let Heard::Log { level: Level::Debug, message } = heard else { return false };
        message.starts_with("Model metadata for `fake-model`")
    };
    heard.retain(|heard| !unknown(heard));
    heard
}

fn text(message_id: &str, delta: &str) -> Heard {
    Heard::Text { message_id: message_id.to_owned(), delta: delta.to_owned() }
}

fn reasoning(message_id: &str) -> Heard {
    Heard::Reasoning { message_id: message_id.to_owned(), delta: "Thinking about it.".to_owned() }
}

fn started(id: &str, name: &str, args: Value) -> Heard {
    Heard::CallStarted { id: id.to_owned(), name: name.to_owned(), args }
}

fn succeeded(id: &str, result: Value) -> Heard {
    Heard::CallEnded { id: id.to_owned(), outcome: Outcome::Succeeded { result, truncated: false } }
}

fn failed(id: &str, error: &str, result: Option<Value>) -> Heard {
    let outcome = Outcome::Failed { error: error.to_owned(), result };
    Heard::CallEnded { id: id.to_owned(), outcome }
}

fn question(number: u64, question: Question) -> Heard {
    Heard::Own(Own::Question { id: json!(number), question })
}

fn done() -> Heard {
    Heard::Own(Own::Ended(Verdict::Message("All done.".to_owned())))
}

const WRITE: &str = "/bin/bash -lc 'echo from-tool > hello.txt && cat hello.txt'";
const READ: &str = "/bin/bash -lc 'cat missing.txt'";

#[test]
fn text_and_thoughts_come_in_pieces_and_once() {
    let heard = hear(transcript!("text"));
    assert_eq!(heard, [reasoning("msg_1"), text("msg_2", "All done."), done()]);
}

#[test]
fn a_thread_that_goes_on_says_the_same_as_a_new_one() {
    let heard = hear(transcript!("resumed"));
    assert_eq!(heard, [reasoning("msg_1"), text("msg_2", "All done."), done()]);
}

#[test]
fn commands_are_steps_with_their_output() {
    let heard = hear(transcript!("tool"));
    let output = json!({"aggregated_output": "from-tool\n", "exit_code": 0, "status": "completed"});
    let error = "cat: missing.txt: No such file or directory\n";
    let none = json!({"aggregated_output": error, "exit_code": 1, "status": "failed"});
    let expected = [
        reasoning("msg_1"),
        text("msg_2", "Let me see. "),
        started("call_4", "command_execution", json!({"command": WRITE})),
        succeeded("call_4", output),
        reasoning("msg_3"),
        started("call_8", "command_execution", json!({"command": READ})),
        failed("call_8", "exit status 1", Some(none)),
        reasoning("msg_4"),
        text("msg_5", "All done."),
        done(),
    ];
    assert_eq!(heard, expected);
}

/// What the patch of the transcripts does.
fn changes(first: &str, first_kind: &str) -> Value {
    json!([
        {"path": format!("/root/workspace/{first}"), "kind": first_kind},
        {"path": "/root/workspace/w.txt", "kind": "add"},
    ])
}

#[test]
fn a_patch_is_a_step_that_names_its_files() {
    let heard = hear(transcript!("patch"));
    let changes = changes("hello.txt", "update");
    let expected = [
        text("msg_1", "Let me see. "),
        started("call_4", "file_change", json!({"changes": changes})),
        succeeded("call_4", json!({"changes": changes, "status": "completed"})),
        text("msg_2", "All done."),
        done(),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn the_callers_tools_are_left_to_the_host() {
    let heard = hear(transcript!("mcp"));
    let expected = [
        text("msg_1", "Let me see. "),
        started("call_4", "mcp__facts__echo_fact", json!({"fact": "x"})),
        succeeded("call_4", json!("fact: {'fact': 'x'}")),
        text("msg_2", "All done."),
        done(),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_command_that_is_asked_about_and_denied_says_why() {
    let heard = hear(transcript!("denied"));
    let command =
        |item: &str, line: &str| Question::Command { item: item.to_owned(), line: line.to_owned() };
    let expected = [
        text("msg_1", "Let me see. "),
        started("call_4", "command_execution", json!({"command": WRITE})),
        question(0, command("call_4", WRITE)),
        failed("call_4", "because", None),
        started("call_7", "command_execution", json!({"command": READ})),
        question(1, command("call_7", READ)),
        failed("call_7", "because", None),
        text("msg_2", "All done."),
        done(),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn questions_about_tools_and_patches_name_what_they_are_about() {
    let tool =
        |item: &str, name: &str| Question::Tool { item: item.to_owned(), name: name.to_owned() };
    let questions = |heard: Vec<Heard>| -> Vec<Heard> {
        heard
            .into_iter()
            .filter(|heard| matches!(heard, Heard::Own(Own::Question { .. })))
            .collect()
    };
    let expected = [
        question(0, tool("call_4", "mcp__facts__echo_fact")),
        question(1, tool("call_7", "echo_fact")),
    ];
    assert_eq!(questions(hear(transcript!("mcp-denied"))), expected);
    let paths = ["/root/workspace/hello.txt", "/root/workspace/w.txt"];
    let paths = paths.map(str::to_owned).to_vec();
    let expected = [question(0, Question::FileChange { item: "call_4".to_owned(), paths })];
    assert_eq!(questions(hear(transcript!("patch-denied"))), expected);
}

#[test]
fn of_calls_side_by_side_the_one_that_is_named_is_meant() {
    let mut decoder = Decoder::default();
    decoder.follow("t");
    for (id, tool) in [("a", "read"), ("b", "write"), ("c", "reader")] {
        let item = json!({"type": "mcpToolCall", "id": id, "server": "s", "tool": tool,
                          "arguments": {}, "status": "inProgress"});
        let params = json!({"threadId": "t", "item": item});
        decoder.decode(&json!({"method": "item/started", "params": params}).to_string());
    }
    let mut ask = |tool: &str| {
        let params = json!({"serverName": "s", "message": format!("Allow tool \"{tool}\"?"),
            "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": {}}});
        let asked = json!({"method": "mcpServer/elicitation/request", "id": 1, "params": params});
        decoder.decode(&asked.to_string())
    };
    for (tool, item) in [("read", "a"), ("write", "b"), ("reader", "c")] {
        let name = format!("mcp__s__{tool}");
        let expected = question(1, Question::Tool { item: item.to_owned(), name });
        assert_eq!(ask(tool), [expected]);
    }
}

#[test]
fn a_turn_that_fails_ends_in_the_providers_words() {
    let failed = |words: &str| Heard::Own(Own::Ended(Verdict::Failed(words.to_owned())));
    assert_eq!(hear(transcript!("refused")), [failed("the provider says no")]);
    let words = "unexpected status 401 Unauthorized: the provider says no";
    let heard = hear(transcript!("retried"));
    assert_eq!(heard.len(), 2);
    let Heard::Log { level: Level::Warn, message } = &heard[0] else { panic!("{heard:?}") };
    assert!(message.starts_with(&format!("Reconnecting... 1/1: {words}")), "{message}");
    assert_eq!(heard[1], failed(words));
}

/// What one line says to a decoder that follows `t` and knows nothing else.
fn line(line: Value) -> Vec<Heard> {
    let mut decoder = Decoder::default();
    decoder.follow("t");
    decoder.decode(&line.to_string())
}

#[test]
fn what_a_sub_agent_does_is_not_told_and_its_questions_are_asked() {
    let mut decoder = Decoder::default();
    decoder.follow("t");
    let item = json!({"type": "fileChange", "id": "c", "status": "inProgress",
                      "changes": [{"path": "/a", "kind": {"type": "update", "move_path": "/b"}}]});
    let started = json!({"method": "item/started", "params": {"threadId": "u", "item": item}});
    assert_eq!(decoder.decode(&started.to_string()), []);
    let asked = json!({"method": "item/fileChange/requestApproval", "id": 4,
                       "params": {"threadId": "u", "itemId": "c", "grantRoot": null}});
    let paths = vec!["/a".to_owned(), "/b".to_owned()];
    let expected = question(4, Question::FileChange { item: "c".to_owned(), paths });
    assert_eq!(decoder.decode(&asked.to_string()), [expected]);
    let over = json!({"method": "turn/completed", "params": {"threadId": "u",
                      "turn": {"status": "completed"}}});
    assert_eq!(decoder.decode(&over.to_string()), []);
}

#[test]
fn a_message_that_did_not_come_in_pieces_comes_whole() {
    let complete = |item: Value| {
        line(json!({"method": "item/completed", "params": {"threadId": "t", "item": item}}))
    };
    let item = json!({"type": "agentMessage", "id": "m", "text": "Hello."});
    assert_eq!(complete(item), [text("msg_1", "Hello.")]);
    let item = json!({"type": "reasoning", "id": "r", "summary": ["a", "b"], "content": ["c"]});
    let whole = Heard::Reasoning { message_id: "msg_1".to_owned(), delta: "a\n\nb".to_owned() };
    assert_eq!(complete(item), [whole]);
    let item = json!({"type": "webSearch", "id": "w", "query": "q", "action": null});
    let expected = [
        started("w", "web_search", json!({"query": "q"})),
        succeeded("w", json!({"query": "q", "action": null})),
    ];
    assert_eq!(complete(item), expected);
}

#[test]
fn an_id_that_comes_again_is_another_message() {
    let mut decoder = Decoder::default();
    decoder.follow("t");
    let long = "m".repeat(1000);
    let mut hear = |method: &str, params: Value| {
        let mut params = params;
        params["threadId"] = json!("t");
        decoder.decode(&json!({"method": method, "params": params}).to_string())
    };
    for id in ["msg_1", "msg_2"] {
        let piece = json!({"itemId": long, "delta": "Hello."});
        assert_eq!(hear("item/agentMessage/delta", piece), [text(id, "Hello.")]);
        let item = json!({"item": {"type": "agentMessage", "id": long, "text": "Hello."}});
        assert_eq!(hear("item/completed", item), []);
    }
}

#[test]
fn of_two_kinds_of_reasoning_the_first_is_told() {
    let mut decoder = Decoder::default();
    decoder.follow("t");
    let mut hear = |kind: &str, index: u64, delta: &str| {
        let params = json!({"threadId": "t", "itemId": "r", "summaryIndex": index, "delta": delta});
        decoder.decode(&json!({"method": kind, "params": params}).to_string())
    };
    let piece = |delta: &str| {
        [Heard::Reasoning { message_id: "msg_1".to_owned(), delta: delta.to_owned() }]
    };
    assert_eq!(hear("item/reasoning/summaryPartAdded", 0, ""), []);
    assert_eq!(hear("item/reasoning/summaryTextDelta", 0, "a"), piece("a"));
    assert_eq!(hear("item/reasoning/textDelta", 0, "long"), []);
    assert_eq!(hear("item/reasoning/summaryPartAdded", 1, ""), piece("\n\n"));
}

#[test]
fn what_nobody_can_answer_is_known_for_it() {
    let ask = |method: &str, params: Value| {
        let mut heard = line(json!({"method": method, "id": 1, "params": params}));
        match heard.pop() {
            Some(Heard::Own(Own::Question { question, .. })) => question,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask("item/permissions/requestApproval", json!({})), Question::Permissions);
    assert_eq!(ask("item/tool/requestUserInput", json!({})), Question::Choices);
    assert_eq!(ask("mcpServer/elicitation/request", json!({"mode": "url"})), Question::Form);
    assert_eq!(ask("attestation/generate", Value::Null), Question::Unknown);
    let host = json!({"itemId": "c", "command": "curl h", "networkApprovalContext": {"host": "h"}});
    let expected = Question::Network { item: "c".to_owned(), host: "h".to_owned() };
    assert_eq!(ask("item/commandExecution/requestApproval", host), expected);
}

#[test]
fn what_is_not_known_says_nothing() {
    assert_eq!(Decoder::default().decode("no JSON"), []);
    for params in [json!(null), json!(1), json!([]), json!({"item": {}}), json!({"turn": 1})] {
        for method in ["item/started", "item/completed", "turn/completed", "error", "new/thing"] {
            assert_eq!(line(json!({"method": method, "params": params})), [], "{method}");
        }
    }
    assert_eq!(line(json!({"id": "text", "result": {}})), []);
    assert_eq!(line(json!([])), []);
}
