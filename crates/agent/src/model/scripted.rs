//! The scripted provider: no model, no key, the same answers every time.
//!
//! It answers from the script in the configuration, round by round. Without a
//! script it runs the fenced shell blocks of the prompt, one a round, and ends
//! by saying that it was the scripted provider and what it did. It never
//! passes for a model.

mod blocks;

use std::time::Duration;

use serde_json::{Value, json};
use wire::agent::{ModelConfig, ScriptedRound};

use super::{
    Answer, Arguments, Conversation, Delta, Entry, Listener, Model, ModelError, Pending, Stop,
    ToolCall, ToolOutcome,
};

/// Most characters of the last output in the final message.
const TAIL_CHARS: usize = 2000;

/// The scripted provider.
pub(super) struct Scripted {
    plan: Plan,
}

/// What it goes by.
enum Plan {
    Script(Vec<ScriptedRound>),
    /// The fenced shell blocks of the prompt.
    Blocks(Vec<String>),
}

impl Model for Scripted {
    fn answer<'a>(
        &'a self,
        conversation: &'a Conversation,
        listener: &'a (dyn Listener + 'a),
    ) -> Pending<'a, Result<Answer, ModelError>> {
        Box::pin(async move {
            let round = self.round(conversation)?;
            tokio::time::sleep(Duration::from_millis(round.delay_ms.unwrap_or(0))).await;
            Ok(say(round, place(conversation), listener))
        })
    }
}

impl Scripted {
    pub(super) fn new(config: &ModelConfig, prompt: &str) -> Scripted {
        let plan = match &config.script {
            Some(script) => Plan::Script(script.clone()),
            None => Plan::Blocks(blocks::shell_blocks(prompt)),
        };
        Scripted { plan }
    }

    fn round(&self, conversation: &Conversation) -> Result<ScriptedRound, ModelError> {
        let place = place(conversation);
        match &self.plan {
            Plan::Script(script) => {
                script.get(place).cloned().ok_or(ModelError::ScriptEnded(place + 1))
            }
            Plan::Blocks(blocks) => Ok(match blocks.get(place) {
                Some(command) => ScriptedRound {
                    tool_calls: vec![wire::agent::ScriptedCall {
                        name: "shell".to_owned(),
                        args: json!({"command": command}),
                    }],
                    ..ScriptedRound::default()
                },
                None => ScriptedRound {
                    text: Some(summary(blocks.len(), conversation)),
                    ..ScriptedRound::default()
                },
            }),
        }
    }
}

/// The place of the next answer: one for each that was given in this run.
fn place(conversation: &Conversation) -> usize {
    conversation.entries.iter().filter(|entry| matches!(entry, Entry::Answer(_))).count()
}

fn say(round: ScriptedRound, place: usize, listener: &dyn Listener) -> Answer {
    if let Some(thought) = round.reasoning.filter(|thought| !thought.is_empty()) {
        listener.delta(Delta::Reasoning(thought));
    }
    let text = round.text.unwrap_or_default();
    // In pieces, as a model would: whoever reads along is tested by this.
    for piece in text.split_inclusive(char::is_whitespace) {
        listener.delta(Delta::Text(piece.to_owned()));
    }
    let calls: Vec<ToolCall> = round
        .tool_calls
        .into_iter()
        .enumerate()
        .map(|(index, call)| ToolCall {
            id: format!("scripted_{place}_{index}"),
            name: call.name,
            arguments: Arguments::from_value(call.args),
        })
        .collect();
    let stop = if calls.is_empty() { Stop::Finished } else { Stop::Tools };
    Answer { text, calls, stop, replay: Vec::new() }
}

/// The final message of a prompt's blocks.
fn summary(blocks: usize, conversation: &Conversation) -> String {
    if blocks == 0 {
        return "This is the scripted provider, not a model. It runs the fenced shell blocks \
                of a prompt, and this prompt has none."
            .to_owned();
    }
    let results = conversation.entries.iter().filter_map(|entry| match entry {
        Entry::Results(results) => Some(results),
        Entry::User(_) | Entry::Assistant(_) | Entry::Answer(_) | Entry::Earlier { .. } => None,
    });
    let results: Vec<_> = results.flatten().collect();
    let failed = results.iter().filter(|result| result.outcome == ToolOutcome::Failed).count();
    let ran = match blocks {
        1 => "the shell block of the prompt".to_owned(),
        many => format!("the {many} shell blocks of the prompt"),
    };
    let went = match failed {
        0 => String::new(),
        1 => "; 1 of them failed".to_owned(),
        many => format!("; {many} of them failed"),
    };
    let mut summary = format!("The scripted provider (no model) ran {ran}{went}.");
    let last = results.last().map(|result| output(&result.content)).unwrap_or_default();
    let last = last.trim_end();
    if !last.is_empty() {
        let skipped = last.chars().count().saturating_sub(TAIL_CHARS);
        let tail: String = last.chars().skip(skipped).collect();
        summary.push_str(" The last output ends:\n\n");
        summary.push_str(&tail);
    }
    summary
}

/// The output in what the shell tool returned.
fn output(content: &str) -> String {
    let value: Value = serde_json::from_str(content).unwrap_or(Value::Null);
    // A failed call has its result beside the error.
    let value = value.get("result").unwrap_or(&value);
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    match text("stdout") {
        "" => text("stderr").to_owned(),
        stdout => stdout.to_owned(),
    }
}
