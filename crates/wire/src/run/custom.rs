//! The names of custom events that readers act on.
//!
//! ```text
//! projected   made from other events of the log: nobody says them
//! told        said by the agent program: no tool of the caller's says them
//! any other   whoever likes
//! ```

use std::fmt::Display;

/// A file changed. Projected.
pub const FILE: &str = "sandbox.file";
/// A diagnostic. Projected.
pub const LOG: &str = "sandbox.log";
/// A file was written back. Projected.
pub const ARTIFACT: &str = "artifact.created";
/// A tool is the client's to execute. Projected: a front end executes it.
pub const CLIENT_TOOL: &str = "tool-input-available";

/// What changed in one file.
pub const FILE_DIFF: &str = "sandbox.file.diff";
/// What changed in the whole working tree.
pub const TREE_CHANGED: &str = "file.changed";
/// An action waits for somebody's word.
pub const APPROVAL: &str = "approval-requested";

const PROJECTED: [&str; 4] = [FILE, LOG, ARTIFACT, CLIENT_TOOL];
const TOLD: [&str; 3] = [FILE_DIFF, TREE_CHANGED, APPROVAL];
/// What the names of all events about programs of code mode begin with.
const CODE_MODE: &str = "code_mode:";
const SESSION_ID: &str = ".session-id";

/// The event that names the harness's own session.
pub fn session_id(harness: impl Display) -> String {
    format!("{harness}{SESSION_ID}")
}

/// Whether it names a session of some harness.
pub fn is_session_id(name: &str) -> bool {
    name.ends_with(SESSION_ID)
}

/// Whether events of that name are made from others.
pub fn is_projected(name: &str) -> bool {
    PROJECTED.contains(&name)
}

/// Whether a tool of the caller's may not use the name.
pub fn is_reserved(name: &str) -> bool {
    is_projected(name) || TOLD.contains(&name) || name.starts_with(CODE_MODE) || is_session_id(name)
}

#[cfg(test)]
mod tests {
    use super::{FILE_DIFF, is_projected, is_reserved, session_id};

    #[test]
    fn what_readers_act_on_is_not_anybodys_to_say() {
        assert!(is_projected("tool-input-available") && is_reserved("tool-input-available"));
        assert!(!is_projected(FILE_DIFF) && is_reserved(FILE_DIFF));
        assert!(is_reserved("code_mode:console") && is_reserved(&session_id("codex")));
        for name in ["progress", "code_mode", "session-id", "my.sandbox.file"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
