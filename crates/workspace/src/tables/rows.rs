//! The routes of rows. Several are added at once: all of them or none.

use axum::{Json as Answer, extract::State, http::StatusCode};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::TableRow;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::{
    Code,
    workspace::{ResourceId, RowId},
};

use super::Table;
use crate::{
    body::{Json, Path, Query},
    clock,
    member::Member,
    page::{Page, PageQuery},
    problem::{Problem, ProblemBody},
    resources::{check_count, load},
    state::Workspace,
};

/// Most rows of one request.
const AT_ONCE: usize = 1_000;
/// Most rows of one table. Requests at the same moment may go past it by what
/// they add.
const MOST: u64 = 100_000;

/// A row.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// Its name in addresses.
    id: String,
    /// Its values under their columns' names.
    #[schema(value_type = Object)]
    data: Value,
    /// When it was added.
    created_at: DateTime<Utc>,
    /// When it was last replaced.
    updated_at: DateTime<Utc>,
}

/// Rows that are to be added.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRows {
    /// Each an object with values under their columns' names.
    #[schema(value_type = Vec<Object>, min_items = 1, max_items = 1000)]
    rows: Vec<Map<String, Value>>,
}

/// Rows that were added.
#[derive(Debug, Serialize, ToSchema)]
struct AddedRows {
    /// In the order they were sent.
    items: Vec<Row>,
}

/// What a row is replaced by.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRow {
    /// Values under their columns' names.
    #[schema(value_type = Object)]
    data: Map<String, Value>,
}

pub(super) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new().routes(routes!(list_rows, add_rows)).routes(routes!(
        get_row,
        replace_row,
        delete_row
    ))
}

/// Add rows to a table: all of them or none
#[utoipa::path(
    post, path = "/api/workspace/tables/{id}/rows", tag = "tables",
    params(("id" = String, Path, description = "The table's id.")),
    request_body = NewRows,
    responses(
        (status = 201, description = "They were added.", body = AddedRows),
        (status = 400, description = "A value does not fit its column.", body = ProblemBody),
        (status = 401, description = "No valid key or bearer.", body = ProblemBody),
        (status = 404, description = "There is no such table.", body = ProblemBody),
        (status = 413, description = "The body is too large.", body = ProblemBody),
        (status = 415, description = "The body is not JSON.", body = ProblemBody),
        (status = 429, description = "The table is full.", body = ProblemBody),
    ),
)]
async fn add_rows(
    State(workspace): State<Workspace>,
    member: Member,
    Path(id): Path<String>,
    Json(NewRows { rows }): Json<NewRows>,
) -> Result<(StatusCode, Answer<AddedRows>), Problem> {
    let (kept, table) = load::<Table>(&workspace, &member.workspace, &id).await?;
    check_count("rows", rows.len(), AT_ONCE)?;
    if rows.is_empty() {
        return Err(Problem::bad_field("rows", "has no entries"));
    }
    let now = clock::now();
    let fitted = rows.into_iter().enumerate().map(|(place, row)| {
        Ok(TableRow {
            id: RowId::from_random(rand::random()),
            table_id: kept.id.clone(),
            data: table.fit(&format!("rows[{place}]"), row)?,
            created_at: now,
            updated_at: now,
            position: 0,
        })
    });
    let rows = fitted.collect::<Result<Vec<TableRow>, Problem>>()?;
    let count = workspace.store.count_rows(&kept.id).await?;
    if count + rows.len() as u64 > MOST {
        let message = format!("a table has at most {MOST} rows, and this one has {count}");
        return Err(Problem::new(Code::ResourceExhausted, message).with_code("too_many"));
    }
    workspace.store.insert_rows(&rows).await?;
    let items = rows.into_iter().map(Row::from).collect();
    Ok((StatusCode::CREATED, Answer(AddedRows { items })))
}

