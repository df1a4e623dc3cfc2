//! What every store promises about sessions and their tokens.

use serde_json::json;
use store::{NewBearer, NewOtp, OtpKind, OtpRefusal, SessionCaller, SessionRow, Store};
use tokio::task::JoinSet;
use wire::workspace::SessionId;

use crate::time::second;

contract!([
    a_session_is_read_back_as_it_was_written,
    a_session_that_cannot_have_its_tokens_is_not_opened,
    a_token_opens_once_and_only_what_it_is_for,
    a_token_expires_on_the_dot,
    of_a_hundred_redemptions_at_once_one_wins,
    a_bearer_names_its_session_until_it_expires,
    a_settled_session_opens_nothing,
    settling_twice_keeps_the_first_time,
    pruning_takes_settled_sessions_with_their_tokens,
]);

const SETUP: [u8; 32] = [1; 32];
const RUN: [u8; 32] = [2; 32];
const UPLOAD: [u8; 32] = [3; 32];
const BEARER: [u8; 32] = [4; 32];

async fn a_session_is_read_back_as_it_was_written(store: Store) {
    for (number, caller) in [(1, SessionCaller::Assistant), (2, SessionCaller::Agents)] {
        let row = SessionRow { caller, ..session(number) };
        let bearer = NewBearer { hash: [number; 32], expires_at: second(60) };
        store.open_session(&row, &[], &bearer).await.unwrap();
        assert_eq!(store.session(&row.id).await.unwrap(), Some(row));
    }
    assert_eq!(store.session(&session(3).id).await.unwrap(), None);
}

async fn a_session_that_cannot_have_its_tokens_is_not_opened(store: Store) {
    open(&store).await;
    let second_session = session(2);
    let clash = NewBearer { hash: BEARER, expires_at: second(60) };
    let otp = NewOtp { hash: [9; 32], kind: OtpKind::Run, expires_at: second(60) };
    assert!(store.open_session(&second_session, &[otp], &clash).await.is_err());
    assert_eq!(store.session(&second_session.id).await.unwrap(), None);
    let gone = store.redeem_otp(&second_session.id, OtpKind::Run, &otp.hash, second(1)).await;
    assert_eq!(gone.unwrap(), Err(OtpRefusal::Unknown));
}

async fn a_token_opens_once_and_only_what_it_is_for(store: Store) {
    let row = open(&store).await;
    let redeem = async |id: &SessionId, kind, hash: &[u8; 32]| {
        store.redeem_otp(id, kind, hash, second(1)).await.unwrap()
    };
    // Of another session, of another kind, and of nothing: the token stays good.
    let unknown = Err(OtpRefusal::Unknown);
    assert_eq!(redeem(&session(2).id, OtpKind::Setup, &SETUP).await, unknown);
    assert_eq!(redeem(&row.id, OtpKind::Run, &SETUP).await, unknown);
    assert_eq!(redeem(&row.id, OtpKind::Setup, &[0; 32]).await, unknown);
    for (kind, hash) in [(OtpKind::Setup, &SETUP), (OtpKind::Run, &RUN), (OtpKind::Upload, &UPLOAD)]
    {
        assert_eq!(redeem(&row.id, kind, hash).await, Ok(()));
        assert_eq!(redeem(&row.id, kind, hash).await, Err(OtpRefusal::Used));
    }
}

async fn a_token_expires_on_the_dot(store: Store) {
    let row = open(&store).await;
    let late = store.redeem_otp(&row.id, OtpKind::Setup, &SETUP, second(600)).await.unwrap();
    assert_eq!(late, Err(OtpRefusal::Expired));
    let just = second(600) - chrono::TimeDelta::milliseconds(1);
    assert_eq!(store.redeem_otp(&row.id, OtpKind::Setup, &SETUP, just).await.unwrap(), Ok(()));
    // A used one is used, however late it is.
    let later = store.redeem_otp(&row.id, OtpKind::Setup, &SETUP, second(999)).await.unwrap();
    assert_eq!(later, Err(OtpRefusal::Used));
}

