//! What every store promises about files, in bags and in the workspace.

use std::collections::BTreeSet;
use std::slice::from_ref;

use store::{FileRow, FileSource, ReserveError, Reserved, Shelf, Store};
use tokio::task::JoinSet;
use wire::workspace::FileId;

use crate::conversations::{chat, conversation};
use crate::executions::{execution, id as execution_id};
use crate::time::second;

contract!([
    a_file_is_invisible_until_it_is_committed,
    files_are_committed_all_or_none,
    a_name_that_is_taken_gets_a_number,
    a_name_stays_taken_after_its_file_is_deleted,
    five_hundred_files_of_one_name_get_five_hundred_names,
    five_hundred_workspace_files_of_one_name_get_five_hundred_names,
    a_bag_belongs_to_a_conversation_or_an_execution_of_the_workspace,
    files_are_found_only_on_their_shelf_and_in_their_workspace,
    files_are_paged_in_the_order_they_were_begun,
    a_dropped_reservation_frees_its_name,
    a_stale_reservation_cannot_be_committed,
    only_what_is_not_committed_is_given_up,
]);

async fn a_file_is_invisible_until_it_is_committed(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    let bag = Shelf::Bag(chat.as_str());
    let reserved = keep(&store, bag, "a '; DROP.txt").await;
    assert_eq!(store.file("red", bag, &reserved.id).await.unwrap(), None);
    assert!(store.list_files("red", bag, None, 9).await.unwrap().is_empty());
    assert!(!store.delete_file("red", bag, &reserved.id, second(2)).await.unwrap());
    assert_eq!(store.bag_totals(chat.as_str()).await.unwrap(), (1, 0));

    let files = store.commit_files(&[content(&reserved.id)]).await.unwrap();
    let expected = FileRow {
        id: reserved.id.clone(),
        workspace: "red".to_owned(),
        bag: Some(chat.to_string()),
        message_id: None,
        name: "a '; DROP.txt".to_owned(),
        mime_type: "text/plain".to_owned(),
        size: 7,
        sha256: "ab".repeat(32),
        storage_key: reserved.storage_key,
        source: FileSource::Sandbox,
        created_at: second(1),
        deleted_at: None,
    };
    assert_eq!(files, from_ref(&expected));
    assert_eq!(store.file("red", bag, &reserved.id).await.unwrap(), Some(expected.clone()));
    assert_eq!(store.list_files("red", bag, None, 9).await.unwrap(), [expected]);
    assert_eq!(store.bag_totals(chat.as_str()).await.unwrap(), (1, 7));
    assert!(store.delete_file("red", bag, &reserved.id, second(2)).await.unwrap());
    assert!(!store.delete_file("red", bag, &reserved.id, second(3)).await.unwrap());
    assert_eq!(store.file("red", bag, &reserved.id).await.unwrap(), None);
    assert_eq!(store.bag_totals(chat.as_str()).await.unwrap(), (0, 0));
}

async fn files_are_committed_all_or_none(store: Store) {
    let one = keep(&store, Shelf::Files, "one").await;
    let two = keep(&store, Shelf::Files, "two").await;
    let unknown = FileId::from_random([99; 15]);
    let both = [content(&one.id), content(&unknown)];
    assert!(store.commit_files(&both).await.unwrap().is_empty());
    assert!(store.list_files("red", Shelf::Files, None, 9).await.unwrap().is_empty());
    let both = [content(&two.id), content(&one.id)];
    let names: Vec<String> =
        store.commit_files(&both).await.unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["two", "one"]);
    // Nothing is committed twice.
    assert!(store.commit_files(&both).await.unwrap().is_empty());
    assert_eq!(store.list_files("red", Shelf::Files, None, 9).await.unwrap().len(), 2);
}

async fn a_name_that_is_taken_gets_a_number(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    for (shelf, key) in [(Shelf::Bag(chat.as_str()), "bag/"), (Shelf::Files, "files/")] {
        for (wanted, given) in [
            ("report.pdf", "report.pdf"),
            ("report-1.pdf", "report-1.pdf"),
            ("report.pdf", "report-2.pdf"),
            ("report-1.pdf", "report-1-1.pdf"),
            ("report.pdf", "report-3.pdf"),
            ("Report.pdf", "Report.pdf"),
            ("report", "report"),
            ("report", "report-1"),
        ] {
            let reserved = keep(&store, shelf, wanted).await;
            assert_eq!(reserved.name, given);
            assert_eq!(reserved.storage_key, format!("{key}{given}"));
        }
    }
}