/// List the rows of a table, oldest first
#[utoipa::path(
    get, path = "/api/workspace/tables/{id}/rows", tag = "tables",
    params(("id" = String, Path, description = "The table's id."), PageQuery),
    responses(
        (status = 200, description = "A page.", body = Page<Row>),
        (status = 400, description = "The page is wrong.", body = ProblemBody),
        (status = 401, description = "No valid key or bearer.", body = ProblemBody),
        (status = 404, description = "There is no such table.", body = ProblemBody),
    ),
)]
async fn list_rows(
    State(workspace): State<Workspace>,
    member: Member,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Answer<Page<Row>>, Problem> {
    let limit = query.limit()?;
    let after = query.cursor.as_deref().map(str::parse).transpose();
    let after =
        after.map_err(|_| Problem::bad_field("cursor", "cursor is none that this list gave"))?;
    let (kept, _) = load::<Table>(&workspace, &member.workspace, &id).await?;
    let rows = workspace.store.list_rows(&kept.id, after, limit + 1).await?;
    // The place, and not the id: it is good when the row is gone.
    let page = Page::cut(rows, limit, |row| row.position.to_string());
    let items = page.items.into_iter().map(Row::from).collect();
    Ok(Answer(Page { items, next_cursor: page.next_cursor }))
}

/// Look at a row
#[utoipa::path(
    get, path = "/api/workspace/tables/{id}/rows/{row}", tag = "tables",
    params(
        ("id" = String, Path, description = "The table's id."),
        ("row" = String, Path, description = "The row's id."),
    ),
    responses(
        (status = 200, description = "It.", body = Row),
        (status = 401, description = "No valid key or bearer.", body = ProblemBody),
        (status = 404, description = "There is no such table or row.", body = ProblemBody),
    ),
)]
async fn get_row(
    State(workspace): State<Workspace>,
    member: Member,
    Path((id, row)): Path<(String, String)>,
) -> Result<Answer<Row>, Problem> {
    let (kept, _) = load::<Table>(&workspace, &member.workspace, &id).await?;
    find(&workspace, &kept.id, &row).await.map(|found| Answer(Row::from(found)))
}

/// Replace a row
#[utoipa::path(
    put, path = "/api/workspace/tables/{id}/rows/{row}", tag = "tables",
    params(
        ("id" = String, Path, description = "The table's id."),
        ("row" = String, Path, description = "The row's id."),
    ),
    request_body = NewRow,
    responses(
        (status = 200, description = "It was replaced.", body = Row),
        (status = 400, description = "A value does not fit its column.", body = ProblemBody),
        (status = 401, description = "No valid key or bearer.", body = ProblemBody),
        (status = 404, description = "There is no such table or row.", body = ProblemBody),
        (status = 413, description = "The body is too large.", body = ProblemBody),
        (status = 415, description = "The body is not JSON.", body = ProblemBody),
    ),
)]
async fn replace_row(
    State(workspace): State<Workspace>,
    member: Member,
    Path((id, row)): Path<(String, String)>,
    Json(NewRow { data }): Json<NewRow>,
) -> Result<Answer<Row>, Problem> {
    let (kept, table) = load::<Table>(&workspace, &member.workspace, &id).await?;
    let mut found = find(&workspace, &kept.id, &row).await?;
    found.data = table.fit("data", data)?;
    found.updated_at = clock::now();
    if workspace.store.update_row(&found).await? {
        Ok(Answer(Row::from(found)))
    } else {
        Err(Problem::not_found("row", &row))
    }
}

/// Take a row away
#[utoipa::path(
    delete, path = "/api/workspace/tables/{id}/rows/{row}", tag = "tables",
    params(
        ("id" = String, Path, description = "The table's id."),
        ("row" = String, Path, description = "The row's id."),
    ),
    responses(
        (status = 204, description = "It is gone."),
        (status = 401, description = "No valid key or bearer.", body = ProblemBody),
        (status = 404, description = "There is no such table or row.", body = ProblemBody),
    ),
)]
async fn delete_row(
    State(workspace): State<Workspace>,
    member: Member,
    Path((id, row)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (kept, _) = load::<Table>(&workspace, &member.workspace, &id).await?;
    let missing = || Problem::not_found("row", &row);
    let parsed = RowId::parse(&row).map_err(|_| missing())?;
    if workspace.store.delete_row(&kept.id, &parsed).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(missing())
    }
}

async fn find(workspace: &Workspace, table: &ResourceId, row: &str) -> Result<TableRow, Problem> {
    let missing = || Problem::not_found("row", row);
    let id = RowId::parse(row).map_err(|_| missing())?;
    workspace.store.table_row(table, &id).await?.ok_or_else(missing)
}

impl From<TableRow> for Row {
    fn from(row: TableRow) -> Row {
        let TableRow { id, data, created_at, updated_at, .. } = row;
        Row { id: id.to_string(), data, created_at, updated_at }
    }
}
