//! Streams: what happened in a turn or an execution, in order.
//!
//! Whoever listens late reads from here what the others heard live, so an
//! event is stored before it is sent. A stream has the id of its turn or
//! execution and goes some time after that one ended.

use chrono::{DateTime, Utc};

use crate::database::{Store, StoreError, number, on, to_column, transaction};

/// How many events one statement takes; SQLite has a limit of its own on what
/// can be bound to one.
pub(crate) const AT_ONCE: usize = 500;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEvent {
    /// Its number in the stream; listeners ask for what comes after one.
    pub seq: u64,
    /// What it tells.
    pub kind: String,
    /// The rest of it: JSON, or a line as it came.
    pub data: String,
    /// The number of what it was made from, in the runner's log.
    pub upstream: Option<u64>,
}

/// Adds events to a stream over `$database`, a pool or a transaction's
/// connection: one statement for each `AT_ONCE` of them.
macro_rules! insert_events {
    ($database:expr, $stream:expr, $events:expr) => {
        for events in $events.chunks($crate::streams::AT_ONCE) {
            let mut insert = sqlx::QueryBuilder::new(
                "INSERT INTO stream_events (stream_id, seq, kind, data, upstream) ",
            );
            insert.push_values(events, |mut row, event: &$crate::streams::StreamEvent| {
                row.push_bind($stream)
                    .push_bind($crate::database::number(event.seq))
                    .push_bind(event.kind.as_str())
                    .push_bind($crate::database::without_nul(&event.data))
                    .push_bind(event.upstream.map($crate::database::number));
            });
            // Its text depends on how many there are: not worth to be kept.
            insert.build().persistent(false).execute($database).await?;
        }
    };
}

pub(crate) use insert_events;

impl Store {
    /// Adds events, all or none. A number that is taken is an error.
    pub async fn append_events(
        &self,
        stream: &str,
        events: &[StreamEvent],
    ) -> Result<(), StoreError> {
        if events.len() > AT_ONCE {
            return transaction!(self, |tx| {
                insert_events!(&mut **tx, stream, events);
                Ok::<_, StoreError>(())
            });
        }
        on!(self, |pool| insert_events!(pool, stream, events));
        Ok(())
    }

    /// What came after an event, at most `limit` of it, in order.
    pub async fn events_after(
        &self,
        stream: &str,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StreamEvent>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT seq, kind, data, upstream FROM stream_events
             WHERE stream_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        )
        .bind(stream)
        .bind(number(after))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(|columns| columns.into_event(stream)).collect()
    }

    /// The number of the last event, and the highest one of the runner's log
    /// that any event was made from.
    pub async fn last_event(&self, stream: &str) -> Result<Option<(u64, Option<u64>)>, StoreError> {
        let (last, upstream): (Option<i64>, Option<i64>) = on!(self, |pool| sqlx::query_as(
            "SELECT MAX(seq), MAX(upstream) FROM stream_events WHERE stream_id = $1",
        )
        .bind(stream)
        .fetch_one(pool)
        .await)?;
        let Some(last) = last else { return Ok(None) };
        let upstream = upstream.map(|seq| count(stream, "upstream", seq)).transpose()?;
        Ok(Some((count(stream, "seq", last)?, upstream)))
    }

    /// Forgets the events of turns and executions that ended before then, and
    /// says how many events those were.
    pub async fn prune_streams(&self, ended_before: DateTime<Utc>) -> Result<u64, StoreError> {
        let pruned = on!(self, |pool| sqlx::query(
            "DELETE FROM stream_events WHERE stream_id IN (
                 SELECT id FROM turns WHERE ended_at < $1
                 UNION ALL SELECT id FROM executions WHERE ended_at < $1)",
        )
        .bind(to_column(ended_before))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(pruned)
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    seq: i64,
    kind: String,
    data: String,
    upstream: Option<i64>,
}

impl Columns {
    fn into_event(self, stream: &str) -> Result<StreamEvent, StoreError> {
        let upstream = self.upstream.map(|seq| count(stream, "upstream", seq)).transpose()?;
        let seq = count(stream, "seq", self.seq)?;
        Ok(StreamEvent { seq, kind: self.kind, data: self.data, upstream })
    }
}

/// A count out of its column.
pub(crate) fn count(id: &str, column: &'static str, value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| StoreError::Damaged { id: id.to_owned(), column })
}
