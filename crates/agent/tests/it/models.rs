//! Providers in their real wire formats over a real socket: what comes back,
//! what is asked again, and what ends a run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scene::{Reply, Scene, events, refusal, stream};

fn anthropic() -> Value {
    json!({"provider": "anthropic", "name": "claude-test"})
}

fn openai() -> Value {
    json!({"provider": "openai", "name": "gpt-test"})
}

const CLAUDE_TOOLS: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Two things."}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"shell","input":{}}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"echo"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":" one\"}"}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_2","name":"shell","input":{}}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"exit 2\"}"}}"#,
    r#"{"type":"content_block_stop","index":2}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":20}}"#,
    r#"{"type":"message_stop"}"#,
];

const CLAUDE_TEXT: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"msg_2"}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"All "}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"done."}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
    r#"{"type":"message_stop"}"#,
];

const GPT_TEXT: &[&str] = &[
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"All "},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"done."},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    "[DONE]",
];

#[test]
fn anthropic_runs_parallel_tools_and_gets_thinking_and_results_back() {
    let played = Scene::new(anthropic(), vec![events(CLAUDE_TOOLS), events(CLAUDE_TEXT)]).play();
    assert_eq!(played.result(), "All done.");
    assert_eq!(played.said("text"), "All done.");
    assert_eq!(played.said("reasoning"), "Two things.");
    let first = &played.asked[0];
    assert!(first.head.starts_with("POST /model/v1/messages HTTP/1.1\r\n"), "{}", first.head);
    assert!(first.head.contains("anthropic-version: 2023-06-01"), "{}", first.head);
    assert_eq!(first.body["system"], "Be brief.");
    let messages = played.asked[1].body["messages"].as_array().unwrap();
    assert_eq!(messages[1]["content"][0]["signature"], "c2ln");
    let results = messages[2]["content"].as_array().unwrap();
    assert_eq!(results[0]["tool_use_id"], "toolu_1");
    let told: Value = serde_json::from_str(results[0]["content"].as_str().unwrap()).unwrap();
    assert_eq!(told, json!({"exit_code": 0, "stdout": "one\n", "stderr": ""}));
    assert_eq!(
        (&results[1]["tool_use_id"], &results[1]["is_error"]),
        (&json!("toolu_2"), &json!(true))
    );
    let started: Vec<&Value> = played.of("step_started").iter().map(|step| &step["args"]).collect();
    assert_eq!(started, [&json!({"command": "echo one"}), &json!({"command": "exit 2"})]);
    let ended = played.of("step_ended");
    assert_eq!(ended.len(), 2);
    let failed = ended.iter().find(|step| step["status"] == "failed").unwrap();
    assert_eq!(
        (&failed["error"], &failed["result"]["exit_code"]),
        (&json!("exit status 2"), &json!(2))
    );
}

#[test]
fn each_message_has_its_own_id() {
    let played = Scene::new(anthropic(), vec![events(CLAUDE_TOOLS), events(CLAUDE_TEXT)]).play();
    let id = |kind: &str| played.of(kind)[0]["message_id"].clone();
    assert_ne!(id("reasoning"), id("text"));
    assert!(played.of("text").iter().all(|line| line["message_id"] == id("text")));
}

#[test]
fn openai_runs_tools_and_history_comes_first() {
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"write_file","arguments":"{\"path\":\"a.txt\",\"content\":\"hi\"}"}}]},"finish_reason":"tool_calls"}]}"#;
    let mut scene = Scene::new(openai(), vec![events(&[call, "[DONE]"]), events(GPT_TEXT)]);
    scene.config["messages"] = json!([
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi!"}]},
    ]);
    let played = scene.play();
    assert_eq!(played.result(), "All done.");
    assert_eq!(std::fs::read_to_string(played.workspace.path().join("a.txt")).unwrap(), "hi");
    assert!(played.asked[0].head.starts_with("POST /model/chat/completions HTTP/1.1\r\n"));
    let roles = |asked: usize| -> Vec<String> {
        let messages = played.asked[asked].body["messages"].as_array().unwrap();
        messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(0), ["system", "user", "assistant", "user"]);
    assert_eq!(played.asked[0].body["messages"][3]["content"], "Do it.");
    assert_eq!(roles(1), ["system", "user", "assistant", "user", "assistant", "tool"]);
    assert_eq!(played.asked[1].body["messages"][5]["tool_call_id"], "call_a");
}

