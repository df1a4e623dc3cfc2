//! Programs of the model in our own loop: steps like any other, whose calls go to
//! the host.

use serde_json::{Value, json};

use crate::scene::{Played, Reply, Scene, refusal};

fn outcome(outcome: Value) -> Reply {
    let meta = json!({"mayfly/outcome": outcome});
    refusal("200 OK", "", &json!({"jsonrpc": "2.0", "id": 1, "result": {"_meta": meta}}))
}

fn play(mode: &str, tool: &str, args: Value, policy: Value, replies: Vec<Reply>) -> Played {
    let script = json!([{"tool_calls": [{"name": tool, "args": args}]}, {"text": "Done."}]);
    let mut scene = Scene::new(json!({"provider": "scripted", "script": script}), replies);
    scene.config["tools"] = json!([{"name": "look-up", "description": "Looks."}]);
    scene.code_mode = json!(mode);
    scene.policy = policy;
    scene.play()
}

fn customs<'a>(played: &'a Played, name: &str) -> Vec<&'a Value> {
    let all = played.of("custom").into_iter().filter(|event| event["name"] == name);
    all.map(|event| &event["value"]).collect()
}

const TYPESCRIPT: &str = "const { sun } = await external_look_up({ city: 'Bern' })
try { await external_look_up({}) } catch (e) { console.warn((e as Error).message) }
return { sun }";

const PYTHON: &str = "sun = external_look_up(city='Bern')['sun']
try: external_look_up({})
except ExternalError as e: print(e)
return {'sun': sun}";

#[test]
fn a_program_calls_the_callers_tools_through_the_host() {
    for (tool, field, code, level) in [
        ("execute_typescript", "typescriptCode", TYPESCRIPT, "warn"),
        ("execute_python", "pythonCode", PYTHON, "log"),
    ] {
        let replies = vec![
            outcome(json!({"status": "succeeded", "result": {"sun": true}})),
            outcome(json!({"status": "failed", "error": "no city"})),
        ];
        let played = play("on", tool, json!({field: code}), Value::Null, replies);
        assert_eq!(played.result(), "Done.");
        let ended = played.of("step_ended");
        assert_eq!(ended.len(), 1, "the host books the others");
        assert_eq!(ended[0]["result"]["result"], json!({"sun": true}), "{}", ended[0]);
        assert_eq!(played.of("step_started")[0]["name"], tool);
        assert_eq!(played.asked[0].body["params"]["name"], "look-up");
        assert_eq!(played.asked[0].body["params"]["arguments"], json!({"city": "Bern"}));
        let calls = customs(&played, "code_mode:external_call");
        assert_eq!(calls[0]["function"], "external_look_up");
        assert_eq!(calls[0]["args"], json!({"city": "Bern"}));
        let results = customs(&played, "code_mode:external_result");
        assert_eq!((results.len(), &results[0]["result"]), (1, &json!({"sun": true})));
        let errors = customs(&played, "code_mode:external_error");
        assert_eq!((errors.len(), &errors[0]["error"]), (1, &json!("no city")));
        let printed = customs(&played, "code_mode:console");
        assert_eq!(
            (&printed[0]["level"], &printed[0]["message"]),
            (&json!(level), &json!("no city"))
        );
        let finished = customs(&played, "code_mode:execution_finished");
        assert_eq!(
            (&finished[0]["success"], &finished[0]["phase"]),
            (&json!(true), &json!("execute"))
        );
    }
}

#[test]
fn a_program_that_fails_is_a_failed_step_with_what_is_known() {
    let code = json!({"typescriptCode": "console.log(1)\nlet x = ;"});
    let played = play("on", "execute_typescript", code, Value::Null, vec![]);
    let ended = played.of("step_ended")[0];
    assert_eq!(ended["status"], "failed");
    assert!(ended["error"].as_str().unwrap().ends_with("(line 2, column 9)"), "{ended}");
    assert_eq!(ended["result"]["success"], false);
    assert_eq!(customs(&played, "code_mode:execution_finished")[0]["phase"], "transpile");
}

#[test]
fn a_client_tool_cannot_be_waited_for() {
    let code = json!({"pythonCode": "return external_look_up()"});
    let deferred = vec![outcome(json!({"status": "deferred"}))];
    let played = play("on", "execute_python", code, Value::Null, deferred);
    let error = played.of("step_ended")[0]["error"].as_str().unwrap();
    assert!(error.contains("after this turn"), "{error}");
}

#[test]
fn the_policy_rules_on_programs_and_on_their_calls() {
    let code = json!({"pythonCode": "return external_look_up()"});
    let policy = json!({"default": "allow", "commands": {"deny": ["look-up"]}});
    let played = play("on", "execute_python", code.clone(), policy, vec![]);
    let error = played.of("step_ended")[0]["error"].as_str().unwrap();
    assert!(error.contains("the policy denies"), "{error}");
    assert!(played.asked.is_empty());
    let policy = json!({"default": "allow", "commands": {"deny": ["execute_*"]}});
    let played = play("on", "execute_python", code, policy, vec![]);
    assert!(customs(&played, "code_mode:execution_started").is_empty());
}

#[test]
fn without_code_mode_there_are_no_such_tools() {
    let code = json!({"pythonCode": "return 1"});
    let played = play("off", "execute_python", code, Value::Null, vec![]);
    let error = &played.of("step_ended")[0]["error"];
    assert_eq!(error, "there is no tool `execute_python`");
}
