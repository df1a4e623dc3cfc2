//! Answers to Codex's questions: what the policy says, in Codex's words.

use serde_json::{Value, json};

use super::questions::Question;
use super::words;
use crate::policy::{Action, Gate, Ruled};

/// JSON-RPC's code for a request that is not known.
const UNKNOWN: i64 = -32601;

/// An answer, but for the id of its question.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) message: Value,
    /// The item that is denied, and why.
    pub(super) denied: Option<(String, String)>,
}

/// Answers a question.
pub(super) fn to(gate: &Gate<'_>, question: &Question) -> Answer {
    match question {
        Question::Command { item, line } => {
            decide(item, gate.rule(&Action::Command(&words::command(line))))
        }
        Question::Network { item, host } => decide(item, gate.rule(&Action::Network(host))),
        Question::FileChange { item, paths } => decide(item, every(gate, paths)),
        Question::Tool { item, name } => match gate.rule(&Action::Tool(name)) {
            Ruled::Allow => result(json!({"action": "accept", "content": {}})),
            Ruled::Deny(reason) => denied(item, reason, json!({"action": "decline"})),
        },
        // More than it has is not ours to give.
        Question::Permissions => result(json!({"permissions": {}})),
        // Nobody is here to fill in a form.
        Question::Form => result(json!({"action": "decline"})),
        Question::Choices => result(json!({"answers": {}})),
        Question::Unknown => {
            let error = json!({"code": UNKNOWN, "message": "nobody is here to answer that"});
            Answer { message: json!({"error": error}), denied: None }
        }
    }
}

/// The answer about a command or a patch. A turn goes on without what is denied.
fn decide(item: &str, ruled: Ruled) -> Answer {
    match ruled {
        Ruled::Allow => result(json!({"decision": "accept"})),
        Ruled::Deny(reason) => denied(item, reason, json!({"decision": "decline"})),
    }
}

/// Rules on each of several files, so that every question is told; the first
/// denial stands for all.
fn every(gate: &Gate<'_>, paths: &[String]) -> Ruled {
    let ruled: Vec<Ruled> = paths.iter().map(|path| gate.rule(&Action::FileWrite(path))).collect();
    ruled.into_iter().find(|ruled| *ruled != Ruled::Allow).unwrap_or(Ruled::Allow)
}

fn result(result: Value) -> Answer {
    Answer { message: json!({"result": result}), denied: None }
}

fn denied(item: &str, reason: String, result: Value) -> Answer {
    Answer { message: json!({"result": result}), denied: Some((item.to_owned(), reason)) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};
    use wire::agent::Harness;

    use super::{Answer, Question, to};
    use crate::emit::Emitter;
    use crate::policy::Gate;
    use crate::session::Session;

    fn answer(question: &Question) -> Answer {
        let policy = json!({
            "commands": {"allow": ["echo *"], "deny": ["rm *"]},
            "capabilities": {"network": "deny"},
            "approvals": {"codex:fileWrite:/w/a": "allow", "codex:tool:lookup": "allow"},
        });
        let policy = serde_json::from_value(policy).unwrap();
        let session = Session {
            policy,
            harness: Harness::Codex,
            ..Session::for_test(Path::new("/"), Path::new("/"))
        };
        let out = Emitter::to(std::io::sink());
        to(&Gate::new(&session, &out), question)
    }

    #[test]
    fn the_policy_answers() {
        let check = |question: Question, expected: Value, denied: bool| {
            let answer = answer(&question);
            assert_eq!(answer.message["result"], expected, "{question:?}");
            assert_eq!(answer.denied.is_some(), denied, "{question:?}");
        };
        let item = || "call".to_owned();
        let (yes, no) = (json!({"decision": "accept"}), json!({"decision": "decline"}));
        let command = |line: &str| Question::Command { item: item(), line: line.to_owned() };
        check(command("/bin/bash -lc 'echo a'"), yes.clone(), false);
        check(command("/bin/bash -lc 'rm a'"), no.clone(), true);
        check(command("/bin/bash -lc 'make'"), no.clone(), true);
        check(Question::Network { item: item(), host: "h".to_owned() }, no.clone(), true);
        let files = |paths: &[&str]| Question::FileChange {
            item: item(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        check(files(&["/w/a"]), yes, false);
        check(files(&["/w/a", "/w/b"]), no, true);
        let tool = |name: &str| Question::Tool { item: item(), name: name.to_owned() };
        check(tool("lookup"), json!({"action": "accept", "content": {}}), false);
        check(tool("mcp__git__log"), json!({"action": "decline"}), true);
        check(Question::Permissions, json!({"permissions": {}}), false);
        check(Question::Form, json!({"action": "decline"}), false);
        check(Question::Choices, json!({"answers": {}}), false);
        assert_eq!(answer(&Question::Unknown).message["error"]["code"], -32601);
    }
}
