//! What a crash in the middle of a write leaves behind.

use std::fs;

use wire::run::{Event, Ledger, Level, RunEvent, RunId};

use super::{LOG_FILE, LogError, LogWriter};

fn entries(messages: &[&str]) -> Vec<RunEvent> {
    let mut ledger = Ledger::new();
    let mut out = Vec::new();
    let run_id = RunId::from_random([1; 15]);
    let started = Event::Started {
        run_id,
        sandbox_id: None,
        harness: "builtin".to_owned(),
        provider: None,
        model: None,
        thread_id: None,
        client_run_id: None,
    };
    ledger.append(started, 1, &mut out).unwrap();
    for message in messages {
        let log = Event::Log { level: Level::Info, message: (*message).to_owned() };
        ledger.append(log, 2, &mut out).unwrap();
    }
    for (entry, line) in out.iter_mut().skip(1).zip(7..) {
        entry.line = Some(line);
    }
    out
}

#[tokio::test]
async fn a_torn_line_is_cut_off_wherever_it_was_torn() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let mut writer = LogWriter::create(&directory).unwrap();
    writer.append(&entries(&["one", "two"])).await.unwrap();
    drop(writer);
    let path = directory.join(LOG_FILE);
    let whole = fs::read(&path).unwrap();
    let second = whole.iter().rposition(|b| *b == b'\n').unwrap();
    let start_of_last = whole[..second].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for cut in start_of_last..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let (writer, former) = LogWriter::resume(&directory).unwrap();
        assert_eq!(former.ledger.last_seq(), 2, "cut at {cut}");
        assert_eq!(former.agent_line, 7);
        assert_eq!(writer.progress().borrow().length, start_of_last as u64);
        assert_eq!(fs::read(&path).unwrap(), &whole[..start_of_last]);
    }
}

#[tokio::test]
async fn a_log_goes_on_where_it_ended() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let all = entries(&["one", "two", "three"]);
    let mut writer = LogWriter::create(&directory).unwrap();
    writer.append(&all[..2]).await.unwrap();
    drop(writer);
    let (mut writer, former) = LogWriter::resume(&directory).unwrap();
    assert_eq!(former.ledger.last_seq(), 2);
    writer.append(&all[2..]).await.unwrap();
    let (_, former) = LogWriter::resume(&directory).unwrap();
    assert_eq!((former.ledger.last_seq(), former.agent_line), (4, 9));
}

#[tokio::test]
async fn a_log_with_a_hole_is_damaged() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let all = entries(&["one", "two"]);
    let mut writer = LogWriter::create(&directory).unwrap();
    writer.append(&all[..1]).await.unwrap();
    writer.append(&all[2..]).await.unwrap();
    let resumed = LogWriter::resume(&directory);
    assert!(matches!(resumed, Err(LogError::Damaged(_))), "{resumed:?}");
}

#[tokio::test]
async fn cached_tokens_count_against_the_budget_of_a_run_that_is_taken_up_again() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let mut all = entries(&["one"]);
    all[1].event = Event::Usage {
        input_tokens: 1,
        output_tokens: 20,
        cache_read_tokens: 300,
        cache_write_tokens: 4000,
    };
    let mut writer = LogWriter::create(&directory).unwrap();
    writer.append(&all).await.unwrap();
    let (_, former) = LogWriter::resume(&directory).unwrap();
    assert_eq!((former.input_tokens, former.output_tokens, former.spent), (1, 20, 4321));
}
