//! What every store promises about the rows of tables.

use serde_json::{Value, json};
use store::{Store, TableRow};
use wire::workspace::{ResourceId, ResourceKind, RowId};

use crate::resources::resource;
use crate::time::second;

contract!([
    rows_are_listed_in_the_order_they_came,
    many_rows_are_inserted_all_or_none,
    a_row_is_changed_and_deleted_only_in_its_table,
    a_table_takes_its_rows_with_it,
]);

async fn rows_are_listed_in_the_order_they_came(store: Store) {
    let table = table(&store, 1).await;
    // Ids and times that say otherwise.
    let rows =
        [row(&table, 3, json!({"n": 0})), row(&table, 1, json!("\0")), row(&table, 2, json!(2))];
    store.insert_rows(&rows[..2]).await.unwrap();
    store.insert_rows(&rows[2..]).await.unwrap();
    let listed = store.list_rows(&table, None, 10).await.unwrap();
    assert_eq!(unplaced(listed.clone()), rows);
    assert_eq!(store.list_rows(&table, None, 1).await.unwrap(), listed[..1]);
    let place = |number: usize| Some(listed[number].position);
    assert_eq!(store.list_rows(&table, place(0), 10).await.unwrap(), listed[1..]);
    assert!(store.list_rows(&table, place(2), 10).await.unwrap().is_empty());
    assert_eq!(store.table_row(&table, &rows[1].id).await.unwrap().as_ref(), Some(&listed[1]));
    // One that is gone still says where the list goes on.
    store.delete_row(&table, &rows[1].id).await.unwrap();
    assert_eq!(store.list_rows(&table, place(1), 10).await.unwrap(), listed[2..]);
}

async fn many_rows_are_inserted_all_or_none(store: Store) {
    let table = table(&store, 1).await;
    let rows: Vec<TableRow> = (0..2500u16)
        .map(|number| {
            let mut bytes = [0; 15];
            bytes[..2].copy_from_slice(&number.to_be_bytes());
            TableRow { id: RowId::from_random(bytes), ..row(&table, 0, json!(number)) }
        })
        .collect();
    let mut twice = rows.clone();
    twice.push(rows[0].clone());
    assert!(store.insert_rows(&twice).await.is_err());
    assert_eq!(store.count_rows(&table).await.unwrap(), 0);
    store.insert_rows(&rows).await.unwrap();
    store.insert_rows(&[]).await.unwrap();
    assert_eq!(store.count_rows(&table).await.unwrap(), 2500);
    assert_eq!(unplaced(store.list_rows(&table, None, 3000).await.unwrap()), rows);
}

async fn a_row_is_changed_and_deleted_only_in_its_table(store: Store) {
    let (one, two) = (table(&store, 1).await, table(&store, 2).await);
    let before = row(&one, 1, json!({"n": 1}));
    store.insert_rows(std::slice::from_ref(&before)).await.unwrap();
    let stray = TableRow { table_id: two.clone(), data: json!(0), ..before.clone() };
    assert!(!store.update_row(&stray).await.unwrap());
    assert!(!store.delete_row(&two, &before.id).await.unwrap());
    assert_eq!(store.table_row(&two, &before.id).await.unwrap(), None);
    let after = TableRow { data: json!({"n": 2}), updated_at: second(5), ..before.clone() };
    assert!(store.update_row(&after).await.unwrap());
    let stored = store.table_row(&one, &before.id).await.unwrap().unwrap();
    assert_eq!(unplaced(vec![stored]), [after]);
    assert!(store.delete_row(&one, &before.id).await.unwrap());
    assert!(!store.delete_row(&one, &before.id).await.unwrap());
}

async fn a_table_takes_its_rows_with_it(store: Store) {
    let (one, two) = (table(&store, 1).await, table(&store, 2).await);
    store.insert_rows(&[row(&one, 1, json!(1)), row(&two, 2, json!(2))]).await.unwrap();
    store.delete_resource("red", ResourceKind::Table, &one).await.unwrap();
    assert_eq!(store.count_rows(&one).await.unwrap(), 0);
    assert_eq!(store.count_rows(&two).await.unwrap(), 1);
    // A row that comes too late finds no table.
    assert!(store.insert_rows(&[row(&one, 3, json!(3))]).await.is_err());
}

async fn table(store: &Store, number: u8) -> ResourceId {
    let table = resource(ResourceKind::Table, number, &number.to_string());
    store.create_resource(&table).await.unwrap();
    table.id
}

fn row(table: &ResourceId, number: u8, data: Value) -> TableRow {
    TableRow {
        id: RowId::from_random([number; 15]),
        table_id: table.clone(),
        data,
        created_at: second(0),
        updated_at: second(0),
        position: 0,
    }
}

/// Rows without the places that the store gave them.
fn unplaced(rows: Vec<TableRow>) -> Vec<TableRow> {
    rows.into_iter().map(|row| TableRow { position: 0, ..row }).collect()
}
