//! The life of a key, from the command line.

use crate::program::Program;

#[test]
fn a_key_is_made_listed_rotated_and_revoked() {
    let program = Program::new();
    let made = program.succeed_json(&["keys", "create", "--team", "red", "--name", "a", "--json"]);
    let (id, secret) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert_eq!((secret.len(), &secret[..4]), (44, "e2b_"));
    assert_eq!((&made["team"], &made["name"]), (&"red".into(), &"a".into()));

    let rotated = program.succeed_json(&["keys", "rotate", id, "--json"]);
    let new_id = rotated["id"].as_str().unwrap();
    assert_ne!(rotated["key"], made["key"]);
    assert_eq!(rotated["team"], "red");

    let revoked = program.succeed_json(&["keys", "--json", "revoke", new_id]);
    assert!(revoked["revokedAt"].is_string());

    let list = program.succeed_json(&["keys", "list", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 2);
    for key in list.as_array().unwrap() {
        assert!(key["revokedAt"].is_string(), "{key}");
        assert!(key.get("key").is_none(), "{key}");
    }
}

#[test]
fn the_text_shows_the_secret_once_and_says_to_store_it() {
    let program = Program::new();
    let text = program.succeed(&["keys", "create"]);
    let secret = text.split_whitespace().find(|word| word.starts_with("e2b_")).unwrap();
    assert!(text.contains("store it now"), "{text}");

    let list = program.succeed(&["keys", "list"]);
    assert!(list.starts_with("ID "), "{list}");
    assert!(list.contains("default") && list.contains(&secret[..8]), "{list}");
    assert!(!list.contains(secret), "{list}");
}

#[test]
fn an_unknown_key_and_a_wrong_directory_are_said() {
    let program = Program::new();
    let nowhere = program.fail(&["keys", "list", "--data", "elsewhere"]);
    assert!(nowhere.contains("there is no Mayfly data in `elsewhere`"), "{nowhere}");
    assert!(!program.path("elsewhere").exists());

    program.succeed(&["keys", "create"]);
    let unknown = program.fail(&["keys", "revoke", "key_x"]);
    assert_eq!(unknown, "error: there is no API key `key_x`\n");
}
