//! What every store promises about executions of workflows.

use std::slice::from_ref;

use serde_json::json;
use store::{ExecutionEnd, ExecutionRow, ExecutionState, Store};
use wire::workspace::{ExecutionId, ResourceId, ResourceKind};

use crate::streams::event;
use crate::time::second;

contract!([
    an_execution_is_read_back_only_in_its_workspace,
    executions_are_paged_newest_first_of_one_workflow_or_all,
    the_end_of_an_execution_is_there_whole_and_once,
]);

async fn an_execution_is_read_back_only_in_its_workspace(store: Store) {
    let row = execution(1, 0);
    store.insert_execution(&row).await.unwrap();
    assert_eq!(store.execution("red", &row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(store.execution("blue", &row.id).await.unwrap(), None);
    assert_eq!(store.open_executions().await.unwrap(), from_ref(&row));
    assert!(store.insert_execution(&row).await.is_err());
}

async fn executions_are_paged_newest_first_of_one_workflow_or_all(store: Store) {
    for (number, start) in [(3, 1), (1, 0), (2, 1), (4, 2)] {
        store.insert_execution(&execution(number, start)).await.unwrap();
    }
    let other = ExecutionRow { workflow_id: workflow(2), ..execution(5, 3) };
    store.insert_execution(&other).await.unwrap();
    let foreign = ExecutionRow { workspace: "blue".to_owned(), ..execution(6, 1) };
    store.insert_execution(&foreign).await.unwrap();

    let mut seen: Vec<ExecutionRow> = Vec::new();
    loop {
        let before = seen.last().map(|row| (row.started_at, &row.id));
        let mut page = store.list_executions("red", Some(&workflow(1)), before, 1).await.unwrap();
        let Some(row) = page.pop() else { break };
        seen.push(row);
    }
    let numbers = seen.iter().map(|row| row.id.clone());
    assert!(numbers.eq([4, 3, 2, 1].map(id)));
    assert_eq!(store.list_executions("red", None, None, 9).await.unwrap().len(), 5);
    assert_eq!(store.list_executions("red", None, None, 1).await.unwrap(), [other]);
}

async fn the_end_of_an_execution_is_there_whole_and_once(store: Store) {
    let row = execution(1, 0);
    store.insert_execution(&row).await.unwrap();
    let last = [event(1, "line"), event(2, "line")];
    assert!(store.finish_execution(&row.id, &ended(5), &last).await.unwrap());
    let cancelled = ExecutionEnd {
        state: ExecutionState::Cancelled,
        outputs: None,
        code: Some("cancelled".to_owned()),
        error: None,
        at: second(6),
    };
    assert!(!store.finish_execution(&row.id, &cancelled, &[event(3, "line")]).await.unwrap());
    assert!(!store.finish_execution(&id(2), &cancelled, &[]).await.unwrap());
    let expected = ExecutionRow {
        state: ExecutionState::Succeeded,
        outputs: Some(json!({"answer": 42})),
        ended_at: Some(second(5)),
        ..row.clone()
    };
    assert_eq!(store.execution("red", &row.id).await.unwrap(), Some(expected));
    assert_eq!(store.events_after(row.id.as_str(), 0, 9).await.unwrap(), last);
    assert!(store.open_executions().await.unwrap().is_empty());
}

pub(crate) fn id(number: u8) -> ExecutionId {
    ExecutionId::from_random([number; 15])
}

pub(crate) fn execution(number: u8, start: i64) -> ExecutionRow {
    ExecutionRow {
        id: id(number),
        workspace: "red".to_owned(),
        workflow_id: workflow(1),
        workflow: json!({"blocks": []}),
        input: json!({"who": "\0"}),
        state: ExecutionState::Running,
        outputs: None,
        code: None,
        error: None,
        started_at: second(start),
        ended_at: None,
    }
}

pub(crate) fn ended(at: i64) -> ExecutionEnd {
    ExecutionEnd {
        state: ExecutionState::Succeeded,
        outputs: Some(json!({"answer": 42})),
        code: None,
        error: None,
        at: second(at),
    }
}

fn workflow(number: u8) -> ResourceId {
    ResourceId::from_random(ResourceKind::Workflow, [number; 15])
}
