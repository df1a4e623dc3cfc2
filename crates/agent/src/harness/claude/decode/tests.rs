//! What Claude Code 2.1.197 really printed, read again. The transcripts were
//! recorded against a scripted model; ids, paths and long lists in them are
//! made plain.

use serde_json::{Value, json};
use wire::run::{Level, Outcome};

use super::{Decoder, Heard, Own, Question, Verdict};

macro_rules! transcript {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/transcripts/claude-code/", $name, ".jsonl"))
    };
}

/// Everything that a transcript says but its first word, which is the session,
/// with the pieces of one message put together.
fn hear(transcript: &str) -> Vec<Heard> {
    let mut decoder = Decoder::default();
    let mut heard: Vec<Heard> = Vec::new();
    for next in transcript.lines().flat_map(|line| decoder.decode(line)) {
        match (heard.last_mut(), next) {
            (_, Heard::Own(Own::Asking)) => {}
            (
                Some(Heard::Text { message_id, delta }),
                Heard::Text { message_id: id, delta: piece },
            ) if *message_id == id => delta.push_str(&piece),
            (_, next) => heard.push(next),
        }
    }
    let Heard::Own(Own::Session { id, model, tools }) = heard.remove(0) else {
        panic!("{heard:?}")
    };
    assert_eq!(id, "00000000-0000-4000-8000-000000000001");
    assert_eq!(model, "fake-model");
    assert!(tools.contains(&"Bash".to_owned()), "{tools:?}");
    heard
}

fn text(message_id: &str, delta: &str) -> Heard {
    Heard::Text { message_id: message_id.to_owned(), delta: delta.to_owned() }
}

fn reasoning() -> Heard {
    Heard::Reasoning { message_id: "msg_1".into(), delta: "Thinking about it. ".into() }
}

fn started(name: &str, args: Value) -> Heard {
    Heard::CallStarted { id: "toolu_1".into(), name: name.into(), args }
}

fn succeeded(result: &str) -> Heard {
    let outcome = Outcome::Succeeded { result: json!(result), truncated: false };
    Heard::CallEnded { id: "toolu_1".into(), outcome }
}

fn failed(error: &str) -> Heard {
    let outcome = Outcome::Failed { error: error.into(), result: None };
    Heard::CallEnded { id: "toolu_1".into(), outcome }
}

fn said(message: &str) -> Heard {
    Heard::Own(Own::Ended(Verdict::Message(message.to_owned())))
}

/// A turn with one call in it.
#[track_caller]
fn check_call(transcript: &str, call: Vec<Heard>) {
    let begin = vec![reasoning(), text("msg_1", "Let me run. ")];
    let end = vec![text("msg_2", "All done."), said("All done.")];
    assert_eq!(hear(transcript), [begin, call, end].concat());
}

#[test]
fn text_comes_in_pieces_and_only_once() {
    let expected =
        vec![reasoning(), text("msg_1", "Hello, world. Bye."), said("Hello, world. Bye.")];
    assert_eq!(hear(transcript!("text")), expected);
    let mut decoder = Decoder::default();
    let heard = transcript!("text").lines().flat_map(|line| decoder.decode(line));
    let pieces = heard.filter(|heard| matches!(heard, Heard::Text { .. }));
    assert_eq!(pieces.count(), 3);
}

#[test]
fn a_file_is_written_once_the_policy_was_asked() {
    let path = "/root/workspace/w.txt";
    let input = json!({"file_path": path, "content": "written\n"});
    let question = Heard::Own(Own::Question {
        request_id: "00000000-0000-4000-8000-000000000022".into(),
        question: Question::BeforeUse { tool: "Write".into(), input: input.clone() },
    });
    let result = format!(
        "File created successfully at: {path} (file state is current in your context — no need \
         to Read it back)"
    );
    check_call(transcript!("write"), vec![started("Write", input), question, succeeded(&result)]);
}

#[test]
fn a_denied_tool_fails_in_the_words_of_the_policy() {
    let input =
        json!({"command": "echo from-tool > hello.txt && cat hello.txt", "description": "d"});
    let question = Heard::Own(Own::Question {
        request_id: "00000000-0000-4000-8000-000000000020".into(),
        question: Question::BeforeUse { tool: "Bash".into(), input: input.clone() },
    });
    let error = "the policy denies the command `echo from-tool > hello.txt && cat hello.txt`";
    check_call(transcript!("denied-tool"), vec![started("Bash", input), question, failed(error)]);
}

#[test]
fn a_failing_command_fails_its_step_alone() {
    let input = json!({"command": "echo oops >&2; exit 3", "description": "d"});
    let call = vec![started("Bash", input), failed("Exit code 3\noops")];
    check_call(transcript!("failing-tool"), call);
}

#[test]
fn what_a_sub_agent_says_is_part_of_its_call() {
    let heard = hear(transcript!("sub-agent"));
    let calls = heard.iter().filter(|heard| matches!(heard, Heard::CallStarted { .. }));
    assert_eq!(calls.count(), 1);
    assert!(matches!(&heard[2], Heard::CallStarted { name, .. } if name == "Task"));
    let texts = heard.iter().filter(|heard| matches!(heard, Heard::Text { .. }));
    assert_eq!(texts.count(), 2);
    assert_eq!(heard.last(), Some(&said("All done.")));
}

