//! What every store promises about turns.

use std::slice::from_ref;

use serde_json::json;
use store::{
    BeginTurnError, MessageRole, MessageRow, OnDisconnect, Shelf, Store, StreamEvent, TurnEnd,
    TurnRow, TurnState,
};
use tokio::task::JoinSet;
use wire::workspace::{ChatId, FileId, MessageId, SessionId, TurnId};

use crate::conversations::{chat, conversation, said};
use crate::files::{keep, stored};
use crate::streams::event;
use crate::time::second;

contract!([
    a_turn_is_read_back_as_it_was_begun,
    of_two_turns_at_once_one_begins_and_the_other_names_it,
    a_turn_needs_a_conversation_of_its_workspace,
    a_turn_with_a_wrong_attachment_changes_nothing,
    attachments_belong_to_the_first_message_that_has_them,
    the_end_of_a_turn_is_there_whole_and_once,
    a_turn_that_cannot_end_whole_does_not_end,
    a_turn_ends_whatever_a_runner_calls_its_failure,
    of_many_ends_at_once_one_counts,
    a_conversation_goes_on_after_a_turn_ended,
]);

async fn a_turn_is_read_back_as_it_was_begun(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let row = begun(&store, &chat(1), 1).await;
    assert_eq!(store.turn("red", &row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(store.turn("blue", &row.id).await.unwrap(), None);
    assert_eq!(store.open_turns().await.unwrap(), from_ref(&row));
    store.set_turn_run(&row.id, "run_1").await.unwrap();
    let named = store.turn("red", &row.id).await.unwrap().unwrap();
    assert_eq!(named, TurnRow { run_id: Some("run_1".to_owned()), ..row.clone() });
    let touched = store.conversation("red", &chat(1)).await.unwrap().unwrap();
    assert_eq!(touched.updated_at, row.started_at);
}

async fn of_two_turns_at_once_one_begins_and_the_other_names_it(store: Store) {
    for round in 0..10 {
        let chat = chat(100 + round);
        store.create_conversation(&conversation(100 + round, 0)).await.unwrap();
        let (first, second) = (round * 2, round * 2 + 1);
        let (one, two) =
            tokio::join!(try_begin(&store, &chat, first), try_begin(&store, &chat, second));
        let (winner, loser) = match (one, two) {
            (Ok(()), Err(refused)) => (turn(first), refused),
            (Err(refused), Ok(())) => (turn(second), refused),
            (one, two) => panic!("{one:?} {two:?}"),
        };
        assert!(matches!(&loser, BeginTurnError::Busy(id) if *id == winner), "{loser:?}");
        assert_eq!(store.messages(&chat, None, 9).await.unwrap().len(), 1);
    }
}

async fn a_turn_needs_a_conversation_of_its_workspace(store: Store) {
    let missing = try_begin(&store, &chat(1), 1).await;
    assert!(matches!(missing, Err(BeginTurnError::NoConversation)));
    let mut foreign = conversation(1, 0);
    foreign.workspace = "blue".to_owned();
    store.create_conversation(&foreign).await.unwrap();
    assert!(matches!(try_begin(&store, &chat(1), 1).await, Err(BeginTurnError::NoConversation)));
    store.create_conversation(&conversation(2, 0)).await.unwrap();
    store.delete_conversation("red", &chat(2), second(1)).await.unwrap();
    assert!(matches!(try_begin(&store, &chat(2), 1).await, Err(BeginTurnError::NoConversation)));
}

async fn a_turn_with_a_wrong_attachment_changes_nothing(store: Store) {
    for number in [1, 2] {
        store.create_conversation(&conversation(number, 0)).await.unwrap();
    }
    let (one, two) = (chat(1), chat(2));
    let good = stored(&store, Shelf::Bag(one.as_str()), "a.txt").await;
    let foreign = stored(&store, Shelf::Bag(two.as_str()), "a.txt").await;
    let unfinished = keep(&store, Shelf::Bag(one.as_str()), "b.txt").await;
    let deleted = stored(&store, Shelf::Bag(one.as_str()), "c.txt").await;
    store.delete_file("red", Shelf::Bag(one.as_str()), &deleted.id, second(1)).await.unwrap();
    for wrong in [foreign.id, unfinished.id, deleted.id, FileId::from_random([77; 15])] {
        let attachments = [good.id.clone(), wrong.clone()];
        let refused = store.begin_turn(&running(&one, 1), &said(&one, 1), &attachments).await;
        assert!(
            matches!(&refused, Err(BeginTurnError::NoAttachment(id)) if *id == wrong),
            "{refused:?}"
        );
    }
    assert!(store.open_turns().await.unwrap().is_empty());
    assert!(store.messages(&one, None, 9).await.unwrap().is_empty());
    let file = store.file("red", Shelf::Bag(one.as_str()), &good.id).await.unwrap().unwrap();
    assert_eq!(file.message_id, None);
    assert_eq!(store.conversation("red", &one).await.unwrap(), Some(conversation(1, 0)));
}

async fn attachments_belong_to_the_first_message_that_has_them(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    let bag = Shelf::Bag(chat.as_str());
    let file = stored(&store, bag, "a.txt").await;
    for number in [1, 2] {
        let attachments = [file.id.clone()];
        store
            .begin_turn(&running(&chat, number), &said(&chat, number), &attachments)
            .await
            .unwrap();
        finish(&store, &chat, number).await;
        let attached = store.file("red", bag, &file.id).await.unwrap().unwrap();
        assert_eq!(attached.message_id, Some(said(&chat, 1).id));
    }
}

async fn the_end_of_a_turn_is_there_whole_and_once(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    let row = begun(&store, &chat, 1).await;
    let failed = TurnEnd {
        state: TurnState::Failed,
        code: Some("sandbox_lost".to_owned()),
        error: Some("it went away".to_owned()),
        at: second(60),
    };
    let last = [event(1, "done")];
    let answer = answer(&chat, 1);
    assert!(store.finish_turn(&row.id, &failed, &answer, &last).await.unwrap());
    let succeeded = end(70);
    let late = MessageRow { id: MessageId::from_random([250; 15]), ..answer.clone() };
    let late = store.finish_turn(&row.id, &succeeded, &late, &[event(2, "done")]).await;
    assert!(!late.unwrap());

    let expected = TurnRow {
        state: TurnState::Failed,
        code: failed.code,
        error: failed.error,
        ended_at: Some(second(60)),
        ..row.clone()
    };
    assert_eq!(store.turn("red", &row.id).await.unwrap(), Some(expected));
    assert!(store.open_turns().await.unwrap().is_empty());
    let messages = store.messages(&chat, None, 9).await.unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1], MessageRow { position: messages[1].position, ..answer });
    assert_eq!(store.events_after(row.id.as_str(), 0, 9).await.unwrap(), last);
    let touched = store.conversation("red", &chat).await.unwrap().unwrap();
    assert_eq!(touched.updated_at, second(60));
}

