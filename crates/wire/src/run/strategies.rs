//! Whatever an agent may write, for tests of what becomes of it.

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    AgentLine, ErrorCode, Event, FileChange, Ledger, Level, Outcome, RunEvent, RunId, StepId,
    Terminal, UploadedFile,
};

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e300f64..1e300).prop_map(Value::from),
        ".{0,10}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,5}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// Few ids, so that steps meet each other.
fn step_id() -> impl Strategy<Value = StepId> {
    (0u64..4).prop_map(StepId::from_number)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        (value(), any::<bool>())
            .prop_map(|(result, truncated)| Outcome::Succeeded { result, truncated }),
        (".{0,10}", prop::option::of(value()))
            .prop_map(|(error, result)| Outcome::Failed { error, result }),
        Just(Outcome::Deferred),
    ]
}

pub(crate) fn started() -> impl Strategy<Value = Event> {
    let name = || prop::option::of(".{0,10}");
    (any::<[u8; 15]>(), ".{0,10}", name(), name()).prop_map(|(bytes, harness, thread_id, run)| {
        Event::Started {
            run_id: RunId::from_random(bytes),
            sandbox_id: None,
            harness,
            provider: None,
            model: Some("m".into()),
            thread_id,
            client_run_id: run,
        }
    })
}

pub(crate) fn terminal() -> impl Strategy<Value = Terminal> {
    prop_oneof![
        ".{0,10}".prop_map(|message| Terminal::Result { message }),
        (select(&ErrorCode::ALL[..]), ".{0,10}")
            .prop_map(|(code, message)| Terminal::Error { code, message }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let levels = [Level::Debug, Level::Info, Level::Warn, Level::Error];
    let changes = [FileChange::Create, FileChange::Change, FileChange::Delete];
    prop_oneof![
        1 => started(),
        2 => (select(levels.to_vec()), ".{0,10}")
            .prop_map(|(level, message)| Event::Log { level, message }),
        // Few ids here, too.
        2 => ("[a-c]", ".{0,10}")
            .prop_map(|(message_id, delta)| Event::Text { message_id, delta }),
        1 => ("[a-c]", ".{0,10}")
            .prop_map(|(message_id, delta)| Event::Reasoning { message_id, delta }),
        6 => (step_id(), ".{0,10}", value())
            .prop_map(|(id, name, args)| Event::StepStarted { id, name, args }),
        6 => (step_id(), outcome(), any::<u64>())
            .prop_map(|(id, outcome, duration_ms)| Event::StepEnded { id, outcome, duration_ms }),
        1 => any::<[u64; 4]>().prop_map(|[input, output, read, write]| Event::Usage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: read,
            cache_write_tokens: write,
        }),
        1 => (select(changes.to_vec()), ".{0,10}")
            .prop_map(|(change, path)| Event::File { change, path }),
        1 => (".{0,10}", any::<u64>()).prop_map(|(name, size)| Event::Uploaded {
            files: vec![UploadedFile {
                id: "f".into(),
                name,
                mime_type: "text/plain".into(),
                size,
                sha256: "00".into(),
                storage_key: "k".into(),
            }],
        }),
        1 => (".{0,10}", value()).prop_map(|(name, value)| Event::Custom { name, value }),
        1 => terminal().prop_map(Event::from),
    ]
}

pub(crate) fn lines() -> impl Strategy<Value = Vec<AgentLine>> {
    let line =
        (any::<u64>(), any::<u64>(), event()).prop_map(|(n, ts, event)| AgentLine { n, ts, event });
    prop::collection::vec(line, 0..30)
}

/// The log of a run whose agent writes `lines` and that the runner ends.
pub(crate) fn log_of(started: Event, lines: Vec<AgentLine>, terminal: Terminal) -> Vec<RunEvent> {
    let mut ledger = Ledger::new();
    let mut log = Vec::new();
    ledger.append(started, 1_000, &mut log).unwrap();
    for (now, line) in (1_000..).zip(lines) {
        // What is refused is not in the log, and that is all there is to it.
        let _ = ledger.accept(line, now, &mut log);
    }
    if !ledger.is_finished() {
        ledger.finish(terminal, 2_000, &mut log).unwrap();
    }
    log
}
