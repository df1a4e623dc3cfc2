//! Tables and their rows, for owners and for sandboxes.

use reqwest::Method;
use serde_json::{Value, json};

use super::place::{Place, answer, refused};

const TABLES: &str = "/api/workspace/tables";

fn orders() -> Value {
    json!({"name": "Orders", "columns": [
        {"name": "item", "type": "text"}, {"name": "price", "type": "number"},
    ]})
}

#[tokio::test]
async fn rows_are_added_listed_replaced_and_taken_away() {
    let place = Place::start().await;
    let table = format!("{TABLES}/{}", place.make(TABLES, orders()).await);
    let rows = format!("{table}/rows");
    let sent = json!({"rows": [{"item": "a", "price": 1}, {"item": "b"}, {"price": 2.5}]});
    let (status, added) = place.ask(Method::POST, &rows, sent).await;
    assert_eq!(status, 201, "{added}");
    assert_eq!(added["items"][1]["data"], json!({"item": "b", "price": null}));
    let (_, page) = place.get(&format!("{rows}?limit=2")).await;
    assert_eq!(page["items"], json!([added["items"][0], added["items"][1]]));
    let cursor = page["nextCursor"].as_str().unwrap();
    let (_, page) = place.get(&format!("{rows}?limit=2&cursor={cursor}")).await;
    assert_eq!(page, json!({"items": [added["items"][2]], "nextCursor": null}));

    let row = format!("{rows}/{}", added["items"][0]["id"].as_str().unwrap());
    assert_eq!(place.get(&row).await, (200, added["items"][0].clone()));
    let (status, replaced) = place.ask(Method::PUT, &row, json!({"data": {"item": "c"}})).await;
    assert_eq!((status, &replaced["data"]), (200, &json!({"item": "c", "price": null})));
    let answer = place.ask(Method::PUT, &row, json!({"data": {"price": "x"}})).await;
    refused(&answer, 400, "invalid_argument", "data.price");
    assert_eq!(place.ask(Method::DELETE, &row, Value::Null).await.0, 204);
    assert_eq!(place.ask(Method::DELETE, &row, Value::Null).await.0, 404);
    assert_eq!(place.get(&row).await.0, 404);

    for (sent, field) in [
        (json!({"rows": [{}, {}, {}, {"price": "x"}]}), "rows[3].price"),
        (json!({"rows": [{"colour": 1}]}), "rows[0].colour"),
        (json!({"rows": []}), "rows"),
        (json!({"rows": [1]}), "rows[0]"),
        (json!({"rows": vec![json!({}); 1001]}), "rows"),
    ] {
        refused(&place.ask(Method::POST, &rows, sent).await, 400, "invalid_argument", field);
    }
    // Of a refused request nothing is added.
    assert_eq!(place.get(&rows).await.1["items"].as_array().unwrap().len(), 2);
    assert_eq!(place.ask_as("blue", Method::GET, &rows, Value::Null).await.0, 404);
    assert_eq!(place.ask(Method::DELETE, &table, Value::Null).await.0, 204);
    assert_eq!(place.get(&rows).await.0, 404);
    place.end().await;
}

#[tokio::test]
async fn columns_can_be_added_and_are_lost_only_without_rows() {
    let place = Place::start().await;
    let table = format!("{TABLES}/{}", place.make(TABLES, orders()).await);
    let rows = format!("{table}/rows");
    place.ask(Method::POST, &rows, json!({"rows": [{"item": "a"}]})).await;
    let mut more = orders();
    more["columns"].as_array_mut().unwrap().push(json!({"name": "on", "type": "date"}));
    assert_eq!(place.ask(Method::PUT, &table, more).await.0, 200);
    let answer = place.ask(Method::PUT, &table, orders()).await;
    refused(&answer, 409, "table_has_rows", "columns");
    for (columns, field) in [
        (json!([]), "columns"),
        (json!([{"name": "a", "type": "text"}, {"name": "a", "type": "json"}]), "columns[1].name"),
        (json!([{"name": "", "type": "text"}]), "columns[0].name"),
        (json!([{"name": "a", "type": "colour"}]), "columns[0].type"),
    ] {
        let answer =
            place.ask(Method::POST, TABLES, json!({"name": "x", "columns": columns})).await;
        refused(&answer, 400, "invalid_argument", field);
    }
    place.end().await;
}

#[tokio::test]
async fn a_sandbox_uses_the_tables_of_its_workspace_with_its_bearer() {
    let place = Place::start().await;
    let session = place.session(None).await;
    let ask = |method, path: &str, bearer: &str| {
        place.request(method, path).header("authorization", format!("Bearer {bearer}"))
    };
    let bearer = format!("asbx_{session}");
    let (status, made) =
        answer(ask(Method::POST, TABLES, &bearer).body(orders().to_string())).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(place.get(TABLES).await.1["items"], json!([made]));
    assert_eq!(answer(ask(Method::GET, TABLES, "asbx_other")).await.0, 401);
    place.end().await;
}
