//! What every store promises about runs.

use store::{OnDisconnect, RunCursor, RunEnd, RunRow, RunState, Store};
use wire::{
    SandboxId,
    run::{ErrorCode, RunId},
};

use crate::time::second;

contract!([
    a_run_is_read_back_as_it_was_written,
    only_a_starting_run_becomes_a_running_one,
    the_first_end_of_a_run_wins,
    runs_are_paged_newest_first_and_only_to_their_team,
    the_newest_run_of_a_name_is_found_and_only_by_its_team,
    pruning_names_the_runs_that_ended_before,
]);

async fn a_run_is_read_back_as_it_was_written(store: Store) {
    let mut row = starting(1, 0);
    row.prompt_head = "'; DROP TABLE runs; --\n\0\u{1F41D}".to_owned();
    store.insert_run(&row).await.unwrap();
    // Postgres has no NUL in a text, so there is none in either.
    row.prompt_head = row.prompt_head.replace('\0', "\u{FFFD}");
    assert_eq!(store.run(&row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(store.living_runs().await.unwrap(), [row.clone()]);
    assert_eq!(store.run(&run(2)).await.unwrap(), None);
    assert!(store.insert_run(&row).await.is_err());
}

async fn only_a_starting_run_becomes_a_running_one(store: Store) {
    let row = starting(1, 0);
    store.insert_run(&row).await.unwrap();
    store.run_is_running(&row.id).await.unwrap();
    assert_eq!(store.run(&row.id).await.unwrap().unwrap().state, RunState::Running);
    store.end_run(&row.id, &end(5, None)).await.unwrap();
    store.run_is_running(&row.id).await.unwrap();
    assert_eq!(store.run(&row.id).await.unwrap().unwrap().state, RunState::Succeeded);
    store.run_is_running(&run(2)).await.unwrap();
}

async fn the_first_end_of_a_run_wins(store: Store) {
    let row = starting(1, 0);
    store.insert_run(&row).await.unwrap();
    store.end_run(&row.id, &end(5, Some(ErrorCode::Cancelled))).await.unwrap();
    store.end_run(&row.id, &end(6, None)).await.unwrap();
    store.end_run(&run(2), &end(6, None)).await.unwrap();
    let expected = RunRow {
        state: RunState::Failed,
        ended_at: Some(second(5)),
        code: Some(ErrorCode::Cancelled),
        last_seq: 9,
        input_tokens: 10,
        output_tokens: 11,
        ..row.clone()
    };
    assert_eq!(store.run(&row.id).await.unwrap(), Some(expected));
    assert!(store.living_runs().await.unwrap().is_empty());
}

async fn runs_are_paged_newest_first_and_only_to_their_team(store: Store) {
    // Two begin in the same millisecond: the id decides.
    for (number, start) in [(3, 1), (1, 0), (2, 1), (4, 2)] {
        store.insert_run(&starting(number, start)).await.unwrap();
    }
    let other = RunRow { team: "blue".to_owned(), ..starting(5, 1) };
    store.insert_run(&other).await.unwrap();
    let mut behind = None;
    let mut seen = Vec::new();
    loop {
        let page = store.runs_of("red", behind.as_ref(), 1).await.unwrap();
        let Some(row) = page.into_iter().next() else { break };
        behind = Some(RunCursor { started_at: row.started_at, id: row.id.clone() });
        seen.push(row.id);
    }
    assert_eq!(seen, [run(4), run(3), run(2), run(1)]);
    assert_eq!(store.runs_of("red", None, 3).await.unwrap().len(), 3);
    assert_eq!(store.runs_of("blue", None, 3).await.unwrap(), [other]);
}

async fn the_newest_run_of_a_name_is_found_and_only_by_its_team(store: Store) {
    for (number, start) in [(1, 0), (3, 2), (2, 1)] {
        let row = RunRow { callers_name: Some([7; 32]), ..starting(number, start) };
        store.insert_run(&row).await.unwrap();
    }
    store.insert_run(&RunRow { callers_name: None, ..starting(4, 9) }).await.unwrap();
    let found = async |team, name| store.run_called(team, name).await.unwrap();
    assert_eq!(found("red", &[7; 32]).await, Some(run(3)));
    assert_eq!(found("red", &[8; 32]).await, None);
    assert_eq!(found("blue", &[7; 32]).await, None);
}

async fn pruning_names_the_runs_that_ended_before(store: Store) {
    for (number, at) in [(1, 10), (2, 20)] {
        store.insert_run(&starting(number, 0)).await.unwrap();
        store.end_run(&run(number), &end(at, None)).await.unwrap();
    }
    store.insert_run(&starting(3, 0)).await.unwrap();
    assert_eq!(store.prune_runs(second(20)).await.unwrap(), [run(1)]);
    assert!(store.prune_runs(second(20)).await.unwrap().is_empty());
    for kept in [2, 3] {
        assert!(store.run(&run(kept)).await.unwrap().is_some(), "{kept}");
    }
}

fn run(number: u8) -> RunId {
    RunId::from_random([number; 15])
}

fn starting(number: u8, start: i64) -> RunRow {
    RunRow {
        id: run(number),
        team: "red".to_owned(),
        callers_name: Some([number; 32]),
        sandbox_id: SandboxId::parse("ione").unwrap(),
        state: RunState::Starting,
        on_disconnect: OnDisconnect::Continue,
        prompt_head: "Say hello".to_owned(),
        started_at: second(start),
        deadline: second(start + 300),
        ended_at: None,
        code: None,
        last_seq: 0,
        input_tokens: 0,
        output_tokens: 0,
    }
}

fn end(at: i64, code: Option<ErrorCode>) -> RunEnd {
    RunEnd { at: second(at), code, last_seq: 9, input_tokens: 10, output_tokens: 11 }
}
