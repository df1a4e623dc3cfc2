//! What every store promises about sandboxes, and about many writers at once.

use std::collections::{BTreeMap, BTreeSet};

use store::{SandboxRow, Store};
use tokio::task::JoinSet;
use wire::SandboxId;

use crate::keys::new_key;
use crate::time::second;

contract!([
    a_sandbox_is_read_back_as_it_was_written,
    the_same_sandbox_is_not_inserted_twice,
    only_a_living_sandbox_has_its_deadline_moved,
    only_a_living_sandbox_has_its_network_changed,
    the_first_end_of_a_sandbox_wins,
    ended_sandboxes_are_not_among_the_living,
    pruning_takes_only_what_ended_before,
    fifty_parallel_writers_all_get_through,
]);

async fn a_sandbox_is_read_back_as_it_was_written(store: Store) {
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

async fn the_same_sandbox_is_not_inserted_twice(store: Store) {
    let row = living("ione", 0);
    store.insert_sandbox(&row).await.unwrap();
    let second = SandboxRow { team: "blue".to_owned(), ..row.clone() };
    assert!(store.insert_sandbox(&second).await.is_err());
    assert_eq!(store.sandbox(&row.id).await.unwrap(), Some(row));
}

async fn only_a_living_sandbox_has_its_deadline_moved(store: Store) {
    let row = living("ione", 0);
    store.insert_sandbox(&row).await.unwrap();
    store.set_deadline(&row.id, second(900)).await.unwrap();
    assert_eq!(store.sandbox(&row.id).await.unwrap().unwrap().deadline, second(900));
    store.end_sandbox(&row.id, "killed", second(5)).await.unwrap();
    store.set_deadline(&row.id, second(999)).await.unwrap();
    assert_eq!(store.sandbox(&row.id).await.unwrap().unwrap().deadline, second(900));
    store.set_deadline(&id("iunknown"), second(999)).await.unwrap();
}

async fn only_a_living_sandbox_has_its_network_changed(store: Store) {
    let row = living("i1", 1);
    store.insert_sandbox(&row).await.unwrap();
    store.set_network(&row.id, "one").await.unwrap();
    store.end_sandbox(&row.id, "killed", second(2)).await.unwrap();
    store.set_network(&row.id, "two").await.unwrap();
    assert_eq!(store.sandbox(&row.id).await.unwrap().unwrap().network, "one");
    store.set_network(&id("iunknown"), "three").await.unwrap();
}

async fn the_first_end_of_a_sandbox_wins(store: Store) {
    let row = living("ione", 0);
    store.insert_sandbox(&row).await.unwrap();
    store.end_sandbox(&row.id, "timeout", second(5)).await.unwrap();
    store.end_sandbox(&row.id, "killed", second(6)).await.unwrap();
    store.end_sandbox(&id("iunknown"), "killed", second(6)).await.unwrap();
    let ended = store.sandbox(&row.id).await.unwrap().unwrap();
    assert_eq!(ended.end_reason.as_deref(), Some("timeout"));
    assert_eq!(ended.ended_at, Some(second(5)));
}

async fn ended_sandboxes_are_not_among_the_living(store: Store) {
    // Inserted out of order: the list goes by start.
    for (name, start) in [("ithree", 3), ("ione", 1), ("itwo", 2)] {
        store.insert_sandbox(&living(name, start)).await.unwrap();
    }
    store.end_sandbox(&id("itwo"), "exited", second(5)).await.unwrap();
    let names: Vec<SandboxId> =
        store.living_sandboxes().await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(names, [id("ione"), id("ithree")]);
}

async fn pruning_takes_only_what_ended_before(store: Store) {
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

async fn fifty_parallel_writers_all_get_through(store: Store) {
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