async fn a_turn_that_cannot_end_whole_does_not_end(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    let row = begun(&store, &chat, 1).await;
    store.append_events(row.id.as_str(), &[event(1, "text")]).await.unwrap();
    // The number of the last event is taken.
    let ended = store.finish_turn(&row.id, &end(60), &answer(&chat, 1), &[event(1, "done")]).await;
    assert!(ended.is_err());
    assert_eq!(store.open_turns().await.unwrap(), from_ref(&row));
    assert_eq!(store.messages(&chat, None, 9).await.unwrap().len(), 1);
    assert_eq!(store.events_after(row.id.as_str(), 0, 9).await.unwrap(), [event(1, "text")]);
}

async fn a_turn_ends_whatever_a_runner_calls_its_failure(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    let row = begun(&store, &chat, 1).await;
    let odd = Some("o\0dd".to_owned());
    let end = TurnEnd { state: TurnState::Failed, code: odd.clone(), error: odd, ..end(60) };
    assert!(store.finish_turn(&row.id, &end, &answer(&chat, 1), &[]).await.unwrap());
    let ended = store.turn("red", &row.id).await.unwrap().unwrap();
    assert_eq!(
        (ended.code.as_deref(), ended.error.as_deref()),
        (Some("o\u{FFFD}dd"), Some("o\u{FFFD}dd"))
    );
}

