//! What every store promises about resources.

use serde_json::json;
use store::{ResourceError, ResourceRow, Store};
use tokio::task::JoinSet;
use wire::workspace::{ResourceId, ResourceKind};

use crate::time::second;

contract!([
    a_resource_is_read_back_as_it_was_written,
    a_resource_is_found_only_in_its_workspace_and_under_its_kind,
    a_name_is_taken_once_for_each_kind_and_workspace,
    of_many_who_want_a_name_at_once_one_gets_it,
    resources_are_paged_oldest_first,
    an_update_changes_all_but_where_it_belongs,
    an_update_to_a_taken_name_changes_nothing,
    a_deleted_resource_gives_its_name_back,
]);

async fn a_resource_is_read_back_as_it_was_written(store: Store) {
    for (number, kind) in (1..).zip(ResourceKind::ALL) {
        let mut row = resource(kind, number, "'; DROP TABLE resources; --\u{1F41D}");
        row.body = json!({"nul": "\0", "deep": [null, 1.5, {"ü": true}]});
        row.sealed = Some(vec![0, 255, 39]);
        store.create_resource(&row).await.unwrap();
        let by_name = store.resource_by_name("red", kind, &row.name).await.unwrap();
        assert_eq!(by_name.as_ref(), Some(&row));
        assert_eq!(store.resource("red", kind, &row.id).await.unwrap(), Some(row));
    }
}

async fn a_resource_is_found_only_in_its_workspace_and_under_its_kind(store: Store) {
    let row = resource(ResourceKind::Agent, 1, "helper");
    store.create_resource(&row).await.unwrap();
    for (workspace, kind) in [("blue", ResourceKind::Agent), ("red", ResourceKind::Skill)] {
        assert_eq!(store.resource(workspace, kind, &row.id).await.unwrap(), None);
        assert_eq!(store.resource_by_name(workspace, kind, "helper").await.unwrap(), None);
        assert!(store.list_resources(workspace, kind, None, 9).await.unwrap().is_empty());
        assert!(!store.delete_resource(workspace, kind, &row.id).await.unwrap());
        let moved = ResourceRow { workspace: workspace.to_owned(), kind, ..row.clone() };
        let refused = store.update_resource(&moved).await;
        assert!(matches!(refused, Err(ResourceError::NotFound)), "{refused:?}");
    }
    assert_eq!(store.resource("red", ResourceKind::Agent, &row.id).await.unwrap(), Some(row));
}

async fn a_name_is_taken_once_for_each_kind_and_workspace(store: Store) {
    store.create_resource(&resource(ResourceKind::Agent, 1, "helper")).await.unwrap();
    let refused = store.create_resource(&resource(ResourceKind::Agent, 2, "helper")).await;
    assert!(matches!(refused, Err(ResourceError::NameTaken(name)) if name == "helper"));
    store.create_resource(&resource(ResourceKind::Agent, 3, "Helper")).await.unwrap();
    store.create_resource(&resource(ResourceKind::Skill, 4, "helper")).await.unwrap();
    let elsewhere =
        ResourceRow { workspace: "blue".to_owned(), ..resource(ResourceKind::Agent, 5, "helper") };
    store.create_resource(&elsewhere).await.unwrap();
    // The same id again is a mistake of ours, not a name that is taken.
    let twice = store.create_resource(&resource(ResourceKind::Agent, 1, "other")).await;
    assert!(matches!(twice, Err(ResourceError::Store(_))), "{twice:?}");
}

async fn of_many_who_want_a_name_at_once_one_gets_it(store: Store) {
    let mut writers = JoinSet::new();
    for number in 0..20 {
        let store = store.clone();
        writers.spawn(async move {
            store.create_resource(&resource(ResourceKind::Model, number, "default")).await
        });
    }
    let mut made = 0;
    while let Some(done) = writers.join_next().await {
        match done.unwrap() {
            Ok(()) => made += 1,
            Err(err) => assert!(matches!(err, ResourceError::NameTaken(_)), "{err:?}"),
        }
    }
    assert_eq!(made, 1);
}

async fn resources_are_paged_oldest_first(store: Store) {
    // Two of one millisecond: the id decides.
    for (number, made) in [(3, 1), (1, 0), (2, 1), (4, 2)] {
        let row = ResourceRow {
            created_at: second(made),
            ..resource(ResourceKind::Table, number, &number.to_string())
        };
        store.create_resource(&row).await.unwrap();
    }
    let kind = ResourceKind::Table;
    let three = store.list_resources("red", kind, None, 3).await.unwrap();
    assert_eq!(three.len(), 3);
    assert_eq!(store.count_resources("red", kind).await.unwrap(), 4);
    assert_eq!(store.count_resources("blue", kind).await.unwrap(), 0);
    let mut after: Option<ResourceRow> = None;
    let mut names = String::new();
    loop {
        let mark = after.as_ref().map(|row| (row.created_at, row.id.as_str()));
        let list = store.list_resources("red", kind, mark, 1);
        let Some(row) = list.await.unwrap().into_iter().next() else { break };
        names.push_str(&row.name);
        // One that is gone still says where the list goes on.
        store.delete_resource("red", kind, &row.id).await.unwrap();
        after = Some(row);
    }
    assert_eq!(names, "1234");
}

async fn an_update_changes_all_but_where_it_belongs(store: Store) {
    let row =
        ResourceRow { sealed: Some(vec![1]), ..resource(ResourceKind::Environment, 1, "before") };
    store.create_resource(&row).await.unwrap();
    let changed = ResourceRow {
        name: "after".to_owned(),
        body: json!({"new": true}),
        sealed: None,
        updated_at: second(9),
        ..row.clone()
    };
    store.update_resource(&changed).await.unwrap();
    assert_eq!(store.resource("red", row.kind, &row.id).await.unwrap(), Some(changed));
}

async fn an_update_to_a_taken_name_changes_nothing(store: Store) {
    store.create_resource(&resource(ResourceKind::Agent, 1, "one")).await.unwrap();
    let two = resource(ResourceKind::Agent, 2, "two");
    store.create_resource(&two).await.unwrap();
    let renamed = ResourceRow { name: "one".to_owned(), body: json!(0), ..two.clone() };
    let refused = store.update_resource(&renamed).await;
    assert!(matches!(refused, Err(ResourceError::NameTaken(name)) if name == "one"));
    assert_eq!(store.resource("red", two.kind, &two.id).await.unwrap(), Some(two));
}

async fn a_deleted_resource_gives_its_name_back(store: Store) {
    let row = resource(ResourceKind::Workflow, 1, "daily");
    store.create_resource(&row).await.unwrap();
    assert!(store.delete_resource("red", row.kind, &row.id).await.unwrap());
    assert!(!store.delete_resource("red", row.kind, &row.id).await.unwrap());
    store.create_resource(&resource(ResourceKind::Workflow, 2, "daily")).await.unwrap();
}

pub(crate) fn resource(kind: ResourceKind, number: u8, name: &str) -> ResourceRow {
    ResourceRow {
        id: ResourceId::from_random(kind, [number; 15]),
        workspace: "red".to_owned(),
        kind,
        name: name.to_owned(),
        body: json!({}),
        sealed: None,
        created_at: second(0),
        updated_at: second(0),
    }
}
