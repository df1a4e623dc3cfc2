//! One-time tokens and bearers, each for one dispatch.
//!
//! | token | opens | lives |
//! |---|---|---|
//! | setup | `GET {agent_url}/env`, once | 10 minutes |
//! | run | `GET {agent_url}/config`, once | 10 minutes |
//! | upload | `POST {agent_url}/results`, once | 60 minutes |
//! | bearer | `/api/workspace` | as long as a run may take, or until it ends |
//!
//! The store keeps hashes. One-time tokens leave this process in the dispatch and
//! nowhere else. The bearer is not kept at all: it is made of the session's name
//! whenever `GET config` gives it out.

use std::time::Duration;

use axum::http::{HeaderMap, header::AUTHORIZATION};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use store::{NewBearer, NewOtp, OtpKind, OtpRefusal, SessionCaller, SessionRow, StoreError};
use wire::{Code, Secret, workspace::SessionId};

use crate::{clock, keyring, member::BEARER_PREFIX, problem::Problem, state::Workspace};

/// What one-time tokens start with.
const OTP_PREFIX: &str = "otp_";
/// Life of the tokens that a sandbox redeems when it boots.
const BOOT: TimeDelta = TimeDelta::minutes(10);
/// Life of the token that it redeems when it ends.
const UPLOAD: TimeDelta = TimeDelta::minutes(60);

/// A dispatch that is about to be made.
pub(crate) struct NewSession {
    /// Whose it is.
    pub(crate) workspace: String,
    /// Who dispatches.
    pub(crate) caller: SessionCaller,
    /// The chat or execution whose bag it sees.
    pub(crate) scope: String,
    /// The turn or block it works for.
    pub(crate) work: String,
    /// What `env` and `config` are made of; never a secret.
    pub(crate) brief: Value,
    /// Whether it may write files back.
    pub(crate) upload: bool,
}

/// What the runner is told of a dispatch.
pub(crate) struct Opened {
    pub(crate) agent_url: String,
    pub(crate) otp_setup: Secret<String>,
    pub(crate) otp_run: Secret<String>,
    pub(crate) otp_upload: Option<Secret<String>>,
}

impl Workspace {
    /// Mints the tokens of the dispatch that is called `id`.
    pub(crate) async fn open_session_as(
        &self,
        id: SessionId,
        new: NewSession,
    ) -> Result<Opened, StoreError> {
        let now = clock::now();
        let NewSession { workspace, caller, scope, work, brief, upload } = new;
        let (otp_setup, otp_run) = (mint(), mint());
        let otp_upload = upload.then(mint);
        let mut otps = vec![
            hashed(OtpKind::Setup, &otp_setup, now + BOOT),
            hashed(OtpKind::Run, &otp_run, now + BOOT),
        ];
        otps.extend(otp_upload.as_ref().map(|otp| hashed(OtpKind::Upload, otp, now + UPLOAD)));
        let bearer = NewBearer {
            hash: keyring::hash(self.bearer(&id).expose()),
            expires_at: now + delta(self.settings.max_runtime),
        };
        let prefix = match caller {
            SessionCaller::Assistant => "assistant",
            SessionCaller::Agents => "agents",
        };
        let agent_url = format!("{}/api/{prefix}/sandbox/{id}", self.settings.base_url);
        let row = SessionRow {
            id,
            workspace,
            caller,
            scope,
            work,
            brief,
            created_at: now,
            settled_at: None,
        };
        self.store.open_session(&row, &otps, &bearer).await?;
        Ok(Opened { agent_url, otp_setup, otp_run, otp_upload })
    }

    /// The bearer of a session.
    pub(crate) fn bearer(&self, session: &SessionId) -> Secret<String> {
        let bytes = self.keyring.bearer_bytes(session.as_str());
        Secret::new(format!("{BEARER_PREFIX}{}", base64url(&bytes)))
    }

    /// Redeems the one-time token of a request to a session's callback. It is
    /// used up whatever becomes of the request.
    pub(crate) async fn redeem(
        &self,
        session: &str,
        kind: OtpKind,
        headers: &HeaderMap,
    ) -> Result<SessionRow, Problem> {
        let unknown = || refusal(OtpRefusal::Unknown);
        let id = SessionId::parse(session).map_err(|_| unknown())?;
        let otp = token_in(headers).ok_or_else(unknown)?;
        let redeemed = self.store.redeem_otp(&id, kind, &keyring::hash(otp), clock::now()).await?;
        redeemed.map_err(refusal)?;
        self.store.session(&id).await?.ok_or_else(unknown)
    }
}

/// A time to live, as times are added to.
pub(crate) fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

fn mint() -> Secret<String> {
    let bytes: [u8; 32] = rand::random();
    Secret::new(format!("{OTP_PREFIX}{}", base64url(&bytes)))
}

fn hashed(kind: OtpKind, otp: &Secret<String>, expires_at: DateTime<Utc>) -> NewOtp {
    NewOtp { hash: keyring::hash(otp.expose()), kind, expires_at }
}

/// `Authorization: <otp>`, as the seed has it, or `Bearer <otp>`.
fn token_in(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let token = match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        Some(_) => return None,
        None => value,
    };
    Some(token).filter(|token| token.starts_with(OTP_PREFIX))
}

fn refusal(refusal: OtpRefusal) -> Problem {
    let (code, message) = match refusal {
        OtpRefusal::Unknown => ("otp_unknown", "no one-time token of this session and kind"),
        OtpRefusal::Used => ("otp_used", "the one-time token was used already"),
        OtpRefusal::Expired => ("otp_expired", "the one-time token has expired"),
    };
    Problem::new(Code::Unauthenticated, message).with_code(code)
}

/// Base 64 for URLs, without padding.
fn base64url(bytes: &[u8]) -> String {
    let standard = wire::base64(bytes);
    standard.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

    use super::{base64url, mint, token_in};

    #[test]
    fn a_one_time_token_is_its_prefix_and_43_characters_of_base_64() {
        let (one, other) = (mint(), mint());
        assert_ne!(one.expose(), other.expose());
        let digits = one.expose().strip_prefix("otp_").unwrap();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        assert!(digits.len() == 43 && digits.bytes().all(plain), "{digits}");
        assert_eq!(base64url(&[0xfb, 0xff, 0xfe, 0xfb]), "-__--w");
        assert!(!format!("{one:?}").contains("otp_"));
    }

    #[track_caller]
    fn check(value: &'static str, expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
        assert_eq!(token_in(&headers), expected, "{value}");
    }

    #[test]
    fn a_token_comes_bare_or_as_a_bearer() {
        check("otp_1", Some("otp_1"));
        check("Bearer otp_1", Some("otp_1"));
        check("bearer  otp_1 ", Some("otp_1"));
        check("Basic otp_1", None);
        check("asbx_1", None);
        check("Bearer asbx_1", None);
        check("", None);
        assert_eq!(token_in(&HeaderMap::new()), None);
    }
}