async fn of_many_ends_at_once_one_counts(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    begun(&store, &chat, 1).await;
    let mut ends = JoinSet::new();
    for number in 0..20u8 {
        let (store, chat) = (store.clone(), chat.clone());
        ends.spawn(async move {
            let message =
                MessageRow { id: MessageId::from_random([100 + number; 15]), ..answer(&chat, 1) };
            let last = [event(u64::from(number) + 1, "done")];
            store.finish_turn(&turn(1), &end(60), &message, &last).await.unwrap()
        });
    }
    let counted = ends.join_all().await.into_iter().filter(|ended| *ended).count();
    assert_eq!(counted, 1);
    assert_eq!(store.messages(&chat, None, 9).await.unwrap().len(), 2);
    assert_eq!(store.events_after(turn(1).as_str(), 0, 99).await.unwrap().len(), 1);
}

async fn a_conversation_goes_on_after_a_turn_ended(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    let chat = chat(1);
    // Ends and beginnings of one conversation meet all the time.
    for number in 1..20 {
        begun(&store, &chat, number).await;
        let begin = async {
            loop {
                match try_begin(&store, &chat, number + 100).await {
                    Err(BeginTurnError::Busy(_)) => {}
                    begun => break begun.unwrap(),
                }
            }
        };
        tokio::join!(finish(&store, &chat, number), begin);
        finish(&store, &chat, number + 100).await;
    }
    let messages = store.messages(&chat, None, 100).await.unwrap();
    let positions: Vec<i64> = messages.iter().map(|message| message.position).collect();
    assert_eq!(positions, (1..=76).collect::<Vec<i64>>());
}

pub(crate) fn turn(number: u8) -> TurnId {
    TurnId::from_random([number; 15])
}

/// Begins a turn.
pub(crate) async fn begun(store: &Store, chat: &ChatId, number: u8) -> TurnRow {
    try_begin(store, chat, number).await.unwrap();
    running(chat, number)
}

/// Begins a turn and ends it.
pub(crate) async fn answered(store: &Store, chat: &ChatId, number: u8) {
    begun(store, chat, number).await;
    finish(store, chat, number).await;
}

async fn try_begin(store: &Store, chat: &ChatId, number: u8) -> Result<(), BeginTurnError> {
    store.begin_turn(&running(chat, number), &said(chat, number), &[]).await
}

async fn finish(store: &Store, chat: &ChatId, number: u8) {
    let last: [StreamEvent; 1] = [event(1000, "done")];
    let at = end(i64::from(number) + 1);
    assert!(store.finish_turn(&turn(number), &at, &answer(chat, number), &last).await.unwrap());
}

fn running(chat: &ChatId, number: u8) -> TurnRow {
    TurnRow {
        id: turn(number),
        chat_id: chat.clone(),
        workspace: "red".to_owned(),
        session_id: SessionId::from_random([number; 15]),
        user_message_id: said(chat, number).id,
        state: TurnState::Running,
        on_disconnect: OnDisconnect::Continue,
        run_id: None,
        code: None,
        error: None,
        started_at: second(i64::from(number)),
        ended_at: None,
    }
}

fn end(at: i64) -> TurnEnd {
    TurnEnd { state: TurnState::Succeeded, code: None, error: None, at: second(at) }
}

fn answer(chat: &ChatId, number: u8) -> MessageRow {
    let mut id = [number; 15];
    id[0] = 255;
    MessageRow {
        id: MessageId::from_random(id),
        role: MessageRole::Assistant,
        blocks: json!([{"type": "text", "text": "Hello yourself"}]),
        ..said(chat, number)
    }
}