#[test]
fn openai_responses_runs_tools() {
    let call = &[
        r#"{"type":"response.created","response":{"id":"resp_1"}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_a","name":"list_files","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{}"}"#,
        r#"{"type":"response.completed","response":{"status":"completed"}}"#,
    ];
    let text = &[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"Empty."}"#,
        r#"{"type":"response.completed","response":{"status":"completed"}}"#,
    ];
    let model = json!({"provider": "openai-responses", "name": "gpt-4o-test"});
    let played = Scene::new(model, vec![events(call), events(text)]).play();
    assert_eq!(played.result(), "Empty.");
    assert!(played.asked[0].head.starts_with("POST /model/responses HTTP/1.1\r\n"));
    let input = played.asked[1].body["input"].as_array().unwrap();
    assert_eq!(input[1]["type"], "function_call");
    assert_eq!(
        (&input[2]["type"], &input[2]["call_id"]),
        (&json!("function_call_output"), &json!("call_a"))
    );
}

#[test]
fn a_busy_provider_is_asked_again() {
    let busy =
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}});
    let replies = vec![
        refusal("429 Too Many Requests", "retry-after: 0\r\n", &busy),
        refusal("529 Overloaded", "retry-after-ms: 1\r\n", &json!({"error": "x"})),
        Reply::HangUp,
        events(CLAUDE_TEXT),
    ];
    let played = Scene::new(anthropic(), replies).play();
    assert_eq!(played.result(), "All done.");
    assert_eq!(played.asked.len(), 4);
    let warnings = played.warnings();
    assert_eq!(warnings.len(), 3);
    assert!(
        warnings[0].starts_with(
            "the provider answered 429: Slow down (rate_limit_error); asking again in 0 ms"
        ),
        "{warnings:?}"
    );
}

#[test]
fn after_four_tries_the_run_ends() {
    let broken = || {
        refusal(
            "500 Internal Server Error",
            "retry-after: 0\r\n",
            &json!({"error": {"message": "It broke", "type": "api_error"}}),
        )
    };
    let played = Scene::new(anthropic(), (0..9).map(|_| broken()).collect()).play();
    assert_eq!(played.error(), ("model_error", "the provider answered 500: It broke (api_error)"));
    assert_eq!(played.asked.len(), 4);
}

#[test]
fn a_request_that_is_wrong_is_not_sent_again() {
    let body = json!({"error": {"message": "no such model", "type": "not_found_error"}});
    let played = Scene::new(anthropic(), vec![refusal("404 Not Found", "", &body)]).play();
    let expected = ("model_error", "the provider answered 404: no such model (not_found_error)");
    assert_eq!(played.error(), expected);
    assert_eq!(played.asked.len(), 1);
}

#[test]
fn a_used_up_token_budget_ends_the_run_at_once() {
    let body =
        json!({"error": {"type": "token_budget", "message": "1000 of 1000 tokens are used"}});
    let played = Scene::new(openai(), vec![refusal("429 Too Many Requests", "", &body)]).play();
    assert_eq!(played.error(), ("token_budget", "1000 of 1000 tokens are used"));
    assert_eq!(played.asked.len(), 1);
}

#[test]
fn an_error_before_the_first_word_is_asked_again() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let replies = vec![events(&[CLAUDE_TEXT[0], overloaded]), events(CLAUDE_TEXT)];
    let played = Scene::new(anthropic(), replies).play();
    assert_eq!(played.result(), "All done.");
    assert_eq!(played.warnings().len(), 1);
}

#[test]
fn an_error_after_the_first_word_ends_the_run() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let broken = [&CLAUDE_TEXT[..3], &[overloaded]].concat();
    let played = Scene::new(anthropic(), vec![events(&broken), events(CLAUDE_TEXT)]).play();
    let expected = ("model_error", "the provider reported an error: Overloaded (overloaded_error)");
    assert_eq!(played.error(), expected);
    assert_eq!(played.said("text"), "All ");
    assert_eq!(played.asked.len(), 1);
}

#[test]
fn a_stream_that_ends_without_a_stop_is_an_error() {
    let replies = vec![events(&CLAUDE_TEXT[..4]), events(CLAUDE_TEXT)];
    let played = Scene::new(anthropic(), replies).play();
    assert_eq!(played.error(), ("model_error", "the provider's answer ended without saying why"));
}