async fn a_name_stays_taken_after_its_file_is_deleted(store: Store) {
    let file = stored(&store, Shelf::Files, "a.txt").await;
    store.delete_file("red", Shelf::Files, &file.id, second(2)).await.unwrap();
    assert_eq!(keep(&store, Shelf::Files, "a.txt").await.name, "a-1.txt");
}

async fn five_hundred_files_of_one_name_get_five_hundred_names(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    check_names_at_once(&store, Shelf::Bag(Box::leak(chat.to_string().into_boxed_str()))).await;
    assert_eq!(store.bag_totals(chat.as_str()).await.unwrap(), (500, 3500));
}

async fn five_hundred_workspace_files_of_one_name_get_five_hundred_names(store: Store) {
    check_names_at_once(&store, Shelf::Files).await;
}

async fn check_names_at_once(store: &Store, shelf: Shelf<'static>) {
    let mut uploads = JoinSet::new();
    for _ in 0..500 {
        let store = store.clone();
        uploads.spawn(async move { stored(&store, shelf, "photo.jpg").await.name });
    }
    let names: BTreeSet<String> = uploads.join_all().await.into_iter().collect();
    let numbered = (1..500).map(|number| format!("photo-{number}.jpg"));
    let expected: BTreeSet<String> = numbered.chain(["photo.jpg".to_owned()]).collect();
    assert_eq!(names, expected);
}

async fn a_bag_belongs_to_a_conversation_or_an_execution_of_the_workspace(store: Store) {
    store.insert_execution(&execution(1, 0)).await.unwrap();
    let execution = execution_id(1);
    let file = stored(&store, Shelf::Bag(execution.as_str()), "a.txt").await;
    assert_eq!(file.bag.as_deref(), Some(execution.as_str()));
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    for (workspace, bag) in [
        ("blue", execution.as_str()),
        ("red", execution_id(2).as_str()),
        ("blue", chat(1).as_str()),
        ("red", chat(2).as_str()),
        ("red", ""),
    ] {
        let refused = reserve(&store, workspace, Shelf::Bag(bag), "a.txt").await;
        assert!(matches!(refused, Err(ReserveError::NoConversation)), "{workspace} {bag}");
    }
}

async fn files_are_found_only_on_their_shelf_and_in_their_workspace(store: Store) {
    for number in [1, 2] {
        store.create_conversation(&conversation(number, 0)).await.unwrap();
    }
    let (one, two) = (chat(1), chat(2));
    let (bag, other) = (Shelf::Bag(one.as_str()), Shelf::Bag(two.as_str()));
    let first = stored(&store, bag, "a").await;
    let second = stored(&store, bag, "b").await;
    let elsewhere = stored(&store, other, "a").await;
    let saved = stored(&store, Shelf::Files, "a").await;
    let ids = [&second, &elsewhere, &first, &saved].map(|file| file.id.clone());
    let found = store.files_by_id("red", bag, &ids).await.unwrap();
    assert_eq!(found, [second.clone(), first.clone()]);
    assert_eq!(store.files_by_id("red", Shelf::Files, &ids).await.unwrap(), from_ref(&saved));
    assert!(store.files_by_id("blue", bag, &ids).await.unwrap().is_empty());
    assert!(store.files_by_id("red", bag, &[]).await.unwrap().is_empty());
    assert_eq!(store.file("blue", Shelf::Files, &saved.id).await.unwrap(), None);
    assert_eq!(store.file("red", other, &first.id).await.unwrap(), None);
    let now = crate::time::second(9);
    assert!(!store.delete_file("red", other, &first.id, now).await.unwrap());
    assert!(!store.delete_file("blue", bag, &first.id, now).await.unwrap());
    assert_eq!(store.list_files("red", bag, None, 9).await.unwrap().len(), 2);
    assert!(store.list_files("blue", bag, None, 9).await.unwrap().is_empty());
}

