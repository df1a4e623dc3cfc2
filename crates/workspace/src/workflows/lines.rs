//! What the engine itself says in the stream of an execution.
//!
//! ```text
//! {"type":"execution","status":"running"}
//!     {"type":"block","block":"one","status":"running"}
//!         the lines of the runner, byte by byte
//!     {"type":"block","block":"one","status":"succeeded"}
//! {"type":"execution","status":"succeeded"}
//! ```
//!
//! Blocks are carried out one at a time, so the brackets say whose lines these
//! are. A runner's line is never of the types `execution` and `block`: one that
//! is not of the envelope ends its block and is not passed on.

use serde::Serialize;
use serde_json::{Map, Value};
use store::ExecutionState;
use wire::workspace::ExecutionId;

use super::blocks::Failure;
use crate::clock;

/// A line of ours.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Line<'a> {
    /// The execution began or ended.
    Execution {
        id: &'a ExecutionId,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        outputs: Option<&'a Value>,
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        failure: Option<Told<'a>>,
        ts: i64,
    },
    /// One of its blocks did.
    Block {
        id: &'a ExecutionId,
        block: &'a str,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        outputs: Option<&'a Map<String, Value>>,
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        failure: Option<Told<'a>>,
        #[serde(rename = "durationMs", skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        ts: i64,
    },
}

/// A failure, as two fields of its line.
#[derive(Debug, Serialize)]
pub(super) struct Told<'a> {
    code: &'a str,
    error: &'a str,
}

/// How far a block is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    Running,
    Succeeded(&'a Map<String, Value>),
    Failed(&'a Failure),
}

impl<'a> Line<'a> {
    /// The first line, and the last.
    pub(super) fn execution(
        id: &'a ExecutionId,
        state: ExecutionState,
        outputs: Option<&'a Value>,
        failure: Option<&'a Failure>,
    ) -> Line<'a> {
        let failure = failure.map(Told::from);
        Line::Execution { id, status: state.name(), outputs, failure, ts: now() }
    }

    /// A block's line.
    pub(super) fn block(
        id: &'a ExecutionId,
        block: &'a str,
        step: Step<'a>,
        duration_ms: Option<u64>,
    ) -> Line<'a> {
        let (status, outputs, failure) = match step {
            Step::Running => ("running", None, None),
            Step::Succeeded(outputs) => ("succeeded", Some(outputs), None),
            Step::Failed(failure) => ("failed", None, Some(Told::from(failure))),
        };
        Line::Block { id, block, status, outputs, failure, duration_ms, ts: now() }
    }

    /// As JSON, without a line break.
    pub(super) fn to_json(&self) -> String {
        // Strings, numbers and JSON: nothing that could not be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl<'a> From<&'a Failure> for Told<'a> {
    fn from(failure: &'a Failure) -> Told<'a> {
        Told { code: &failure.code, error: &failure.message }
    }
}

fn now() -> i64 {
    clock::now().timestamp_millis()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};
    use store::ExecutionState;
    use wire::workspace::ExecutionId;

    use super::{Line, Step};
    use crate::workflows::blocks::Failure;

    #[track_caller]
    fn check(line: &Line<'_>, expected: &str) {
        let json = line.to_json();
        let (before, ts) = json.rsplit_once(r#","ts":"#).unwrap();
        assert!(ts.trim_end_matches('}').parse::<u64>().is_ok(), "{json}");
        assert_eq!(before, expected);
    }

    #[test]
    fn lines_have_golden_bytes() {
        let id = ExecutionId::from_random([0; 15]);
        let failure = Failure::new("model_timeout", "too slow");
        check(
            &Line::execution(&id, ExecutionState::Running, None, None),
            r#"{"type":"execution","id":"exec_000000000000000000000000","status":"running""#,
        );
        check(
            &Line::execution(&id, ExecutionState::Succeeded, Some(&json!([1])), None),
            r#"{"type":"execution","id":"exec_000000000000000000000000","status":"succeeded","outputs":[1]"#,
        );
        check(
            &Line::execution(&id, ExecutionState::Failed, None, Some(&failure)),
            r#"{"type":"execution","id":"exec_000000000000000000000000","status":"failed","code":"model_timeout","error":"too slow""#,
        );
        check(
            &Line::block(&id, "one", Step::Running, None),
            r#"{"type":"block","id":"exec_000000000000000000000000","block":"one","status":"running""#,
        );
        let outputs = Map::from_iter([("response".to_owned(), json!("Hi"))]);
        check(
            &Line::block(&id, "one", Step::Succeeded(&outputs), Some(7)),
            r#"{"type":"block","id":"exec_000000000000000000000000","block":"one","status":"succeeded","outputs":{"response":"Hi"},"durationMs":7"#,
        );
        check(
            &Line::block(&id, "one", Step::Failed(&failure), Some(7)),
            r#"{"type":"block","id":"exec_000000000000000000000000","block":"one","status":"failed","code":"model_timeout","error":"too slow","durationMs":7"#,
        );
    }
}
