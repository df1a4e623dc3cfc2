//! What every store promises, one function a promise.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use store::{
    KeyError, NewKey, OnDisconnect, RunCursor, RunEnd, RunRow, RunState, SandboxRow, Store,
};
use tokio::task::JoinSet;
use wire::{
    SandboxId, Secret,
    run::{ErrorCode, RunId},
};

pub(crate) async fn a_made_key_opens_its_team_and_nothing_else_does(store: Store) {
    let (key, secret) = store.create_key(new_key("red")).await.unwrap();
    let (_, other) = store.create_key(new_key("blue")).await.unwrap();
    assert_eq!(store.team_of(secret.expose()).await.unwrap().as_deref(), Some("red"));
    assert_eq!(store.team_of(other.expose()).await.unwrap().as_deref(), Some("blue"));
    let shouted = secret.expose().to_uppercase();
    let longer = format!("{}0", secret.expose());
    for wrong in ["", "e2b_", key.id.as_str(), key.hint.as_str(), &shouted, &longer] {
        assert_eq!(store.team_of(wrong).await.unwrap(), None, "{wrong:?}");
    }
}

pub(crate) async fn a_revoked_key_opens_nothing_and_stays_listed(store: Store) {
    let (key, secret) = store.create_key(new_key("red")).await.unwrap();
    let revoked = store.revoke_key(&key.id).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(store.team_of(secret.expose()).await.unwrap(), None);
    assert_eq!(store.list_keys().await.unwrap(), [revoked]);
    let unknown = store.revoke_key("key_000000000000").await;
    assert!(matches!(unknown, Err(KeyError::NotFound(id)) if id == "key_000000000000"));
}

pub(crate) async fn revoking_twice_keeps_the_first_time(store: Store) {
    let (key, _) = store.create_key(new_key("red")).await.unwrap();
    let first = store.revoke_key(&key.id).await.unwrap();
    let second = store.revoke_key(&key.id).await.unwrap();
    assert_eq!(first, second);
}

pub(crate) async fn rotating_swaps_the_key_and_keeps_team_and_name(store: Store) {
    let (old, old_secret) = store.create_key(new_key("red")).await.unwrap();
    let (new, new_secret) = store.rotate_key(&old.id).await.unwrap();
    assert_eq!((&new.team, &new.name), (&old.team, &old.name));
    assert_ne!(new.id, old.id);
    assert_eq!(store.team_of(old_secret.expose()).await.unwrap(), None);
    assert_eq!(store.team_of(new_secret.expose()).await.unwrap().as_deref(), Some("red"));
}

pub(crate) async fn rotating_a_revoked_or_unknown_key_is_refused(store: Store) {
    let (key, _) = store.create_key(new_key("red")).await.unwrap();
    store.revoke_key(&key.id).await.unwrap();
    assert!(matches!(store.rotate_key(&key.id).await, Err(KeyError::Revoked(id)) if id == key.id));
    assert!(matches!(store.rotate_key("key_x").await, Err(KeyError::NotFound(_))));
    assert_eq!(store.list_keys().await.unwrap().len(), 1);
}

pub(crate) async fn importing_a_key_twice_changes_nothing(store: Store) {
    let secret = Secret::new(format!("e2b_{}", "7".repeat(40)));
    let first = store.import_key(&secret, new_key("red")).await.unwrap();
    let second = store.import_key(&secret, new_key("blue")).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(store.team_of(secret.expose()).await.unwrap().as_deref(), Some("red"));
    assert_eq!(store.list_keys().await.unwrap(), [first]);
}

pub(crate) async fn an_import_does_not_bring_a_revoked_key_back(store: Store) {
    let secret = Secret::new(format!("e2b_{}", "7".repeat(40)));
    let key = store.import_key(&secret, new_key("red")).await.unwrap();
    store.revoke_key(&key.id).await.unwrap();
    let again = store.import_key(&secret, new_key("red")).await.unwrap_err();
    assert_eq!(again.to_string(), format!("API key `{}` was revoked; make a new one", key.id));
    assert_eq!(store.team_of(secret.expose()).await.unwrap(), None);
}

