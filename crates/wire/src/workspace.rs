//! Names of what a workspace keeps, each parsed once.
//!
//! Every one of them is a prefix that says what it names, and 24 random digits
//! of base 32.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::random_name;

/// The text is not a name of that kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} id is `{prefix}` and 24 digits of base 32")]
pub struct BadWorkspaceId {
    what: &'static str,
    prefix: &'static str,
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal, $what:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// What every one of them starts with.
            pub const PREFIX: &str = $prefix;

            /// Reads a name from outside.
            pub fn parse(text: &str) -> Result<$name, BadWorkspaceId> {
                if random_name::is_name($prefix, text) {
                    Ok($name(text.to_owned()))
                } else {
                    Err(BadWorkspaceId { what: $what, prefix: $prefix })
                }
            }

            /// Makes a name from random bytes; no bit of them is lost.
            pub fn from_random(bytes: [u8; 15]) -> $name {
                $name(random_name::from_random($prefix, bytes))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadWorkspaceId;

            fn try_from(text: String) -> Result<$name, BadWorkspaceId> {
                $name::parse(&text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

names! {
    /// A conversation.
    ChatId = "chat_", "a conversation";
    /// A message of a conversation.
    MessageId = "msg_", "a message";
    /// A user's message and all that answers it.
    TurnId = "turn_", "a turn";
    /// One dispatch: the scope of its one-time tokens and its bearer.
    SessionId = "ses_", "a session";
    /// A file, in a bag or in the workspace.
    FileId = "file_", "a file";
    /// One execution of a workflow.
    ExecutionId = "exec_", "an execution";
    /// A row of a table.
    RowId = "row_", "a row";
}

/// What a workspace's owner makes and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceKind {
    /// Somebody who can be asked to do things.
    Agent,
    /// Variables and a setup script.
    Environment,
    /// Where a model is, and the key to it.
    Model,
    /// Instructions and recipes.
    Skill,
    /// A server of tools.
    McpServer,
    /// Rows under columns.
    Table,
    /// A graph of blocks.
    Workflow,
}

impl ResourceKind {
    /// All of them.
    pub const ALL: [ResourceKind; 7] = [
        ResourceKind::Agent,
        ResourceKind::Environment,
        ResourceKind::Model,
        ResourceKind::Skill,
        ResourceKind::McpServer,
        ResourceKind::Table,
        ResourceKind::Workflow,
    ];

    /// Its name, for people and for the store.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What the ids of its kind start with.
    pub fn prefix(self) -> &'static str {
        self.words().1
    }

    /// Reads what `name` wrote.
    pub fn parse_name(name: &str) -> Option<ResourceKind> {
        ResourceKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            ResourceKind::Agent => ("agent", "agent_"),
            ResourceKind::Environment => ("environment", "env_"),
            ResourceKind::Model => ("model", "model_"),
            ResourceKind::Skill => ("skill", "skill_"),
            ResourceKind::McpServer => ("MCP server", "mcp_"),
            ResourceKind::Table => ("table", "tbl_"),
            ResourceKind::Workflow => ("workflow", "wf_"),
        }
    }
}

/// The name of a resource; its prefix says of which kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ResourceId(String);

impl ResourceId {
    /// Reads a name of that kind from outside.
    pub fn parse(kind: ResourceKind, text: &str) -> Result<ResourceId, BadWorkspaceId> {
        if random_name::is_name(kind.prefix(), text) {
            Ok(ResourceId(text.to_owned()))
        } else {
            Err(BadWorkspaceId { what: kind.name(), prefix: kind.prefix() })
        }
    }

    /// Makes a name from random bytes; no bit of them is lost.
    pub fn from_random(kind: ResourceKind, bytes: [u8; 15]) -> ResourceId {
        ResourceId(random_name::from_random(kind.prefix(), bytes))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChatId, FileId, ResourceId, ResourceKind};

    #[test]
    fn a_name_is_read_back_and_one_of_another_kind_is_not() {
        let chat = ChatId::from_random([7; 15]);
        assert_eq!(ChatId::parse(chat.as_str()), Ok(chat.clone()));
        let refused = FileId::parse(chat.as_str()).unwrap_err();
        assert_eq!(refused.to_string(), "a file id is `file_` and 24 digits of base 32");
        let json = serde_json::to_string(&chat).unwrap();
        assert_eq!(serde_json::from_str::<ChatId>(&json).unwrap(), chat);
        assert!(serde_json::from_str::<ChatId>("\"chat_../../etc\"").is_err());
    }

    #[test]
    fn every_kind_of_resource_has_a_name_and_a_prefix_of_its_own() {
        for kind in ResourceKind::ALL {
            assert_eq!(ResourceKind::parse_name(kind.name()), Some(kind));
            let id = ResourceId::from_random(kind, [3; 15]);
            for other in ResourceKind::ALL {
                assert_eq!(ResourceId::parse(other, id.as_str()).is_ok(), other == kind, "{id}");
            }
        }
        assert_eq!(ResourceKind::parse_name("nothing"), None);
    }
}
