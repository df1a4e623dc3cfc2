//! What every store promises about conversations and their messages.

use std::slice::from_ref;

use serde_json::json;
use store::{ConversationRow, FileSource, MessageRole, MessageRow, Shelf, Store};
use wire::workspace::{ChatId, MessageId, ResourceId, ResourceKind, TurnId};

use crate::files::{keep, stored};
use crate::time::second;
use crate::turns::{answered, begun, turn};

contract!([
    a_conversation_is_read_back_only_in_its_workspace,
    conversations_are_paged_the_last_touched_first,
    a_conversation_is_renamed,
    a_deleted_conversation_is_gone_with_its_bag,
    messages_are_paged_from_the_end_and_read_forwards,
    the_last_turns_are_whole_turns,
]);

async fn a_conversation_is_read_back_only_in_its_workspace(store: Store) {
    let agent = ResourceId::from_random(ResourceKind::Agent, [1; 15]);
    let row = ConversationRow { agent_id: Some(agent), ..conversation(1, 5) };
    store.create_conversation(&row).await.unwrap();
    assert_eq!(store.conversation("red", &row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(store.conversation("blue", &row.id).await.unwrap(), None);
    assert_eq!(store.conversation("red", &chat(2)).await.unwrap(), None);
    assert!(store.create_conversation(&row).await.is_err());
}

async fn conversations_are_paged_the_last_touched_first(store: Store) {
    // Two are touched in the same millisecond: the id decides.
    for (number, touched) in [(3, 1), (1, 0), (2, 1), (4, 2)] {
        store.create_conversation(&conversation(number, touched)).await.unwrap();
    }
    let foreign = ConversationRow { workspace: "blue".to_owned(), ..conversation(5, 1) };
    store.create_conversation(&foreign).await.unwrap();
    let mut seen: Vec<ConversationRow> = Vec::new();
    loop {
        let before = seen.last().map(|row| (row.updated_at, &row.id));
        let mut page = store.list_conversations("red", before, 1).await.unwrap();
        let Some(row) = page.pop() else { break };
        seen.push(row);
    }
    let ids: Vec<ChatId> = seen.into_iter().map(|row| row.id).collect();
    assert_eq!(ids, [chat(4), chat(3), chat(2), chat(1)]);
    assert_eq!(store.list_conversations("red", None, 3).await.unwrap().len(), 3);
}

async fn a_conversation_is_renamed(store: Store) {
    let row = conversation(1, 0);
    store.create_conversation(&row).await.unwrap();
    let agent = ResourceId::from_random(ResourceKind::Agent, [1; 15]);
    assert!(store.update_conversation("red", &row.id, "New\0", Some(&agent)).await.unwrap());
    let renamed = store.conversation("red", &row.id).await.unwrap().unwrap();
    assert_eq!((renamed.title.as_str(), renamed.agent_id), ("New\u{FFFD}", Some(agent)));
    assert!(!store.update_conversation("blue", &row.id, "Mine", None).await.unwrap());
    assert!(!store.update_conversation("red", &chat(2), "New", None).await.unwrap());
}

async fn a_deleted_conversation_is_gone_with_its_bag(store: Store) {
    let (row, other) = (conversation(1, 0), conversation(2, 0));
    let (bag, other_bag) = (Shelf::Bag(row.id.as_str()), Shelf::Bag(other.id.as_str()));
    for row in [&row, &other] {
        store.create_conversation(row).await.unwrap();
    }
    let file = stored(&store, bag, "a.txt").await;
    let pending = keep(&store, bag, "b.txt").await;
    let kept = stored(&store, other_bag, "a.txt").await;
    let saved = stored(&store, Shelf::Files, "a.txt").await;

    assert!(!store.delete_conversation("blue", &row.id, second(9)).await.unwrap());
    assert!(store.delete_conversation("red", &row.id, second(9)).await.unwrap());
    assert!(!store.delete_conversation("red", &row.id, second(10)).await.unwrap());
    assert_eq!(store.conversation("red", &row.id).await.unwrap(), None);
    assert_eq!(store.list_conversations("red", None, 9).await.unwrap(), from_ref(&other));
    assert_eq!(store.file("red", bag, &file.id).await.unwrap(), None);
    assert!(store.list_files("red", bag, None, 9).await.unwrap().is_empty());
    assert_eq!(store.bag_totals(row.id.as_str()).await.unwrap(), (0, 0));
    // An upload that was under way does not appear either.
    let late = (pending.id, "text/plain".to_owned(), 1, "00".to_owned());
    assert!(store.commit_files(&[late]).await.unwrap().is_empty());
    let new = store.reserve_file(
        "red",
        bag,
        wire::workspace::FileId::from_random([99; 15]),
        "c.txt",
        FileSource::User,
        second(10),
        |name| name.to_owned(),
    );
    assert!(matches!(new.await, Err(store::ReserveError::NoConversation)));
    // What is elsewhere stays.
    assert_eq!(store.list_files("red", other_bag, None, 9).await.unwrap(), [kept]);
    assert_eq!(store.list_files("red", Shelf::Files, None, 9).await.unwrap(), [saved]);
}

async fn messages_are_paged_from_the_end_and_read_forwards(store: Store) {
    let chat = chat(1);
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    for number in 1..=3 {
        answered(&store, &chat, number).await;
    }
    let all = store.messages(&chat, None, 100).await.unwrap();
    assert_eq!(all.len(), 6);
    assert!(all.is_sorted_by_key(|message| message.position));
    let roles: Vec<MessageRole> = all.iter().map(|message| message.role).collect();
    assert_eq!(roles, [MessageRole::User, MessageRole::Assistant].repeat(3));
    let last = store.messages(&chat, None, 4).await.unwrap();
    assert_eq!(last, all[2..]);
    assert_eq!(store.messages(&chat, Some(last[0].position), 4).await.unwrap(), all[..2]);
    assert!(store.messages(&chat, Some(all[0].position), 4).await.unwrap().is_empty());
    // What was said is there as it was said.
    assert_eq!(all[0], MessageRow { position: all[0].position, ..said(&chat, 1) });
}

async fn the_last_turns_are_whole_turns(store: Store) {
    let chat = chat(1);
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    store.create_conversation(&conversation(2, 0)).await.unwrap();
    for number in 1..=4 {
        answered(&store, &chat, number).await;
    }
    answered(&store, &self::chat(2), 9).await;
    begun(&store, &chat, 5).await;
    let turns_of = |messages: Vec<MessageRow>| -> Vec<TurnId> {
        messages.into_iter().map(|message| message.turn_id).collect()
    };
    let last = turns_of(store.last_turns(&chat, &turn(5), 2).await.unwrap());
    assert_eq!(last, [turn(3), turn(3), turn(4), turn(4)]);
    let all = turns_of(store.last_turns(&chat, &turn(5), 20).await.unwrap());
    assert_eq!((all.len(), &all[0]), (8, &turn(1)));
    // Seen from an earlier one, the later ones have not happened.
    let early = turns_of(store.last_turns(&chat, &turn(2), 20).await.unwrap());
    assert_eq!(early, [turn(1), turn(1)]);
    assert!(store.last_turns(&chat, &turn(1), 20).await.unwrap().is_empty());
    assert!(store.last_turns(&chat, &turn(77), 20).await.unwrap().is_empty());
}

pub(crate) fn chat(number: u8) -> ChatId {
    ChatId::from_random([number; 15])
}

pub(crate) fn conversation(number: u8, touched: i64) -> ConversationRow {
    ConversationRow {
        id: chat(number),
        workspace: "red".to_owned(),
        title: "A '; DROP TABLE \u{1F41D}".to_owned(),
        agent_id: None,
        created_at: second(0),
        updated_at: second(touched),
        deleted_at: None,
    }
}

/// What the user said in that turn.
pub(crate) fn said(chat: &ChatId, number: u8) -> MessageRow {
    MessageRow {
        id: MessageId::from_random([number; 15]),
        chat_id: chat.clone(),
        turn_id: turn(number),
        role: MessageRole::User,
        blocks: json!([{"type": "text", "text": "Hello\0 \u{1F41D}"}]),
        attachments: json!([]),
        created_at: second(i64::from(number)),
        position: 0,
    }
}