pub(crate) async fn an_unfit_key_is_not_imported(store: Store) {
    for unfit in ["", "short", "has a space", "tab\there!", "schlüssel-äöü", &"x".repeat(201)] {
        let refused = store.import_key(&Secret::new(unfit.to_owned()), new_key("red")).await;
        assert!(matches!(refused, Err(KeyError::Malformed)), "{unfit:?}");
    }
    assert!(store.list_keys().await.unwrap().is_empty());
}

pub(crate) async fn a_live_key_is_one_that_is_not_revoked(store: Store) {
    assert!(!store.has_live_key().await.unwrap());
    let (key, _) = store.create_key(new_key("red")).await.unwrap();
    assert!(store.has_live_key().await.unwrap());
    store.revoke_key(&key.id).await.unwrap();
    assert!(!store.has_live_key().await.unwrap());
}

pub(crate) async fn a_sandbox_is_read_back_as_it_was_written(store: Store) {
    let mut row = living("ione", 0);
    row.metadata = BTreeMap::from([
        ("quote".to_owned(), "\"'; DROP TABLE sandboxes; --".to_owned()),
        ("ünï\u{1F41D}".to_owned(), "\n\0".to_owned()),
    ]);
    store.insert_sandbox(&row).await.unwrap();
    assert_eq!(store.sandbox(&row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(store.living_sandboxes().await.unwrap(), [row]);
    assert_eq!(store.sandbox(&id("itwo")).await.unwrap(), None);
}

pub(crate) async fn the_same_sandbox_is_not_inserted_twice(store: Store) {
    let row = living("ione", 0);
    store.insert_sandbox(&row).await.unwrap();
    let second = SandboxRow { team: "blue".to_owned(), ..row.clone() };
    assert!(store.insert_sandbox(&second).await.is_err());
    assert_eq!(store.sandbox(&row.id).await.unwrap(), Some(row));
}

pub(crate) async fn only_a_living_sandbox_has_its_deadline_moved(store: Store) {
    let row = living("ione", 0);
    store.insert_sandbox(&row).await.unwrap();
    store.set_deadline(&row.id, second(900)).await.unwrap();
    assert_eq!(store.sandbox(&row.id).await.unwrap().unwrap().deadline, second(900));
    store.end_sandbox(&row.id, "killed", second(5)).await.unwrap();
    store.set_deadline(&row.id, second(999)).await.unwrap();
    assert_eq!(store.sandbox(&row.id).await.unwrap().unwrap().deadline, second(900));
    store.set_deadline(&id("iunknown"), second(999)).await.unwrap();
}

pub(crate) async fn only_a_living_sandbox_has_its_network_changed(store: Store) {
    let row = living("i1", 1);
    store.insert_sandbox(&row).await.unwrap();
    store.set_network(&row.id, "one").await.unwrap();
    store.end_sandbox(&row.id, "killed", second(2)).await.unwrap();
    store.set_network(&row.id, "two").await.unwrap();
    assert_eq!(store.sandbox(&row.id).await.unwrap().unwrap().network, "one");
    store.set_network(&id("iunknown"), "three").await.unwrap();
}

pub(crate) async fn the_first_end_of_a_sandbox_wins(store: Store) {
    let row = living("ione", 0);
    store.insert_sandbox(&row).await.unwrap();
    store.end_sandbox(&row.id, "timeout", second(5)).await.unwrap();
    store.end_sandbox(&row.id, "killed", second(6)).await.unwrap();
    store.end_sandbox(&id("iunknown"), "killed", second(6)).await.unwrap();
    let ended = store.sandbox(&row.id).await.unwrap().unwrap();
    assert_eq!(ended.end_reason.as_deref(), Some("timeout"));
    assert_eq!(ended.ended_at, Some(second(5)));
}

pub(crate) async fn ended_sandboxes_are_not_among_the_living(store: Store) {
    // Inserted out of order: the list goes by start.
    for (name, start) in [("ithree", 3), ("ione", 1), ("itwo", 2)] {
        store.insert_sandbox(&living(name, start)).await.unwrap();
    }
    store.end_sandbox(&id("itwo"), "exited", second(5)).await.unwrap();
    let names: Vec<SandboxId> =
        store.living_sandboxes().await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(names, [id("ione"), id("ithree")]);
}

pub(crate) async fn pruning_takes_only_what_ended_before(store: Store) {
    for (name, end) in [("ione", 10), ("itwo", 20), ("ithree", 30)] {
        store.insert_sandbox(&living(name, 0)).await.unwrap();
        store.end_sandbox(&id(name), "exited", second(end)).await.unwrap();
    }
    store.insert_sandbox(&living("iliving", 0)).await.unwrap();
    assert_eq!(store.prune_sandboxes(second(20)).await.unwrap(), 1);
    assert_eq!(store.sandbox(&id("ione")).await.unwrap(), None);
    for kept in ["itwo", "ithree", "iliving"] {
        assert!(store.sandbox(&id(kept)).await.unwrap().is_some(), "{kept}");
    }
    assert_eq!(store.prune_sandboxes(second(20)).await.unwrap(), 0);
}

pub(crate) async fn fifty_parallel_writers_all_get_through(store: Store) {
    let mut writers = JoinSet::new();
    for writer in 0..50 {
        let store = store.clone();
        writers.spawn(async move {
            let row = living(&format!("i{writer}"), writer);
            store.insert_sandbox(&row).await.unwrap();
            let (key, _) = store.create_key(new_key("red")).await.unwrap();
            store.rotate_key(&key.id).await.unwrap();
            store.set_deadline(&row.id, second(900)).await.unwrap();
            store.end_sandbox(&row.id, "exited", second(901)).await.unwrap();
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let keys = store.list_keys().await.unwrap();
    let ids: BTreeSet<&String> = keys.iter().map(|key| &key.id).collect();
    assert_eq!((keys.len(), ids.len()), (100, 100));
    assert_eq!(keys.iter().filter(|key| key.revoked_at.is_none()).count(), 50);
    assert!(store.living_sandboxes().await.unwrap().is_empty());
    assert_eq!(store.prune_sandboxes(second(902)).await.unwrap(), 50);
}

pub(crate) async fn two_rotations_at_once_leave_one_live_key(store: Store) {
    let (key, _) = store.create_key(new_key("red")).await.unwrap();
    let (one, two) = tokio::join!(store.rotate_key(&key.id), store.rotate_key(&key.id));
    assert!(one.is_ok() != two.is_ok());
    let live = store.list_keys().await.unwrap();
    assert_eq!(live.iter().filter(|key| key.revoked_at.is_none()).count(), 1);
}

pub(crate) async fn a_run_is_read_back_as_it_was_written(store: Store) {
    let mut row = starting(1, 0);
    row.prompt_head = "'; DROP TABLE runs; --\n\0\u{1F41D}".to_owned();
    store.insert_run(&row).await.unwrap();
    assert_eq!(store.run(&row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(store.living_runs().await.unwrap(), [row.clone()]);
    assert_eq!(store.run(&run(2)).await.unwrap(), None);
    assert!(store.insert_run(&row).await.is_err());
}

pub(crate) async fn only_a_starting_run_becomes_a_running_one(store: Store) {
    let row = starting(1, 0);
    store.insert_run(&row).await.unwrap();
    store.run_is_running(&row.id).await.unwrap();
    assert_eq!(store.run(&row.id).await.unwrap().unwrap().state, RunState::Running);
    store.end_run(&row.id, &end(5, None)).await.unwrap();
    store.run_is_running(&row.id).await.unwrap();
    assert_eq!(store.run(&row.id).await.unwrap().unwrap().state, RunState::Succeeded);
    store.run_is_running(&run(2)).await.unwrap();
}

pub(crate) async fn the_first_end_of_a_run_wins(store: Store) {
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

pub(crate) async fn runs_are_paged_newest_first_and_only_to_their_team(store: Store) {
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

pub(crate) async fn pruning_names_the_runs_that_ended_before(store: Store) {
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
        sandbox_id: id("ione"),
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

fn new_key(team: &str) -> NewKey {
    NewKey { team: team.to_owned(), name: format!("{team}'s laptop") }
}

fn living(name: &str, start: i64) -> SandboxRow {
    SandboxRow {
        id: id(name),
        team: "red".to_owned(),
        template: "base".to_owned(),
        tier: "process".to_owned(),
        metadata: BTreeMap::new(),
        started_at: second(start),
        deadline: second(start + 300),
        network: "\"none\"".to_owned(),
        ended_at: None,
        end_reason: None,
    }
}

fn id(name: &str) -> SandboxId {
    SandboxId::parse(name).unwrap()
}

/// A time some seconds after a fixed one.
fn second(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(1_800_000_000 + seconds)
}
