//! Redeeming the two tokens of the boot: `GET env` and `GET config`. Each is
//! asked once, whatever comes back: a second try would find its token used.

use std::time::Duration;

use http::{Request, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::Secret;
use wire::agent::{AgentConfig, AgentEnv, AgentLimits};
use wire::run::ErrorCode;

use crate::failure::{Failure, with_cause};
use crate::http::{self as link_http, Answer, HttpError, no_body};
use crate::json::{self, Wrong};

/// As much of a refusal as is worth reading.
const REFUSAL_BYTES: u64 = 64 << 10;

/// Redeems the setup token.
pub(super) async fn env(
    link: &str,
    otp: &Secret<String>,
    limits: &AgentLimits,
) -> Result<AgentEnv, Failure> {
    // Its values are secrets, so none of them is quoted.
    redeem(link, "/agent/env", otp, limits, Wrong::without_values).await
}

/// Redeems the run token.
pub(super) async fn config(
    link: &str,
    otp: &Secret<String>,
    limits: &AgentLimits,
) -> Result<AgentConfig, Failure> {
    redeem(link, "/agent/config", otp, limits, Wrong::to_string).await
}

async fn redeem<T: DeserializeOwned>(
    link: &str,
    path: &str,
    otp: &Secret<String>,
    limits: &AgentLimits,
    explain: fn(&Wrong) -> String,
) -> Result<T, Failure> {
    let patience = Duration::from_millis(limits.callback_timeout_ms);
    let failed =
        |what: String| Failure::new(ErrorCode::BootstrapFailed, format!("GET {path}: {what}"));
    let request = Request::get(format!("{link}{path}"))
        .header(header::AUTHORIZATION, otp.expose())
        .body(no_body())
        .map_err(|err| failed(err.to_string()))?;
    let began = tokio::time::Instant::now();
    let said = |err: HttpError| failed(with_cause(&err));
    let answer = link_http::send(request, patience).await.map_err(said)?;
    let left = patience.saturating_sub(began.elapsed());
    if !answer.status.is_success() {
        return Err(refusal(path, answer, left).await);
    }
    let said = |err: HttpError| match err {
        // The limit that is told is the whole one, not what was left of it.
        HttpError::Timeout(_) => failed(HttpError::Timeout(patience).to_string()),
        err @ (HttpError::BadUrl(_)
        | HttpError::Connect { .. }
        | HttpError::Broken { .. }
        | HttpError::TooLarge(_)) => failed(with_cause(&err)),
    };
    let body = answer.read_whole(limits.config_bytes, left).await.map_err(said)?;
    json::parse(&body).map_err(|wrong| failed(explain(&wrong)))
}

/// An answer that is no success, in words; its body may name a reason.
async fn refusal(path: &str, answer: Answer, patience: Duration) -> Failure {
    let status = answer.status;
    let code = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorCode::OtpRejected,
        _ => ErrorCode::BootstrapFailed,
    };
    // The status says enough when the body says nothing.
    let body = answer.read_whole(REFUSAL_BYTES, patience).await.unwrap_or_default();
    let reason = reason(&body).map(|reason| format!(" ({reason})")).unwrap_or_default();
    Failure::new(code, format!("GET {path} answered {}{reason}", status.as_u16()))
}

/// The `code` of a refusal, or else its message: at its top or below `error`.
pub(crate) fn reason(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let inner = value.get("error").filter(|error| error.is_object()).unwrap_or(&value);
    let text = ["code", "message", "error"].iter().find_map(|field| inner.get(field)?.as_str())?;
    Some(text.chars().filter(|c| !c.is_control()).take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn a_refusal_says_its_code() {
        let check = |body: &str, expected: Option<&str>| {
            assert_eq!(reason(body.as_bytes()).as_deref(), expected, "{body}");
        };
        check(r#"{"code":"otp_used","message":"used"}"#, Some("otp_used"));
        check(r#"{"error":{"code":"otp_expired"}}"#, Some("otp_expired"));
        check(r#"{"error":"nope"}"#, Some("nope"));
        check(r#"{"message":"a\nb"}"#, Some("ab"));
        check(r#"{"code":7}"#, None);
        check("<html>", None);
        check("", None);
    }
}
