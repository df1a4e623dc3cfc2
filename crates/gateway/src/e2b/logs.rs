//! `GET /sandboxes/{id}/logs`: the last lines of its commands.

use std::collections::BTreeMap;

use axum::Json;
use chrono::{DateTime, Utc};
use http_kit::{Fault, Query};
use sandbox::LogRecord;
use serde::Deserialize;
use wire::{Code, LogEntry, LogLine, Logs, Stream};

use crate::caller::Owned;

/// `start` in Unix milliseconds; `limit` counts from the newest line.
#[derive(Debug, Deserialize)]
pub(crate) struct LogsQuery {
    start: Option<i64>,
    limit: Option<usize>,
}

/// Reads the ring; nothing is followed.
pub(crate) async fn logs(
    Owned(sandbox): Owned,
    Query(query): Query<LogsQuery>,
) -> Result<Json<Logs>, Fault> {
    let since = query.start.map(|start| {
        DateTime::<Utc>::from_timestamp_millis(start).ok_or_else(|| {
            Fault::new(Code::InvalidArgument, "`start` is no time in Unix milliseconds")
        })
    });
    let (records, truncated) = sandbox.log().tail(since.transpose()?, query.limit.unwrap_or(1000));
    Ok(Json(Logs {
        logs: records.iter().map(line).collect(),
        log_entries: records.into_iter().map(entry).collect(),
        truncated,
    }))
}

fn line(record: &LogRecord) -> LogLine {
    LogLine { timestamp: record.at, line: record.text.clone() }
}

fn entry(record: LogRecord) -> LogEntry {
    let level = match record.stream {
        Stream::Stdout | Stream::Pty => "info",
        Stream::Stderr => "error",
    };
    LogEntry {
        timestamp: record.at,
        message: record.text,
        level: level.to_owned(),
        fields: BTreeMap::from([
            ("pid".to_owned(), record.pid.to_string()),
            ("stream".to_owned(), record.stream.name().to_owned()),
        ]),
    }
}
