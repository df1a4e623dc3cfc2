//! The list: filters, order, pages.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue},
};
use chrono::{DateTime, Utc};
use http_kit::{Caller, Fault, Query};
use percent_encoding::percent_decode_str;
use sandbox::Sandbox;
use serde::Deserialize;
use wire::{Code, ListedSandbox};

use crate::Gateway;

const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");
const TOTAL_RUNNING: HeaderName = HeaderName::from_static("x-total-running");
const PAGE: usize = 100;

/// The query of `GET /v2/sandboxes`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListQuery {
    metadata: Option<String>,
    state: Option<String>,
    order: Option<String>,
    started_after: Option<DateTime<Utc>>,
    template: Option<String>,
    limit: Option<usize>,
    next_token: Option<String>,
}

/// `GET /sandboxes`: the old list, without pages.
pub(crate) async fn list_running(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Query(query): Query<ListQuery>,
) -> Json<Vec<ListedSandbox>> {
    let filter = query.metadata.as_deref().map(metadata_pairs).unwrap_or_default();
    let mut found = gateway.sandboxes.list(&team.0);
    found.retain(|sandbox| has_labels(sandbox, &filter));
    found.sort_by_key(|sandbox| std::cmp::Reverse(position(sandbox)));
    Json(found.iter().map(|sandbox| gateway.summarize(sandbox)).collect())
}

/// `GET /v2/sandboxes`.
pub(crate) async fn list(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Query(query): Query<ListQuery>,
) -> Result<(HeaderMap, Json<Vec<ListedSandbox>>), Fault> {
    let oldest_first = match query.order.as_deref() {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(other) => return Err(bad("order", other, "`asc` or `desc`")),
    };
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=PAGE).contains(&limit) {
        return Err(bad("limit", limit, "1 to 100"));
    }
    let after = query.next_token.as_deref().map(read_token).transpose()?;
    let filter = query.metadata.as_deref().map(metadata_pairs).unwrap_or_default();
    let wants_running = query
        .state
        .as_deref()
        .is_none_or(|states| states.split(',').any(|state| state == "running"));

    let mut headers = HeaderMap::new();
    let mut found = gateway.sandboxes.list(&team.0);
    headers.insert(TOTAL_RUNNING, HeaderValue::from(found.len()));
    found.retain(|sandbox| {
        wants_running
            && has_labels(sandbox, &filter)
            && query.started_after.is_none_or(|after| sandbox.started_at() >= after)
            && query.template.as_deref().is_none_or(|template| sandbox.template() == template)
    });
    found.sort_by_key(position);
    if !oldest_first {
        found.reverse();
    }
    if let Some(after) = after {
        found.retain(|sandbox| {
            if oldest_first { position(sandbox) > after } else { position(sandbox) < after }
        });
    }
    if found.len() > limit {
        found.truncate(limit);
        if let Some(last) = found.last() {
            headers.insert(NEXT_TOKEN, write_token(last));
        }
    }
    Ok((headers, Json(found.iter().map(|sandbox| gateway.summarize(sandbox)).collect())))
}

/// Where a sandbox stands in the list; a page token names the last one seen,
/// so a page stays right when sandboxes come and go.
type Position = (i64, String);

fn position(sandbox: &Arc<Sandbox>) -> Position {
    (sandbox.started_at().timestamp_micros(), sandbox.id().to_string())
}

fn write_token(sandbox: &Arc<Sandbox>) -> HeaderValue {
    let (micros, id) = position(sandbox);
    HeaderValue::from_str(&format!("{micros}-{id}")).unwrap_or(HeaderValue::from_static(""))
}

fn read_token(token: &str) -> Result<Position, Fault> {
    token
        .split_once('-')
        .and_then(|(micros, id)| Some((micros.parse().ok()?, id.to_owned())))
        .ok_or_else(|| bad("nextToken", token, "a token of an earlier page"))
}

fn bad(field: &str, value: impl std::fmt::Display, wanted: &str) -> Fault {
    Fault::new(Code::InvalidArgument, format!("`{field}` is `{value}`; it must be {wanted}"))
}

fn has_labels(sandbox: &Sandbox, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| sandbox.metadata().get(key) == Some(value))
}

/// The SDKs encode each key and value once, the whole as a query string, and
/// that again as a parameter. One decoding has happened by now.
fn metadata_pairs(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    form_urlencoded::parse(text.as_bytes())
        .map(|(key, value)| (decode(&key), decode(&value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{metadata_pairs, read_token};

    #[test]
    fn labels_are_decoded_as_often_as_the_sdks_encode_them() {
        let pairs = metadata_pairs("a%2520b=c%2526d&e=f");
        assert_eq!(pairs["a b"], "c&d");
        assert_eq!(pairs["e"], "f");
    }

    #[test]
    fn a_token_that_is_none_is_refused() {
        assert!(read_token("12-i1").is_ok());
        for bad in ["", "x-i1", "12"] {
            assert!(read_token(bad).is_err(), "{bad:?}");
        }
    }
}
