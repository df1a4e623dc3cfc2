//! What Claude Code's tools do, in the words of a policy, and how it is told
//! what the policy says.

use serde_json::{Value, json};

use super::decode::Question;
use crate::harness::job::BRIDGE;
use crate::policy::{Action, Gate, Ruled};

/// Tools that write files.
pub(super) const WRITERS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];
/// Tools that read the web.
pub(super) const READERS_OF_THE_WEB: [&str; 2] = ["WebFetch", "WebSearch"];
/// Tools that need somebody at a screen, or another turn.
pub(super) const ATTENDED: [&str; 4] =
    ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "ScheduleWakeup"];

/// Tools that look, take notes or start what asks for itself: the CLI does not
/// ask about them either.
const LOOKERS: &[&str] = &[
    "Agent",
    "BashOutput",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "ListMcpResourcesTool",
    "NotebookRead",
    "Read",
    "ReadMcpResourceTool",
    "ReportFindings",
    "SendMessage",
    "Skill",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
];

/// Whether a tool is one of the caller's, behind the bridge.
pub(super) fn is_bridged(tool: &str) -> bool {
    bridged_name(tool).is_some()
}

/// The line that answers a question of the CLI.
pub(super) fn answer(gate: &Gate<'_>, request_id: &str, question: &Question) -> String {
    let response = match question {
        Question::MayUse { tool, input } => match gate.rule(&action(tool, input)) {
            Ruled::Allow => json!({"behavior": "allow", "updatedInput": input}),
            Ruled::Deny(reason) => json!({"behavior": "deny", "message": reason}),
        },
        Question::BeforeUse { tool, input } => {
            let (decision, reason) = match gate.rule(&action(tool, input)) {
                Ruled::Allow => ("allow", None),
                Ruled::Deny(reason) => ("deny", Some(reason)),
            };
            json!({"hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": decision,
                "permissionDecisionReason": reason.unwrap_or_default(),
            }})
        }
        Question::Unknown => {
            let error = "nobody is here to answer that";
            let response = json!({"subtype": "error", "request_id": request_id, "error": error});
            return json!({"type": "control_response", "response": response}).to_string();
        }
    };
    let response = json!({"subtype": "success", "request_id": request_id, "response": response});
    json!({"type": "control_response", "response": response}).to_string()
}

/// What a call of a tool does.
fn action<'a>(tool: &'a str, input: &'a Value) -> Action<'a> {
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    match tool {
        "Bash" => Action::Command(text("command").unwrap_or_default()),
        tool if WRITERS.contains(&tool) => {
            Action::FileWrite(text("file_path").or(text("notebook_path")).unwrap_or_default())
        }
        tool if READERS_OF_THE_WEB.contains(&tool) => {
            Action::Network(text("url").or(text("query")).unwrap_or_default())
        }
        tool if LOOKERS.contains(&tool) => Action::Look(tool),
        tool => Action::Tool(bridged_name(tool).unwrap_or(tool)),
    }
}

fn bridged_name(tool: &str) -> Option<&str> {
    tool.strip_prefix("mcp__")?.strip_prefix(BRIDGE)?.strip_prefix("__")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::{Action, Gate, Question, action, answer, is_bridged};
    use crate::emit::kept::Kept;
    use crate::session::Session;

    #[test]
    fn every_kind_of_tool_is_seen_as_what_it_does() {
        let check = |tool: &str, input: Value, expected: Action<'_>| {
            assert_eq!(action(tool, &input), expected, "{tool}");
        };
        check("Bash", json!({"command": "ls -l"}), Action::Command("ls -l"));
        check("Bash", json!(null), Action::Command(""));
        check("Write", json!({"file_path": "/w/a"}), Action::FileWrite("/w/a"));
        check("NotebookEdit", json!({"notebook_path": "/w/n"}), Action::FileWrite("/w/n"));
        check("WebFetch", json!({"url": "http://h/"}), Action::Network("http://h/"));
        check("WebSearch", json!({"query": "q"}), Action::Network("q"));
        check("Read", json!({"file_path": "/w/a"}), Action::Look("Read"));
        check("mcp__mayfly__lookup", json!({}), Action::Tool("lookup"));
        check("mcp__other__lookup", json!({}), Action::Tool("mcp__other__lookup"));
        check("Workflow", json!({}), Action::Tool("Workflow"));
    }

    #[test]
    fn only_tools_of_the_bridge_are_the_callers() {
        assert!(is_bridged("mcp__mayfly__lookup"));
        assert!(!is_bridged("mcp__mayfly_2__lookup"));
        assert!(!is_bridged("mayfly__lookup"));
    }

    #[test]
    fn every_question_has_an_answer_in_its_own_form() {
        let mut session = Session::for_test(Path::new("/root"), Path::new("/root/workspace"));
        let policy = json!({"default": "allow", "commands": {"deny": ["rm *"]}});
        session.policy = Some(serde_json::from_value(policy).unwrap());
        let kept = Kept::default();
        let out = kept.emitter();
        let gate = Gate::new(&session, &out);
        let ask = |question: Question| -> Value {
            let line = answer(&gate, "r", &question);
            let line: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(line["type"], "control_response");
            assert_eq!(line["response"]["request_id"], "r");
            line["response"].clone()
        };
        let input = |command: &str| json!({"command": command});
        let may = |command| Question::MayUse { tool: "Bash".into(), input: input(command) };
        let before = |command| Question::BeforeUse { tool: "Bash".into(), input: input(command) };
        let said = ask(may("ls"));
        assert_eq!(said["response"], json!({"behavior": "allow", "updatedInput": input("ls")}));
        let said = ask(may("rm -r x"));
        assert_eq!(said["response"]["behavior"], "deny");
        assert!(said["response"]["message"].as_str().unwrap().contains("rm -r x"));
        let decision = |said: Value| said["response"]["hookSpecificOutput"].clone();
        assert_eq!(decision(ask(before("ls")))["permissionDecision"], "allow");
        assert_eq!(decision(ask(before("rm x")))["permissionDecision"], "deny");
        assert_eq!(ask(Question::Unknown)["subtype"], "error");
    }
}
