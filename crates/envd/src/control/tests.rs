//! Order, batching, overflow, and who waits for what.

use std::time::Duration;

use tokio::time::Instant;
use wire::{ControlMessage, Outcome, Stream};

use super::{Control, Drain, EVENTS, LOG_INTERVAL, Link};

fn snapshot() -> ControlMessage {
    ControlMessage::Snapshot { started: 0, ok: 0, error: 0, killed: 0, commands: vec![] }
}

fn end(pid: u32) -> ControlMessage {
    ControlMessage::End { pid, outcome: Outcome::Ok, exit_code: Some(0), reason: None }
}

/// The messages in short: `snapshot`, `end 7`, or a log's text.
fn drain(control: &Control, link: Link) -> Vec<String> {
    let Drain::Lines(lines) = control.drain(link, snapshot) else { return Vec::new() };
    let lines = std::str::from_utf8(&lines).unwrap().lines();
    lines
        .map(|line| match serde_json::from_str(line).unwrap() {
            ControlMessage::Snapshot { .. } => "snapshot".to_owned(),
            ControlMessage::Start(started) => format!("start {}", started.pid),
            ControlMessage::Log { text, dropped: 0, .. } => text,
            ControlMessage::Log { text, dropped, .. } => format!("({dropped}){text}"),
            ControlMessage::End { pid, .. } => format!("end {pid}"),
        })
        .collect()
}

#[tokio::test]
async fn events_and_output_keep_their_order() {
    let control = Control::new();
    let link = control.attach();
    assert_eq!(drain(&control, link), ["snapshot"]);
    control.tee(7, Stream::Stdout, "a\n".into());
    control.tee(7, Stream::Stdout, "b\n".into());
    control.tee(7, Stream::Stderr, "c\n".into());
    control.event(&end(7));
    control.tee(8, Stream::Stdout, "d\n".into());
    assert_eq!(drain(&control, link), ["a\nb\n", "c\n", "end 7", "d\n"]);
}

#[tokio::test]
async fn output_alone_waits_for_company() {
    let control = Control::new();
    let link = control.attach();
    control.tee(7, Stream::Stdout, "a\n".into());
    assert_eq!(drain(&control, link), ["snapshot", "a\n"]);
    control.tee(7, Stream::Stdout, "b\n".into());
    let Drain::Until(due) = control.drain(link, snapshot) else { panic!("did not wait") };
    assert!(due <= Instant::now() + LOG_INTERVAL);
    control.event(&end(7));
    assert_eq!(drain(&control, link), ["b\n", "end 7"]);
}

#[tokio::test]
async fn a_host_that_does_not_read_gets_a_snapshot_instead() {
    let control = Control::new();
    let link = control.attach();
    drain(&control, link);
    for pid in 0..=EVENTS as u32 {
        control.event(&end(pid));
    }
    control.event(&end(1));
    assert_eq!(drain(&control, link), ["snapshot"]);
    control.event(&end(2));
    assert_eq!(drain(&control, link), ["end 2"]);
}

#[tokio::test]
async fn old_output_is_dropped_and_counted() {
    let control = Control::new();
    control.tee(7, Stream::Stdout, "x\n".repeat(2000).into());
    control.tee(7, Stream::Stdout, "y\n".into());
    let link = control.attach();
    let lines = drain(&control, link);
    let expected = format!("({})", (2000 - 1023) * 2) + &"x\n".repeat(1023) + "y\n";
    assert_eq!(lines, ["snapshot", &expected]);
    for _ in 0..20 {
        control.tee(7, Stream::Stdout, vec![b'z'; 32 << 10].into());
    }
    control.event(&end(7));
    let lines = drain(&control, link);
    assert_eq!(lines.len(), 8 + 1);
    assert!(lines[0].starts_with("(393216)zzz"));
}

#[tokio::test]
async fn a_line_is_written_when_hyper_has_flushed_it() {
    let control = Control::new();
    let long = Duration::from_secs(60);
    // Nobody reads, so nobody waits.
    control.written(control.event(&end(1)), long).await;
    let old = control.attach();
    let link = control.attach();
    assert!(matches!(control.drain(old, snapshot), Drain::Replaced));
    let ticket = control.event(&end(2));
    drain(&control, link);
    let waiting = control.written(ticket, long);
    tokio::pin!(waiting);
    let waited = tokio::time::timeout(Duration::from_millis(5), &mut waiting).await;
    assert!(waited.is_err());
    control.flushed(old);
    let waited = tokio::time::timeout(Duration::from_millis(5), &mut waiting).await;
    assert!(waited.is_err());
    control.flushed(link);
    waiting.await;
}
