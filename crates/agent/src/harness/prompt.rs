//! What a CLI is asked. One that goes on with its own session knows what was
//! said before; any other is told in the words of the prompt.

use wire::agent::{Message, Role};

use crate::session::Session;
use crate::skills;

/// The prompt, with what was said before when the CLI cannot know it.
pub(super) fn compose(session: &Session) -> String {
    let said: Vec<String> = match session.resume {
        Some(_) => Vec::new(),
        None => session.config.messages.iter().filter_map(line).collect(),
    };
    if !said.is_empty() {
        return format!("Previous conversation:\n\n{}\n\n{}", said.join("\n\n"), session.prompt);
    }
    // CLIs take a first `/` for a command of their own.
    if session.prompt.trim_start().starts_with('/') {
        return format!("User: {}", session.prompt);
    }
    session.prompt.clone()
}

/// What the CLI is told before any prompt.
pub(super) fn system(session: &Session) -> String {
    let skills = skills::directions(&skills::open(&session.skills));
    let parts = [session.config.system_prompt.trim(), skills.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// One message; those that are all tools have no text and are left out.
fn line(message: &Message) -> Option<String> {
    let text = message.content.to_text();
    let who = match message.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
    };
    (!text.trim().is_empty()).then(|| format!("{who}: {text}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::{Session, compose, system};

    fn session(config: Value, prompt: &str) -> Session {
        let mut session = Session::for_test(Path::new("/root"), Path::new("/root/workspace"));
        session.config = serde_json::from_value(config).unwrap();
        session.prompt = prompt.to_owned();
        session
    }

    #[test]
    fn earlier_turns_come_first_and_tools_are_left_out() {
        let messages = json!([
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "one"},
                {"type": "tool_call", "id": "c", "name": "t", "args": {}},
                {"type": "text", "text": "two"},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "id": "c", "content": "r"}]},
            {"role": "assistant", "content": [{"type": "tool_call", "id": "d", "name": "t"}]},
        ]);
        let mut session = session(json!({"messages": messages}), "now");
        let expected = "Previous conversation:\n\nUser: hello\n\nAssistant: one\ntwo\n\nnow";
        assert_eq!(compose(&session), expected);
        session.resume = Some("s".to_owned());
        assert_eq!(compose(&session), "now");
    }

    #[test]
    fn a_first_prompt_is_asked_as_it_is() {
        let session = session(json!({"system_prompt": "Be brief.\n"}), "now");
        assert_eq!(compose(&session), "now");
        assert_eq!(system(&session), "Be brief.");
    }

    #[test]
    fn a_prompt_is_no_command_of_the_cli() {
        let mut session = session(json!({}), " /etc/hosts: what is it?");
        assert_eq!(compose(&session), "User:  /etc/hosts: what is it?");
        session.resume = Some("s".to_owned());
        assert_eq!(compose(&session), "User:  /etc/hosts: what is it?");
    }
}