#[test]
fn tools_of_servers_are_steps_and_a_lost_server_is_a_warning() {
    let heard = hear(transcript!("tools-by-mcp"));
    assert_eq!(
        heard[0],
        Heard::Log { level: Level::Warn, message: "MCP server `gone` is not available".into() }
    );
    let call = [started("mcp__other__lookup", json!({"city": "x"})), succeeded("sunny")];
    assert_eq!(heard[3..5], call);
}

#[test]
fn calls_of_the_callers_tools_are_left_to_the_host() {
    // The end of a call that never began is nobody's.
    check_call(transcript!("callers-tool"), vec![succeeded("sunny")]);
}

#[test]
fn a_failing_model_ends_the_turn_in_its_own_words() {
    let ended = |words: &str| Heard::Own(Own::Ended(Verdict::Failed(words.to_owned())));
    assert_eq!(hear(transcript!("failing-model")), [ended("API Error: 400 fake 400 error")]);
    let retry = |status, why: &str, attempt| {
        Heard::Own(Own::Retry {
            status,
            notice: format!("the provider {why}; asking again, {attempt} of 2 times"),
        })
    };
    let heard = hear(transcript!("retried-model"));
    assert_eq!(heard[..2], [1, 2].map(|attempt| retry(Some(500), "answered 500", attempt)));
    assert!(
        matches!(&heard[2], Heard::Own(Own::Ended(Verdict::Failed(words))) if words.contains("500"))
    );
    let expected = vec![
        retry(None, "failed: unknown", 1),
        retry(None, "failed: unknown", 2),
        ended("Request timed out"),
    ];
    assert_eq!(hear(transcript!("silent-model")), expected);
}

#[test]
fn what_is_not_known_says_nothing() {
    for line in [
        "",
        "no JSON",
        "[]",
        "{}",
        r#"{"type": "rate_limit_event"}"#,
        r#"{"type": "system", "subtype": "hook_started"}"#,
        r#"{"type": "user", "message": {"role": "user", "content": "hello"}}"#,
        r#"{"type": "stream_event", "event": {"type": "ping"}}"#,
        r#"{"type": "assistant", "message": {"id": "m", "content": [{"type": "image"}]}}"#,
        r#"{"type": "keep_alive"}"#,
    ] {
        assert_eq!(Decoder::default().decode(line), [], "{line}");
    }
}

#[test]
fn a_message_that_was_not_streamed_is_said_whole() {
    let line = r#"{"type": "assistant", "message": {"id": "m", "model": "x", "content": [
        {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}]}}"#;
    let thought = Heard::Reasoning { message_id: "m".into(), delta: "Hm.".into() };
    assert_eq!(Decoder::default().decode(line), [thought, text("m", "Yes.")]);
}

#[test]
fn ids_of_messages_fit_into_the_log_whatever_the_provider_chose() {
    for id in ["", "\u{1}", &"long".repeat(1000), &"\"".repeat(129)] {
        let start = json!({"type": "message_start", "message": {"id": id}});
        let delta = json!({"type": "text_delta", "text": "a"});
        let piece = json!({"type": "content_block_delta", "delta": delta});
        let content = json!([{"type": "text", "text": "a"}]);
        let lines = [
            json!({"type": "stream_event", "event": start}),
            json!({"type": "stream_event", "event": piece}),
            json!({"type": "assistant", "message": {"id": id, "content": content}}),
        ];
        let mut decoder = Decoder::default();
        let heard: Vec<Heard> =
            lines.iter().flat_map(|line| decoder.decode(&line.to_string())).collect();
        let [Heard::Text { message_id, .. }] = &heard[..] else { panic!("{heard:?}") };
        assert!((1..=128).contains(&message_id.len()), "{message_id}");
    }
}

#[test]
fn every_way_to_end_has_its_verdict() {
    let check = |line: &str, expected: Verdict| {
        assert_eq!(Decoder::default().decode(line), [Heard::Own(Own::Ended(expected))], "{line}");
    };
    let failed = |words: &str| Verdict::Failed(words.to_owned());
    check(
        r#"{"type": "result", "subtype": "success", "is_error": false, "result": "Hi."}"#,
        Verdict::Message("Hi.".into()),
    );
    check(r#"{"type": "result", "subtype": "error_max_turns"}"#, Verdict::TooManyTurns);
    check(
        r#"{"type": "result", "subtype": "error_during_execution", "errors": ["a", "b"]}"#,
        failed("a\nb"),
    );
    check(
        r#"{"type": "result", "subtype": "error_max_budget_usd", "is_error": true}"#,
        failed("error_max_budget_usd"),
    );
    check(
        r#"{"type": "control_response", "response": {"subtype": "error", "error": "no"}}"#,
        failed("claude refused its set-up: no"),
    );
}
