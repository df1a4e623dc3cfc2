//! `GET /runs`: the caller's runs, newest first, a page at a time.

use axum::{Json, extract::State};
use chrono::DateTime;
use http_kit::{Caller, Fault, Query};
use serde::{Deserialize, Serialize};
use store::RunCursor;
use utoipa::{IntoParams, ToSchema};
use wire::{Code, run::RunId};

use crate::{
    described::{self, Refused},
    fault,
    info::RunInfo,
    office::Runner,
};

/// Runs on a page, unless the caller says otherwise.
const PAGE: u32 = 50;
/// Most runs on a page.
const LARGEST_PAGE: u32 = 200;

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// How many runs at most, 50 unless said.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A page.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Runs {
    runs: Vec<RunInfo>,
    /// Where the next page begins; `null` when there is none.
    next_cursor: Option<String>,
}

/// One page of the caller's runs, the newest first.
#[utoipa::path(
    get,
    path = "/runs",
    operation_id = "list_runs",
    tag = "runs",
    params(Page),
    responses(
        (status = 200, description = "The page.", body = Runs),
        (status = 400, description = "The page is wrong.", body = described::Fault),
        Refused,
    ),
)]
pub(crate) async fn list(
    State(runner): State<Runner>,
    Caller(team): Caller,
    Query(page): Query<Page>,
) -> Result<Json<Runs>, Fault> {
    let wrong = |message| Fault::new(Code::InvalidArgument, message);
    let limit = match page.limit.unwrap_or(PAGE) {
        limit @ 1..=LARGEST_PAGE => limit,
        _ => return Err(wrong("`limit` must be from 1 to 200")),
    };
    let behind = match page.cursor.as_deref() {
        None | Some("") => None,
        Some(text) => Some(read(text).ok_or_else(|| wrong("`cursor` is none of ours"))?),
    };
    let office = &runner.office;
    let rows = office.store.runs_of(&team.0, behind.as_ref(), limit).await;
    let rows = rows.map_err(fault::of_store)?;
    let full = rows.len() == limit as usize;
    let next_cursor = rows
        .last()
        .filter(|_| full)
        .map(|last| format!("{}-{}", last.started_at.timestamp_millis(), last.id));
    let info = |row: store::RunRow| {
        let progress = office.get(&row.id).map(|run| *run.progress().borrow());
        RunInfo::new(row, progress)
    };
    Ok(Json(Runs { runs: rows.into_iter().map(info).collect(), next_cursor }))
}

fn read(cursor: &str) -> Option<RunCursor> {
    let (milliseconds, id) = cursor.split_once('-')?;
    Some(RunCursor {
        started_at: DateTime::from_timestamp_millis(milliseconds.parse().ok()?)?,
        id: RunId::parse(id).ok()?,
    })
}
