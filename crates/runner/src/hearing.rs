//! What an agent may say: its lines as entries of the log, or why not.
//!
//! Lines are numbered by the agent, so that those it repeats to a second server
//! are told apart from new ones. A line that is refused is mentioned in the log,
//! up to a bound: whoever writes agents wants to know.

use wire::run::{AgentLine, ErrorCode, Event, Ledger, Level, RunEvent, custom};

use crate::{lines::Line, link::call_number};

/// How many refusals the log mentions.
const MENTIONED: u32 = 20;

/// What was heard so far.
#[derive(Debug)]
pub(crate) struct Hearing {
    /// The number of the last line.
    line: u64,
    refused: u32,
    /// Why the model is not asked any more.
    overspent: Option<String>,
}

impl Hearing {
    /// Lines up to that one were heard before.
    pub(crate) fn after(line: u64) -> Hearing {
        Hearing { line, refused: 0, overspent: None }
    }

    /// The number of the last line.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// From now on a run that fails by its model fails by its budget: agents
    /// have words of their own for what a model refuses.
    pub(crate) fn note_overspent(&mut self, why: String) {
        self.overspent = Some(why);
    }

    /// Adds what goes into the log for these lines.
    pub(crate) fn hear(
        &mut self,
        lines: Vec<Line>,
        ledger: &mut Ledger,
        now: u64,
        out: &mut Vec<RunEvent>,
    ) {
        for line in lines {
            if ledger.is_finished() {
                return;
            }
            if let Err(reason) = self.take(line, ledger, now, out) {
                self.mention(&reason, ledger, now, out);
            }
        }
    }

    fn take(
        &mut self,
        line: Line,
        ledger: &mut Ledger,
        now: u64,
        out: &mut Vec<RunEvent>,
    ) -> Result<(), String> {
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::TooLong => return Err("a line was too long".to_owned()),
        };
        let mut line = AgentLine::parse_line(&bytes).map_err(|err| err.to_string())?;
        if line.n <= self.line {
            return Ok(());
        }
        self.line = line.n;
        if let Event::Usage { .. } = line.event {
            return Err("tokens are counted outside".to_owned());
        }
        if let Event::Custom { name, .. } = &line.event
            && custom::is_projected(name)
        {
            return Err(format!("`{name}` is made outside"));
        }
        if let Event::StepStarted { id, .. } | Event::StepEnded { id, .. } = &line.event
            && call_number(id).is_some()
        {
            return Err(format!("step `{id}` is booked outside"));
        }
        if let Event::Error {
            code: code @ (ErrorCode::ModelError | ErrorCode::ModelTimeout),
            message,
        } = &mut line.event
            && let Some(why) = &self.overspent
        {
            *code = ErrorCode::TokenBudget;
            message.clone_from(why);
        }
        ledger.accept(line, now, out).map_err(|err| err.to_string())
    }

    fn mention(&mut self, reason: &str, ledger: &mut Ledger, now: u64, out: &mut Vec<RunEvent>) {
        self.refused += 1;
        let message = match self.refused {
            1..MENTIONED => format!("the agent wrote a line that is refused: {reason}"),
            MENTIONED => "the agent writes more lines that are refused".to_owned(),
            _ => return,
        };
        // The run has begun and is not over, so this breaks no rule.
        let _ = ledger.append(Event::Log { level: Level::Warn, message }, now, out);
    }
}

#[cfg(test)]
mod tests {
    use wire::run::{ErrorCode, Event, Ledger, Level, RunEvent, RunId};

    use super::{Hearing, MENTIONED};
    use crate::lines::Line;

    fn started() -> Ledger {
        let mut ledger = Ledger::new();
        let run_id = RunId::from_random([1; 15]);
        let harness = "builtin".to_owned();
        let started = Event::Started {
            run_id,
            sandbox_id: None,
            harness,
            provider: None,
            model: None,
            thread_id: None,
            client_run_id: None,
        };
        ledger.append(started, 1, &mut Vec::new()).unwrap();
        ledger
    }

    fn hear(lines: &[&str]) -> Vec<RunEvent> {
        let lines = lines.iter().map(|line| Line::Whole((*line).to_owned().into())).collect();
        let mut out = Vec::new();
        Hearing::after(2).hear(lines, &mut started(), 9, &mut out);
        out
    }

    fn is_warning(entry: &RunEvent) -> bool {
        matches!(&entry.event, Event::Log { level: Level::Warn, .. })
    }

    #[test]
    fn a_line_that_was_heard_before_is_passed_over() {
        let line =
            |n: u32| format!(r#"{{"n":{n},"ts":1,"type":"log","level":"info","message":"m"}}"#);
        let heard = hear(&[&line(1), &line(2), &line(3), &line(3), &line(4)]);
        let numbers: Vec<_> = heard.iter().map(|entry| entry.line).collect();
        assert_eq!(numbers, [Some(3), Some(4)]);
    }

    #[test]
    fn what_an_agent_may_not_say_is_mentioned_and_not_logged() {
        for line in [
            "garbage",
            r#"{"n":3,"ts":1,"type":"usage","input_tokens":1,"output_tokens":1}"#,
            r#"{"n":3,"ts":1,"type":"step_ended","id":"step_1","status":"failed","error":"e","duration_ms":1}"#,
            r#"{"n":3,"ts":1,"type":"step_started","id":"step_tool_1","name":"x","args":{}}"#,
            r#"{"n":3,"ts":1,"type":"custom","name":"tool-input-available","value":{}}"#,
        ] {
            let heard = hear(&[line]);
            assert!(heard.len() == 1 && is_warning(&heard[0]), "{line}: {heard:?}");
        }
    }

    #[test]
    fn a_model_that_failed_for_want_of_budget_is_not_to_blame() {
        let failed = |code: &str| {
            let line = format!(r#"{{"n":1,"ts":1,"type":"error","code":"{code}","message":"m"}}"#);
            let (mut hearing, mut out) = (Hearing::after(0), Vec::new());
            hearing.note_overspent("9 of 8".to_owned());
            hearing.hear(vec![Line::Whole(line.into())], &mut started(), 9, &mut out);
            let Some(Event::Error { code, message }) = out.pop().map(|entry| entry.event) else {
                panic!("no end")
            };
            (code, message)
        };
        for code in ["model_error", "model_timeout"] {
            assert_eq!(failed(code), (ErrorCode::TokenBudget, "9 of 8".to_owned()));
        }
        assert_eq!(failed("cancelled"), (ErrorCode::Cancelled, "m".to_owned()));
    }

    #[test]
    fn an_agent_that_writes_garbage_does_not_fill_the_log() {
        let heard = hear(&["x"; 1000]);
        assert_eq!(heard.len(), MENTIONED as usize);
    }

    #[test]
    fn nothing_is_heard_after_the_end() {
        let heard = hear(&[
            r#"{"n":3,"ts":1,"type":"result","message":"done"}"#,
            r#"{"n":4,"ts":1,"type":"error","code":"internal","message":"late"}"#,
        ]);
        assert_eq!(heard.len(), 1);
    }
}
