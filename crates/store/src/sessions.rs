//! Sessions: one dispatch each, with the tokens that are good for it alone.
//!
//! ```text
//! open ──► tokens are redeemed, the bearer is shown ──► settled (opens nothing any more) ──► pruned
//! ```
//!
//! The store sees the SHA-256 of a token and never the token. A one-time token
//! is redeemed by a single `UPDATE`, so of many callers at once one wins.

use chrono::{DateTime, Utc};
use serde_json::Value;
use wire::workspace::SessionId;

use crate::database::{Store, StoreError, from_column, on, to_column, transaction};

/// One dispatch: what its sandbox may ask for, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Its public name.
    pub id: SessionId,
    /// Whose it is.
    pub workspace: String,
    /// Which family of callbacks it has.
    pub caller: SessionCaller,
    /// The conversation or the execution whose bag it has.
    pub scope: String,
    /// The turn or the block it works on.
    pub work: String,
    /// What its configuration is made of; never a secret.
    pub brief: Value,
    /// When it was opened, to the millisecond.
    pub created_at: DateTime<Utc>,
    /// Since when it opens nothing any more.
    pub settled_at: Option<DateTime<Utc>>,
}

/// Which family of callbacks a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCaller {
    /// A turn of a conversation.
    Assistant,
    /// A block of a workflow.
    Agents,
}

/// What a one-time token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtpKind {
    /// To fetch the environment.
    Setup,
    /// To fetch the configuration.
    Run,
    /// To hand in the results.
    Upload,
}

/// A one-time token to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOtp {
    /// The SHA-256 of the token.
    pub hash: [u8; 32],
    /// What it is good for.
    pub kind: OtpKind,
    /// When it stops being so, to the millisecond.
    pub expires_at: DateTime<Utc>,
}

/// A bearer to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewBearer {
    /// The SHA-256 of the bearer.
    pub hash: [u8; 32],
    /// When it stops opening anything, to the millisecond.
    pub expires_at: DateTime<Utc>,
}

/// Why a one-time token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtpRefusal {
    /// It is not one of this session, or not of this kind.
    #[error("the token is unknown")]
    Unknown,
    /// Somebody was here with it before.
    #[error("the token was used before")]
    Used,
    /// It is too late for it.
    #[error("the token has expired")]
    Expired,
}

