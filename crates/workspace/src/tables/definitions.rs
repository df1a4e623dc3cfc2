//! The routes of tables themselves; a sandbox may use them too.

use super::{NewTable, Table};
use crate::{member::Member, resources::crud};

crud!(
    Table,
    NewTable,
    Member,
    "/api/workspace/tables",
    "tables",
    "a table",
    "tables",
    create_table,
    list_tables,
    get_table,
    replace_table,
    delete_table
);
