//! What was said before this run, as a model is told it.
//!
//! Callers keep conversations in forms of their own: a call may stand in one
//! message and its neighbour in the next, and a client's results come after
//! whatever was said meanwhile. Providers want all calls of an answer at once and
//! all results right behind it, under ids of a few plain letters. So answers are
//! put together until somebody else speaks, and calls are numbered anew.

use std::collections::HashMap;

use wire::agent::{Content, Message, Part, Role};

use crate::model::{Arguments, Entry, ToolCall, ToolOutcome, ToolResult};

/// What a model is told of a call that nobody answered.
const INTERRUPTED: &str = r#"{"status":"interrupted"}"#;

/// The messages, and the prompt last, unless it is empty: then the results of
/// tools are what the model goes on from.
pub(super) fn entries(messages: &[Message], prompt: &str) -> Vec<Entry> {
    let mut history = History { results: results(messages), ..History::default() };
    for message in messages {
        history.take(message);
    }
    history.close();
    if !prompt.is_empty() {
        history.entries.push(Entry::User(prompt.to_owned()));
    }
    history.entries
}

/// What every call returned, wherever that was said. One without its call is of
/// no use to a model, so nothing else looks for it.
fn results(messages: &[Message]) -> HashMap<&str, &str> {
    let parts = messages.iter().flat_map(|message| match &message.content {
        Content::Text(_) => &[][..],
        Content::Parts(parts) => parts,
    });
    let results = parts.filter_map(|part| match part {
        Part::ToolResult { id, content } => Some((id.as_str(), content.as_str())),
        Part::Text { .. } | Part::ToolCall { .. } => None,
    });
    results.collect()
}

#[derive(Default)]
struct History<'a> {
    results: HashMap<&'a str, &'a str>,
    entries: Vec<Entry>,
    /// What the assistant says until somebody else does.
    texts: Vec<&'a str>,
    calls: Vec<(&'a str, ToolCall)>,
    count: usize,
}

impl<'a> History<'a> {
    fn take(&mut self, message: &'a Message) {
        match (message.role, &message.content) {
            (Role::User, content) => {
                self.close();
                let text = content.to_text();
                if !text.is_empty() {
                    self.entries.push(Entry::User(text));
                }
            }
            (Role::Assistant, Content::Text(text)) => self.texts.push(text),
            (Role::Assistant, Content::Parts(parts)) => {
                for part in parts {
                    self.take_part(part);
                }
            }
        }
    }

    fn take_part(&mut self, part: &'a Part) {
        match part {
            Part::Text { text } => self.texts.push(text),
            Part::ToolCall { id, name, args } => {
                self.count += 1;
                let call = ToolCall {
                    id: format!("call_{}", self.count),
                    name: name.clone(),
                    arguments: Arguments::from_value(args.clone()),
                };
                self.calls.push((id, call));
            }
            // A result in the assistant's own message ends what it belongs to.
            Part::ToolResult { .. } => self.close(),
        }
    }

    fn close(&mut self) {
        let texts = std::mem::take(&mut self.texts);
        let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        let text = texts.join("\n");
        if self.calls.is_empty() {
            if !text.is_empty() {
                self.entries.push(Entry::Assistant(text));
            }
            return;
        }
        let results = self.calls.iter().map(|(id, call)| ToolResult {
            call: call.id.clone(),
            content: (*self.results.get(id).unwrap_or(&INTERRUPTED)).to_owned(),
            outcome: ToolOutcome::Succeeded,
        });
        let results = results.collect();
        let calls = self.calls.drain(..).map(|(_, call)| call).collect();
        self.entries.push(Entry::Earlier { text, calls });
        self.entries.push(Entry::Results(results));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{INTERRUPTED, entries};
    use crate::model::Entry;

    /// A conversation in short: who said what, `name(id)` for a call and
    /// `id=content` for a result.
    fn told(messages: Value, prompt: &str) -> Vec<String> {
        let messages: Vec<_> = serde_json::from_value(messages).unwrap();
        let shown = |entry: Entry| match entry {
            Entry::User(text) => format!("user {text}"),
            Entry::Assistant(text) => format!("assistant {text}"),
            Entry::Answer(_) => panic!("an answer of this run"),
            Entry::Earlier { text, calls } => {
                let calls = calls.iter().map(|call| format!("{}({})", call.name, call.id));
                format!("earlier {text} {}", calls.collect::<Vec<_>>().join(" "))
            }
            Entry::Results(results) => {
                let results = results.iter().map(|one| format!("{}={}", one.call, one.content));
                format!("results {}", results.collect::<Vec<_>>().join(" "))
            }
        };
        entries(&messages, prompt).into_iter().map(shown).collect()
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_call", "id": id, "name": "look", "args": {}})
    }

    fn result(id: &str, content: &str) -> Value {
        let part = json!({"type": "tool_result", "id": id, "content": content});
        json!({"role": "user", "content": [part]})
    }

    #[test]
    fn what_was_only_said_stays_as_it_was() {
        let messages = json!([
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        ]);
        assert_eq!(told(messages, "go on"), ["user hello", "assistant hi", "user go on"]);
        assert_eq!(told(json!([]), "x"), ["user x"]);
    }

    #[test]
    fn calls_side_by_side_are_one_answer_and_their_results_come_in_its_order() {
        let messages = json!([
            {"role": "assistant", "content": [{"type": "text", "text": "both"}, call("run.a")]},
            {"role": "assistant", "content": [call("run.b")]},
            result("run.b", "2"),
            result("run.a", "1"),
            {"role": "assistant", "content": "done"},
        ]);
        let expected = [
            "earlier both look(call_1) look(call_2)",
            "results call_1=1 call_2=2",
            "assistant done",
            "user next",
        ];
        assert_eq!(told(messages, "next"), expected);
    }

    #[test]
    fn the_result_of_a_deferred_call_is_what_the_model_goes_on_from() {
        let messages = json!([
            {"role": "user", "content": "ask me"},
            {"role": "assistant", "content": [call("c")]},
            {"role": "assistant", "content": "I have asked."},
            result("c", "blue"),
        ]);
        let expected = ["user ask me", "earlier I have asked. look(call_1)", "results call_1=blue"];
        assert_eq!(told(messages, ""), expected);
    }

    #[test]
    fn a_call_nobody_answered_was_interrupted_and_a_result_without_call_is_left_out() {
        let messages = json!([
            result("z", "?"),
            {"role": "assistant", "content": [call("a")]},
            {"role": "user", "content": "never mind"},
        ]);
        let expected =
            ["earlier  look(call_1)", &format!("results call_1={INTERRUPTED}"), "user never mind"];
        assert_eq!(told(messages, ""), expected);
    }
}
