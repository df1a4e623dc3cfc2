//! The loop from end to end, with the scripted provider: no network, no key.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scene::Scene;

fn scripted(script: Value) -> Scene {
    Scene::new(json!({"provider": "scripted", "script": script}), Vec::new())
}

#[test]
fn a_script_is_followed_round_by_round() {
    let played = scripted(json!([
        {"reasoning": "First a file.", "text": "I write.", "tool_calls": [
            {"name": "write_file", "args": {"path": "a.txt", "content": "hi"}},
        ]},
        {"tool_calls": [{"name": "read_file", "args": {"path": "a.txt"}}]},
        {"text": "It says hi."},
    ]))
    .play();
    assert_eq!(played.result(), "It says hi.");
    assert_eq!(played.said("reasoning"), "First a file.");
    assert_eq!(played.said("text"), "I write.It says hi.");
    let kinds: Vec<&str> = played
        .lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .filter(|kind| kind.starts_with("step"))
        .collect();
    assert_eq!(kinds, ["step_started", "step_ended", "step_started", "step_ended"]);
    assert_eq!(played.of("step_ended")[1]["result"], "hi");
    assert!(played.of("step_ended")[1]["duration_ms"].is_u64());
    assert!(played.asked.is_empty());
}

#[test]
fn without_a_script_the_shell_blocks_of_the_prompt_are_run() {
    let mut scene = Scene::new(Value::Null, Vec::new());
    scene.prompt =
        "Please\n```sh\necho $WHO > a\n```\nand\n```bash\ncat a; exit 3\n```\n".to_owned();
    scene.variables = json!({"WHO": "world"});
    let played = scene.play();
    let message = played.result();
    assert!(message.starts_with("The scripted provider (no model) ran the 2 shell blocks of the prompt; 1 of them failed."), "{message}");
    assert!(message.ends_with("world"), "{message}");
    let ended = played.of("step_ended");
    assert_eq!((&ended[0]["status"], &ended[1]["status"]), (&json!("succeeded"), &json!("failed")));
}

#[test]
fn without_blocks_the_scripted_provider_says_what_it_is() {
    let played = Scene::new(Value::Null, Vec::new()).play();
    assert!(played.result().starts_with("This is the scripted provider, not a model."));
}

#[test]
fn calls_of_one_round_run_side_by_side() {
    let sleep = json!({"name": "shell", "args": {"command": "sleep 1"}});
    let began = Instant::now();
    let played = scripted(json!([{"tool_calls": vec![sleep; 8]}, {"text": "Rested."}])).play();
    assert_eq!(played.result(), "Rested.");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(played.of("step_ended").len(), 8);
}

#[test]
fn a_tool_that_fails_does_not_end_the_run() {
    let played = scripted(json!([
        {"tool_calls": [{"name": "fly", "args": {}}, {"name": "read_file", "args": {"path": 7}}]},
        {"text": ""},
    ]))
    .play();
    assert_eq!(played.result(), "");
    let errors: Vec<&Value> = played.of("step_ended").iter().map(|step| &step["error"]).collect();
    let expected = [json!("there is no tool `fly`"), json!("read_file: `path` is not a string")];
    assert_eq!(errors, expected.iter().collect::<Vec<&Value>>());
}

#[test]
fn rounds_are_limited_and_the_last_one_may_still_answer() {
    let call = json!({"tool_calls": [{"name": "list_files"}]});
    let mut scene = scripted(json!([call, call, {"text": "Done."}]));
    scene.config["max_rounds"] = json!(2);
    assert_eq!(scene.play().result(), "Done.");

    let mut scene = scripted(json!([call, call, call, {"text": "Done."}]));
    scene.config["max_rounds"] = json!(2);
    let played = scene.play();
    assert_eq!(played.error(), ("max_rounds", "no final message after 2 rounds of tool calls"));
    assert_eq!(played.of("step_ended").len(), 2);

    let played = scripted(json!(vec![call; 12])).play();
    assert_eq!(played.error().0, "max_rounds");
    assert_eq!(played.of("step_ended").len(), 10);
}

#[test]
fn a_script_that_ends_too_early_is_an_error() {
    let played = scripted(json!([{"tool_calls": [{"name": "list_files"}]}])).play();
    assert_eq!(played.error(), ("model_error", "the script has no round 2"));
}

#[test]
fn a_result_over_the_limit_is_cut_and_says_so() {
    let command = json!({"command": "head -c 3000000 /dev/zero | tr '\\0' '\\033'"});
    let played = scripted(json!([
        {"tool_calls": [{"name": "shell", "args": command}]},
        {"text": "Much."},
    ]))
    .play();
    let ended = played.of("step_ended")[0];
    assert_eq!(ended["truncated"], true);
    assert!(ended["result"].to_string().len() <= 1 << 20);
}