async fn files_are_paged_in_the_order_they_were_begun(store: Store) {
    let mut files = Vec::new();
    for name in ["a", "b", "c", "d"] {
        files.push(stored(&store, Shelf::Files, name).await);
    }
    files.sort_by(|one, two| (one.created_at, &one.id).cmp(&(two.created_at, &two.id)));
    let mut seen: Vec<FileRow> = Vec::new();
    loop {
        let after = seen.last().map(|file| &file.id);
        let page = store.list_files("red", Shelf::Files, after, 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, files);
    // The place of a file that is deleted meanwhile is still a place.
    store.delete_file("red", Shelf::Files, &files[1].id, second(9)).await.unwrap();
    let rest = store.list_files("red", Shelf::Files, Some(&files[1].id), 9).await.unwrap();
    assert_eq!(rest, files[2..]);
}

async fn a_dropped_reservation_frees_its_name(store: Store) {
    let kept = stored(&store, Shelf::Files, "a.txt").await;
    let dropped = keep(&store, Shelf::Files, "a.txt").await;
    assert_eq!(dropped.name, "a-1.txt");
    store.drop_reserved(&[kept.id.clone(), dropped.id.clone()]).await.unwrap();
    store.drop_reserved(from_ref(&dropped.id)).await.unwrap();
    store.drop_reserved(&[]).await.unwrap();
    assert!(store.commit_files(&[content(&dropped.id)]).await.unwrap().is_empty());
    assert_eq!(store.list_files("red", Shelf::Files, None, 9).await.unwrap(), [kept]);
    assert_eq!(keep(&store, Shelf::Files, "a.txt").await.name, "a-1.txt");
}

async fn a_stale_reservation_cannot_be_committed(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    let bag = Shelf::Bag(chat.as_str());
    stored(&store, bag, "done").await;
    let in_bag = keep(&store, bag, "a").await;
    let saved = keep(&store, Shelf::Files, "b").await;
    assert!(store.stale_reservations(second(1)).await.unwrap().is_empty());
    let stale = store.stale_reservations(second(2)).await.unwrap();
    let both = [&in_bag, &saved].map(|one| (one.id.clone(), one.storage_key.clone()));
    assert_eq!(stale, both);
    assert!(store.commit_files(&[content(&in_bag.id)]).await.unwrap().is_empty());
    // Its blob may be being removed: the name is not free yet.
    assert_eq!(keep(&store, bag, "a").await.name, "a-1");
    // Whoever was interrupted between the two finds it again.
    assert!(store.stale_reservations(second(2)).await.unwrap().contains(&both[0]));
    store.drop_reserved(&[in_bag.id]).await.unwrap();
    assert_eq!(keep(&store, bag, "a").await.name, "a");
}

async fn only_what_is_not_committed_is_given_up(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    let bag = Shelf::Bag(chat.as_str());
    let done = stored(&store, bag, "done").await;
    let in_bag = keep(&store, bag, "a").await;
    let saved = keep(&store, Shelf::Files, "b").await;
    let all = [done.id.clone(), in_bag.id.clone(), saved.id.clone()];
    let given_up = store.give_up_reserved(&all, second(2)).await.unwrap();
    assert_eq!(given_up, all[1..]);
    assert_eq!(store.file("red", bag, &done.id).await.unwrap(), Some(done));
    assert!(store.commit_files(&[content(&in_bag.id)]).await.unwrap().is_empty());
    assert!(store.give_up_reserved(&[], second(2)).await.unwrap().is_empty());
}

/// On one database only: it takes ten thousand transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bag_that_is_full_takes_no_more() {
    let (store, _files) = crate::sqlite::fresh().await;
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    let bag = Shelf::Bag(chat.as_str());
    let mut last = None;
    for number in 0..10_000 {
        last = Some(keep(&store, bag, &format!("{number}.txt")).await);
    }
    let full = reserve(&store, "red", bag, "a.txt").await;
    assert!(matches!(full, Err(ReserveError::TooMany)), "{full:?}");
    store.drop_reserved(&[last.unwrap().id]).await.unwrap();
    keep(&store, bag, "a.txt").await;
}

/// A file that is reserved and committed.
pub(crate) async fn stored(store: &Store, shelf: Shelf<'_>, name: &str) -> FileRow {
    let reserved = keep(store, shelf, name).await;
    store.commit_files(&[content(&reserved.id)]).await.unwrap().pop().unwrap()
}

/// A file that is reserved.
pub(crate) async fn keep(store: &Store, shelf: Shelf<'_>, name: &str) -> Reserved {
    reserve(store, "red", shelf, name).await.unwrap()
}

async fn reserve(
    store: &Store,
    workspace: &str,
    shelf: Shelf<'_>,
    name: &str,
) -> Result<Reserved, ReserveError> {
    let key_of = |name: &str| match shelf {
        // The bags of two chats have keys of their own; one test has one of each.
        Shelf::Bag(bag) if bag == chat(1).as_str() => format!("bag/{name}"),
        Shelf::Bag(bag) => format!("{bag}/{name}"),
        Shelf::Files => format!("files/{name}"),
    };
    let id = FileId::from_random(rand::random());
    store.reserve_file(workspace, shelf, id, name, FileSource::Sandbox, second(1), key_of).await
}

fn content(id: &FileId) -> (FileId, String, u64, String) {
    (id.clone(), "text/plain".to_owned(), 7, "ab".repeat(32))
}
