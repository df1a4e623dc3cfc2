//! What every store promises about API keys.

use store::{KeyError, NewKey, Store};
use wire::Secret;

contract!([
    a_made_key_opens_its_team_and_nothing_else_does,
    a_revoked_key_opens_nothing_and_stays_listed,
    revoking_twice_keeps_the_first_time,
    rotating_swaps_the_key_and_keeps_team_and_name,
    rotating_a_revoked_or_unknown_key_is_refused,
    importing_a_key_twice_changes_nothing,
    an_import_does_not_bring_a_revoked_key_back,
    an_unfit_key_is_not_imported,
    a_live_key_is_one_that_is_not_revoked,
    two_rotations_at_once_leave_one_live_key,
]);

async fn a_made_key_opens_its_team_and_nothing_else_does(store: Store) {
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

async fn a_revoked_key_opens_nothing_and_stays_listed(store: Store) {
    let (key, secret) = store.create_key(new_key("red")).await.unwrap();
    let revoked = store.revoke_key(&key.id).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(store.team_of(secret.expose()).await.unwrap(), None);
    assert_eq!(store.list_keys().await.unwrap(), [revoked]);
    let unknown = store.revoke_key("key_000000000000").await;
    assert!(matches!(unknown, Err(KeyError::NotFound(id)) if id == "key_000000000000"));
}

async fn revoking_twice_keeps_the_first_time(store: Store) {
    let (key, _) = store.create_key(new_key("red")).await.unwrap();
    let first = store.revoke_key(&key.id).await.unwrap();
    let second = store.revoke_key(&key.id).await.unwrap();
    assert_eq!(first, second);
}

async fn rotating_swaps_the_key_and_keeps_team_and_name(store: Store) {
    let (old, old_secret) = store.create_key(new_key("red")).await.unwrap();
    let (new, new_secret) = store.rotate_key(&old.id).await.unwrap();
    assert_eq!((&new.team, &new.name), (&old.team, &old.name));
    assert_ne!(new.id, old.id);
    assert_eq!(store.team_of(old_secret.expose()).await.unwrap(), None);
    assert_eq!(store.team_of(new_secret.expose()).await.unwrap().as_deref(), Some("red"));
}

async fn rotating_a_revoked_or_unknown_key_is_refused(store: Store) {
    let (key, _) = store.create_key(new_key("red")).await.unwrap();
    store.revoke_key(&key.id).await.unwrap();
    assert!(matches!(store.rotate_key(&key.id).await, Err(KeyError::Revoked(id)) if id == key.id));
    assert!(matches!(store.rotate_key("key_x").await, Err(KeyError::NotFound(_))));
    assert_eq!(store.list_keys().await.unwrap().len(), 1);
}

async fn importing_a_key_twice_changes_nothing(store: Store) {
    let secret = Secret::new(format!("e2b_{}", "7".repeat(40)));
    let first = store.import_key(&secret, new_key("red")).await.unwrap();
    let second = store.import_key(&secret, new_key("blue")).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(store.team_of(secret.expose()).await.unwrap().as_deref(), Some("red"));
    assert_eq!(store.list_keys().await.unwrap(), [first]);
}

async fn an_import_does_not_bring_a_revoked_key_back(store: Store) {
    let secret = Secret::new(format!("e2b_{}", "7".repeat(40)));
    let key = store.import_key(&secret, new_key("red")).await.unwrap();
    store.revoke_key(&key.id).await.unwrap();
    let again = store.import_key(&secret, new_key("red")).await.unwrap_err();
    assert_eq!(again.to_string(), format!("API key `{}` was revoked; make a new one", key.id));
    assert_eq!(store.team_of(secret.expose()).await.unwrap(), None);
}

async fn an_unfit_key_is_not_imported(store: Store) {
    for unfit in ["", "short", "has a space", "tab\there!", "schlüssel-äöü", &"x".repeat(201)] {
        let refused = store.import_key(&Secret::new(unfit.to_owned()), new_key("red")).await;
        assert!(matches!(refused, Err(KeyError::Malformed)), "{unfit:?}");
    }
    assert!(store.list_keys().await.unwrap().is_empty());
}

async fn a_live_key_is_one_that_is_not_revoked(store: Store) {
    assert!(!store.has_live_key().await.unwrap());
    let (key, _) = store.create_key(new_key("red")).await.unwrap();
    assert!(store.has_live_key().await.unwrap());
    store.revoke_key(&key.id).await.unwrap();
    assert!(!store.has_live_key().await.unwrap());
}

async fn two_rotations_at_once_leave_one_live_key(store: Store) {
    let (key, _) = store.create_key(new_key("red")).await.unwrap();
    let (one, two) = tokio::join!(store.rotate_key(&key.id), store.rotate_key(&key.id));
    assert!(one.is_ok() != two.is_ok());
    let live = store.list_keys().await.unwrap();
    assert_eq!(live.iter().filter(|key| key.revoked_at.is_none()).count(), 1);
}

pub(crate) fn new_key(team: &str) -> NewKey {
    NewKey { team: team.to_owned(), name: format!("{team}'s laptop") }
}