async fn of_a_hundred_redemptions_at_once_one_wins(store: Store) {
    let row = open(&store).await;
    let mut callers = JoinSet::new();
    for _ in 0..100 {
        let (store, id) = (store.clone(), row.id.clone());
        callers.spawn(async move { store.redeem_otp(&id, OtpKind::Run, &RUN, second(1)).await });
    }
    let mut won = 0;
    while let Some(done) = callers.join_next().await {
        match done.unwrap().unwrap() {
            Ok(()) => won += 1,
            Err(refusal) => assert_eq!(refusal, OtpRefusal::Used),
        }
    }
    assert_eq!(won, 1);
}

async fn a_bearer_names_its_session_until_it_expires(store: Store) {
    let row = open(&store).await;
    let named = store.session_of_bearer(&BEARER, second(899)).await.unwrap();
    assert_eq!(named, Some(row));
    assert_eq!(store.session_of_bearer(&BEARER, second(900)).await.unwrap(), None);
    // A one-time token is no bearer.
    assert_eq!(store.session_of_bearer(&RUN, second(1)).await.unwrap(), None);
}

async fn a_settled_session_opens_nothing(store: Store) {
    let row = open(&store).await;
    store.redeem_otp(&row.id, OtpKind::Setup, &SETUP, second(1)).await.unwrap().unwrap();
    store.settle_session(&row.id, second(5)).await.unwrap();
    // Also not for somebody who looked at the clock before that.
    for now in [second(4), second(6)] {
        assert_eq!(store.session_of_bearer(&BEARER, now).await.unwrap(), None);
        let unused = store.redeem_otp(&row.id, OtpKind::Run, &RUN, now).await.unwrap();
        assert_eq!(unused, Err(OtpRefusal::Expired));
        let used = store.redeem_otp(&row.id, OtpKind::Setup, &SETUP, now).await.unwrap();
        assert_eq!(used, Err(OtpRefusal::Used));
    }
    let settled = SessionRow { settled_at: Some(second(5)), ..row.clone() };
    assert_eq!(store.session(&row.id).await.unwrap(), Some(settled));
}

async fn settling_twice_keeps_the_first_time(store: Store) {
    let row = open(&store).await;
    store.settle_session(&row.id, second(5)).await.unwrap();
    store.settle_session(&row.id, second(6)).await.unwrap();
    store.settle_session(&session(2).id, second(6)).await.unwrap();
    let settled_at = store.session(&row.id).await.unwrap().unwrap().settled_at;
    assert_eq!(settled_at, Some(second(5)));
}

async fn pruning_takes_settled_sessions_with_their_tokens(store: Store) {
    let row = open(&store).await;
    let other = session(2);
    let bearer = NewBearer { hash: [5; 32], expires_at: second(60) };
    store.open_session(&other, &[], &bearer).await.unwrap();
    store.settle_session(&row.id, second(5)).await.unwrap();
    assert_eq!(store.prune_sessions(second(5)).await.unwrap(), 0);
    assert_eq!(store.prune_sessions(second(6)).await.unwrap(), 1);
    assert_eq!(store.session(&row.id).await.unwrap(), None);
    assert_eq!(store.session(&other.id).await.unwrap(), Some(other));
    let token = store.redeem_otp(&row.id, OtpKind::Run, &RUN, second(1)).await.unwrap();
    assert_eq!(token, Err(OtpRefusal::Unknown));
    // Its hashes are free again, so none of them was left behind.
    open(&store).await;
}

/// A session with one token of each kind, good for ten minutes, and a bearer,
/// good for fifteen.
async fn open(store: &Store) -> SessionRow {
    let row = session(1);
    let otp = |kind, hash| NewOtp { hash, kind, expires_at: second(600) };
    let otps = [otp(OtpKind::Setup, SETUP), otp(OtpKind::Run, RUN), otp(OtpKind::Upload, UPLOAD)];
    let bearer = NewBearer { hash: BEARER, expires_at: second(900) };
    store.open_session(&row, &otps, &bearer).await.unwrap();
    row
}

pub(crate) fn session(number: u8) -> SessionRow {
    SessionRow {
        id: SessionId::from_random([number; 15]),
        workspace: "red".to_owned(),
        caller: SessionCaller::Assistant,
        scope: "chat_1".to_owned(),
        work: "turn_1".to_owned(),
        brief: json!({"agentId": null, "nul": "\0"}),
        created_at: second(0),
        settled_at: None,
    }
}
