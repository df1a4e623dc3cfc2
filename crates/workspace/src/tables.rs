//! Tables: rows under columns with types, for agents and for people.
//!
//! Columns may be added at any time. Taking one away, or changing its type,
//! needs a table without rows: rows are not checked again.

mod definitions;
mod rows;
mod values;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use wire::workspace::{ResourceId, ResourceKind};

use crate::{
    problem::Problem,
    resources::{Checked, Resource, check_count, check_name},
    state::Workspace,
};

/// Most columns.
const COLUMNS: usize = 100;

/// A table.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Table {
    /// Its columns, in the order they are shown.
    columns: Vec<Column>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    /// Its name, and the name of its values in a row.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// What its values are.
    r#type: ColumnType,
}

/// What the values of a column are; each may be null as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColumnType {
    /// Texts.
    Text,
    /// Numbers.
    Number,
    /// True or false.
    Boolean,
    /// Anything at all.
    Json,
    /// Days (`2026-01-31`) or times (`2026-01-31T12:00:00Z`).
    Date,
}

/// A table as it is sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTable {
    /// Its name.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// Its columns.
    #[schema(min_items = 1, max_items = 100)]
    columns: Vec<Column>,
}

/// The routes of tables and their rows.
pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    definitions::routes().merge(rows::routes())
}

impl Resource for Table {
    const KIND: ResourceKind = ResourceKind::Table;
    type Input = NewTable;
    type Secrets = ();

    fn check(input: NewTable, (): ()) -> Result<Checked<Table>, Problem> {
        let NewTable { name, columns } = input;
        check_name("name", &name)?;
        check_count("columns", columns.len(), COLUMNS)?;
        if columns.is_empty() {
            return Err(Problem::bad_field("columns", "a table has at least one column"));
        }
        let mut seen = HashSet::new();
        for (place, column) in columns.iter().enumerate() {
            let field = format!("columns[{place}].name");
            check_name(&field, &column.name)?;
            if !seen.insert(&column.name) {
                return Err(Problem::bad_field(field, "another column has this name"));
            }
        }
        Ok(Checked { name, body: Table { columns }, secrets: () })
    }

    async fn check_replaces(
        &self,
        before: &Table,
        id: &ResourceId,
        workspace: &Workspace,
    ) -> Result<(), Problem> {
        let Some(lost) = before.columns.iter().find(|column| !self.columns.contains(column)) else {
            return Ok(());
        };
        if workspace.store.count_rows(id).await? == 0 {
            return Ok(());
        }
        let message = format!(
            "column `{}` can be taken away or get another type only while there are no rows",
            lost.name
        );
        Err(Problem::conflict("table_has_rows", message).in_field("columns"))
    }
}
