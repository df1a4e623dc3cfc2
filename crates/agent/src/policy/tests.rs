//! Precedence, answers and questions, through the gate as harnesses use it.

use std::io;
use std::path::Path;

use serde_json::{Value, json};
use wire::agent::{Harness, Ruling};

use super::{Action, Gate, Ruled};
use crate::emit::Emitter;
use crate::emit::kept::Kept;
use crate::session::Session;

/// The questions that were told, and that nothing else was said.
fn questions(kept: &Kept) -> Vec<Value> {
    let questions = kept.customs("approval-requested");
    assert_eq!(questions.len(), kept.events().len());
    questions
}

/// A session of Codex under a policy.
fn session(policy: Value) -> Session {
    let policy = serde_json::from_value(policy).unwrap();
    Session { policy, harness: Harness::Codex, ..Session::for_test(Path::new("/"), Path::new("/")) }
}

/// What a policy says of actions, and the questions that it leads to.
fn ruled(policy: Value, actions: &[Action<'_>]) -> (Vec<Ruled>, Vec<Value>) {
    let (session, kept) = (session(policy), Kept::default());
    let out = kept.emitter();
    let gate = Gate::new(&session, &out);
    (actions.iter().map(|action| gate.rule(action)).collect(), questions(&kept))
}

#[track_caller]
fn check(policy: &Value, action: Action<'_>, expected: Ruling) {
    let (session, out) = (session(policy.clone()), Emitter::to(io::sink()));
    let standing = Gate::new(&session, &out).standing(&action);
    assert_eq!(standing, expected, "{policy} {action:?}");
    let (ruled, questions) = ruled(policy.clone(), &[action]);
    let found = match &ruled[0] {
        Ruled::Allow => Ruling::Allow,
        Ruled::Deny(_) if questions.is_empty() => Ruling::Deny,
        Ruled::Deny(_) => Ruling::Ask,
    };
    assert_eq!(found, expected, "{policy} {action:?}");
}

#[test]
fn without_a_policy_everything_is_allowed() {
    let session = session(Value::Null);
    let out = Emitter::to(io::sink());
    let gate = Gate::new(&session, &out);
    assert!(gate.is_open());
    for action in [Action::Command("rm -rf /"), Action::FileWrite("a"), Action::Network("b")] {
        assert_eq!(gate.standing(&action), Ruling::Allow);
        assert_eq!(gate.rule(&action), Ruled::Allow);
    }
}

#[test]
fn an_empty_policy_asks_about_everything_but_looking() {
    let policy = json!({});
    check(&policy, Action::Command("ls"), Ruling::Ask);
    check(&policy, Action::FileWrite("a.txt"), Ruling::Ask);
    check(&policy, Action::Network("https://example.com"), Ruling::Ask);
    check(&policy, Action::Tool("lookup"), Ruling::Ask);
    check(&policy, Action::Look("read_file"), Ruling::Allow);
}

#[test]
fn a_denial_wins_over_a_question_and_a_question_over_an_allowance() {
    let policy = json!({
        "commands": {"allow": ["git *"], "ask": ["git push*"], "deny": ["* --force", "sudo *"]},
        "default": "allow",
    });
    check(&policy, Action::Command("git status"), Ruling::Allow);
    check(&policy, Action::Command("  git push\n"), Ruling::Ask);
    check(&policy, Action::Command("git push --force"), Ruling::Deny);
    check(&policy, Action::Command("sudo git status"), Ruling::Deny);
    check(&policy, Action::Command("make"), Ruling::Allow);
    let policy = json!({"commands": {"allow": ["git *"]}, "default": "deny"});
    check(&policy, Action::Command("git push --force"), Ruling::Allow);
    check(&policy, Action::Command("make"), Ruling::Deny);
}

#[test]
fn capabilities_rule_over_the_default() {
    let policy = json!({"capabilities": {"fileWrite": "deny", "network": "allow"}});
    check(&policy, Action::FileWrite("a"), Ruling::Deny);
    check(&policy, Action::Network("a"), Ruling::Allow);
    check(&policy, Action::Command("a"), Ruling::Ask);
    let policy = json!({"commands": {"deny": ["a"]}, "default": "allow"});
    check(&policy, Action::FileWrite("a"), Ruling::Allow);
    check(&policy, Action::Network("a"), Ruling::Allow);
}

#[test]
fn a_rule_can_name_tools_and_a_star_alone_means_commands() {
    let policy = json!({
        "commands": {"allow": ["mcp__git__*"], "deny": ["*", "read_file"]},
        "default": "ask",
    });
    check(&policy, Action::Tool("mcp__git__log"), Ruling::Allow);
    check(&policy, Action::Tool("lookup"), Ruling::Ask);
    check(&policy, Action::Look("read_file"), Ruling::Deny);
    check(&policy, Action::Look("list_files"), Ruling::Allow);
    check(&policy, Action::Command("mcp__git__log"), Ruling::Deny);
}

#[test]
fn an_answer_is_found_by_its_id() {
    let policy = json!({"approvals": {
        "codex:command:make all": "allow",
        "codex:fileWrite:a.txt": "deny",
        "builtin:tool:lookup": "allow",
    }});
    check(&policy, Action::Command("make all"), Ruling::Allow);
    check(&policy, Action::Command("make"), Ruling::Ask);
    check(&policy, Action::FileWrite("a.txt"), Ruling::Deny);
    check(&policy, Action::Tool("lookup"), Ruling::Ask);
    let denied = json!({"default": "deny", "approvals": {"codex:command:make all": "allow"}});
    check(&denied, Action::Command("make all"), Ruling::Deny);
}

#[test]
fn a_question_is_told_once() {
    let actions = [Action::Command("make"), Action::Command(" make "), Action::Tool("make")];
    let (ruled, questions) = ruled(json!({}), &actions);
    assert!(ruled.iter().all(|ruled| matches!(ruled, Ruled::Deny(_))));
    let expected = [
        json!({"approvalId": "codex:command:make", "title": "Run `make`", "kind": "command",
               "target": "make"}),
        json!({"approvalId": "codex:tool:make", "title": "Use the tool `make`", "kind": "tool",
               "target": "make"}),
    ];
    assert_eq!(questions, expected);
}

#[test]
fn a_denial_says_what_and_by_which_rule() {
    let policy = json!({
        "commands": {"ask": ["make*"], "deny": ["rm *"]},
        "capabilities": {"network": "deny"},
        "approvals": {"codex:command:make no": "deny"},
    });
    let actions =
        [Action::Command("rm -r x"), Action::Network("b.example"), Action::Command("make no")];
    let (ruled, _) = ruled(policy, &actions);
    let expected = [
        "the policy denies the command `rm -r x` by its rule `rm *`",
        "the policy denies reaching `b.example`",
        "somebody was asked about the command `make no` and said no",
    ];
    assert_eq!(ruled, expected.map(|reason| Ruled::Deny(reason.to_owned())));
}

#[test]
fn long_texts_are_cut_and_still_told_apart() {
    let long = |end: &str| "é".repeat(100_000) + end;
    let (first, second) = (long("a"), long("b"));
    let actions = [Action::Command(&first), Action::Command(&second), Action::Command(&first)];
    let (ruled, questions) = ruled(json!({}), &actions);
    assert_eq!(questions.len(), 2);
    assert_ne!(questions[0]["approvalId"], questions[1]["approvalId"]);
    for question in &questions {
        assert!(question.to_string().len() < 4 << 10);
        assert!(question["title"].as_str().unwrap().len() < 300);
    }
    let Ruled::Deny(reason) = &ruled[0] else { panic!("allowed") };
    assert!(reason.len() < 500);
    let id = questions[0]["approvalId"].as_str().unwrap();
    check(&json!({"approvals": {id: "allow"}}), Action::Command(&first), Ruling::Allow);
    check(&json!({"approvals": {id: "allow"}}), Action::Command(&second), Ruling::Ask);
}