impl Store {
    /// Adds a session with its tokens: all or nothing.
    pub async fn open_session(
        &self,
        row: &SessionRow,
        otps: &[NewOtp],
        bearer: &NewBearer,
    ) -> Result<(), StoreError> {
        transaction!(self, |tx| {
            sqlx::query(
                "INSERT INTO sessions
                     (id, workspace, caller, scope, work, brief, created_at, settled_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            )
            .bind(row.id.as_str())
            .bind(&row.workspace)
            .bind(row.caller.name())
            .bind(&row.scope)
            .bind(&row.work)
            .bind(row.brief.to_string())
            .bind(to_column(row.created_at))
            .bind(row.settled_at.map(to_column))
            .execute(&mut **tx)
            .await?;
            for otp in otps {
                sqlx::query(
                    "INSERT INTO crew_agent_otp (hash, kind, session_id, expires_at)
                     VALUES ($1, $2, $3, $4)",
                )
                .bind(&otp.hash[..])
                .bind(otp.kind.name())
                .bind(row.id.as_str())
                .bind(to_column(otp.expires_at))
                .execute(&mut **tx)
                .await?;
            }
            sqlx::query(
                "INSERT INTO sandbox_bearers (hash, session_id, expires_at) VALUES ($1, $2, $3)",
            )
            .bind(&bearer.hash[..])
            .bind(row.id.as_str())
            .bind(to_column(bearer.expires_at))
            .execute(&mut **tx)
            .await?;
            Ok::<_, StoreError>(())
        })
    }

    /// One session, open or settled.
    pub async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        let columns: Option<Columns> =
            on!(self, |pool| sqlx::query_as("SELECT * FROM sessions WHERE id = $1")
                .bind(id.as_str())
                .fetch_optional(pool)
                .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// Uses a one-time token up, if it is one of this session and kind, unused
    /// and not expired.
    pub async fn redeem_otp(
        &self,
        session: &SessionId,
        kind: OtpKind,
        hash: &[u8; 32],
        now: DateTime<Utc>,
    ) -> Result<Result<(), OtpRefusal>, StoreError> {
        let redeemed = on!(self, |pool| sqlx::query(
            "UPDATE crew_agent_otp SET used_at = $4
             WHERE hash = $1 AND session_id = $2 AND kind = $3
                 AND used_at IS NULL AND expires_at > $4",
        )
        .bind(&hash[..])
        .bind(session.as_str())
        .bind(kind.name())
        .bind(to_column(now))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        if redeemed == 1 {
            return Ok(Ok(()));
        }
        let used_at: Option<(Option<i64>,)> = on!(self, |pool| {
            sqlx::query_as(
            "SELECT used_at FROM crew_agent_otp WHERE hash = $1 AND session_id = $2 AND kind = $3",
        )
        .bind(&hash[..])
        .bind(session.as_str())
        .bind(kind.name())
        .fetch_optional(pool)
        .await
        })?;
        Ok(Err(match used_at {
            None => OtpRefusal::Unknown,
            Some((Some(_),)) => OtpRefusal::Used,
            Some((None,)) => OtpRefusal::Expired,
        }))
    }

    /// The session a bearer is good for, if it is known, not expired and its
    /// session not settled. The look-up goes by hash, so its timing tells
    /// nothing about a stored bearer.
    pub async fn session_of_bearer(
        &self,
        hash: &[u8; 32],
        now: DateTime<Utc>,
    ) -> Result<Option<SessionRow>, StoreError> {
        let columns: Option<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT sessions.* FROM sandbox_bearers
             JOIN sessions ON sessions.id = sandbox_bearers.session_id
             WHERE sandbox_bearers.hash = $1 AND sandbox_bearers.revoked_at IS NULL
                 AND sandbox_bearers.expires_at > $2",
        )
        .bind(&hash[..])
        .bind(to_column(now))
        .fetch_optional(pool)
        .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// Makes the session open nothing from now on: its bearer is revoked, its
    /// unused tokens expire. Settling twice keeps the first time.
    pub async fn settle_session(
        &self,
        id: &SessionId,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        transaction!(self, |tx| {
            sqlx::query("UPDATE sessions SET settled_at = $2 WHERE id = $1 AND settled_at IS NULL")
                .bind(id.as_str())
                .bind(to_column(now))
                .execute(&mut **tx)
                .await?;
            // Long ago and not `now`: a caller may have looked at its clock
            // before us and come to the database after us.
            sqlx::query(
                "UPDATE crew_agent_otp SET expires_at = 0
                 WHERE session_id = $1 AND used_at IS NULL",
            )
            .bind(id.as_str())
            .execute(&mut **tx)
            .await?;
            sqlx::query(
                "UPDATE sandbox_bearers SET revoked_at = $2
                 WHERE session_id = $1 AND revoked_at IS NULL",
            )
            .bind(id.as_str())
            .bind(to_column(now))
            .execute(&mut **tx)
            .await?;
            Ok::<_, StoreError>(())
        })
    }

    /// Forgets sessions that were settled before then, with their tokens, and
    /// says how many.
    pub async fn prune_sessions(&self, settled_before: DateTime<Utc>) -> Result<u64, StoreError> {
        let done = on!(self, |pool| sqlx::query("DELETE FROM sessions WHERE settled_at < $1")
            .bind(to_column(settled_before))
            .execute(pool)
            .await
            .map(|done| done.rows_affected()))?;
        Ok(done)
    }
}

impl SessionCaller {
    /// The name in the store.
    fn name(self) -> &'static str {
        match self {
            SessionCaller::Assistant => "assistant",
            SessionCaller::Agents => "agents",
        }
    }

    fn parse(name: &str) -> Option<SessionCaller> {
        [SessionCaller::Assistant, SessionCaller::Agents].into_iter().find(|it| it.name() == name)
    }
}

impl OtpKind {
    /// The name in the store.
    fn name(self) -> &'static str {
        match self {
            OtpKind::Setup => "setup",
            OtpKind::Run => "run",
            OtpKind::Upload => "upload",
        }
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    workspace: String,
    caller: String,
    scope: String,
    work: String,
    brief: String,
    created_at: i64,
    settled_at: Option<i64>,
}

impl Columns {
    fn into_row(self) -> Result<SessionRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        Ok(SessionRow {
            id: SessionId::parse(&self.id).map_err(|_| damaged("id"))?,
            caller: SessionCaller::parse(&self.caller).ok_or_else(|| damaged("caller"))?,
            brief: serde_json::from_str(&self.brief).map_err(|_| damaged("brief"))?,
            created_at: from_column(&self.id, "created_at", self.created_at)?,
            settled_at: self
                .settled_at
                .map(|at| from_column(&self.id, "settled_at", at))
                .transpose()?,
            workspace: self.workspace,
            scope: self.scope,
            work: self.work,
        })
    }
}