#[test]
fn what_is_malformed_is_an_error_that_says_so() {
    let check = |reply: Reply, expected: &str| {
        let played = Scene::new(openai(), vec![reply]).play();
        let (code, message) = played.error();
        assert_eq!(code, "model_error");
        assert!(message.starts_with(expected), "{message}");
    };
    check(events(&["{not json"]), "the provider sent what is no JSON: ");
    check(
        events(&[r#"{"choices":"none"}"#]),
        "the provider's event `chunk` has no usable `choices`",
    );
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    check(Reply::Bytes(json.to_owned()), "the provider answered with `application/json`");
}

#[test]
fn bad_arguments_of_a_tool_go_back_to_the_model() {
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","function":{"name":"shell","arguments":"{\"command\": nonsense"}}]},"finish_reason":"tool_calls"}]}"#;
    let played = Scene::new(openai(), vec![events(&[call, "[DONE]"]), events(GPT_TEXT)]).play();
    assert_eq!(played.result(), "All done.");
    assert_eq!(played.of("step_started")[0]["args"], "{\"command\": nonsense");
    assert_eq!(played.of("step_ended")[0]["status"], "failed");
    let told = played.asked[1].body["messages"][3]["content"].as_str().unwrap();
    assert!(told.starts_with("error: the arguments are no JSON object"), "{told}");
}

#[track_caller]
fn check_timeout(reply: Reply) {
    let mut scene = Scene::new(openai(), vec![reply]);
    scene.limits["model_timeout_ms"] = json!(1000);
    let began = Instant::now();
    let played = scene.play();
    assert_eq!(played.error(), ("model_timeout", "Provider timed out after 1s"));
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(played.asked.len(), 1);
}

#[test]
fn silence_is_a_timeout_before_the_head_and_after_it() {
    check_timeout(Reply::ThenSilence(String::new()));
    check_timeout(Reply::ThenSilence(stream(&[])));
    check_timeout(Reply::ThenSilence(stream(&GPT_TEXT[..1])));
}

#[test]
fn a_slow_answer_is_awaited_while_bytes_come() {
    let whole = stream(GPT_TEXT);
    let pieces: Vec<String> = whole
        .as_bytes()
        .chunks(40)
        .map(|piece| String::from_utf8_lossy(piece).into_owned())
        .collect();
    let pause = Duration::from_millis(1500) / u32::try_from(pieces.len()).unwrap();
    let mut scene = Scene::new(openai(), vec![Reply::Slowly(pieces, pause)]);
    scene.limits["model_timeout_ms"] = json!(1000);
    let began = Instant::now();
    assert_eq!(scene.play().result(), "All done.");
    assert!(began.elapsed() >= Duration::from_millis(1200));
}

#[test]
fn an_endless_answer_is_cut_off() {
    let chunk = json!({"choices": [{"delta": {"content": "x".repeat(64 << 10)}}]}).to_string();
    let played =
        Scene::new(openai(), vec![Reply::Endless(stream(&[]), format!("data: {chunk}\n\n"))])
            .play();
    assert_eq!(
        played.error(),
        ("model_error", "the provider's answer is larger than 8388608 bytes")
    );
    assert!(played.said("text").len() <= 8 << 20);

    let ping = ": ping\n".repeat(10_000);
    let played = Scene::new(openai(), vec![Reply::Endless(stream(&[]), ping)]).play();
    assert_eq!(
        played.error(),
        ("model_error", "the provider's answer is larger than 67108864 bytes")
    );

    let line = "x".repeat(64 << 10);
    let head = format!("{}data: ", stream(&[]));
    let played = Scene::new(openai(), vec![Reply::Endless(head, line)]).play();
    assert!(
        played.error().1.starts_with("the provider's event stream is malformed"),
        "{:?}",
        played.error()
    );
}

#[test]
fn a_provider_that_is_not_there_is_an_error() {
    let played = Scene::new(anthropic(), Vec::new()).play();
    let (code, message) = played.error();
    assert_eq!(code, "model_error");
    assert!(message.starts_with("the provider is not reachable"), "{message}");
    assert_eq!(played.asked.len(), 4);
}
