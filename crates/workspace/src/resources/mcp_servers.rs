//! MCP servers: a program in the sandbox, or a server elsewhere. Variables of
//! the one and headers of the other are secrets.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::workspace::ResourceKind;

use super::{
    Checked, Resource, check_count, check_name, check_text,
    checks::{check_address, check_header, check_variable},
    crud,
    masked::{Given, Masked, Values, mask},
};
use crate::{member::Owner, problem::Problem};

/// Longest command, and longest argument.
const WORD: usize = 8 << 10;
/// Most arguments.
const ARGUMENTS: usize = 100;

/// An MCP server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct McpServer {
    /// How it is reached.
    pub(crate) transport: Transport,
}

/// How an MCP server is reached.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Transport {
    /// It is a program in the sandbox.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// The names of its variables, each with null for its value.
        #[schema(value_type = BTreeMap<String, Option<String>>)]
        env: Masked,
    },
    /// It is elsewhere, and speaks streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// The names of its headers, each with null for its value.
        #[schema(value_type = BTreeMap<String, Option<String>>)]
        headers: Masked,
    },
}

/// An MCP server as it is sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMcpServer {
    /// Its name, which is a part of the names of its tools.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// How it is reached.
    transport: NewTransport,
}

/// How an MCP server is reached, as it is sent. Null keeps a value that is
/// there, unless the address or the command changes; a name that is not sent is
/// gone.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum NewTransport {
    /// It is a program in the sandbox.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
        /// Its variables.
        #[serde(default)]
        #[schema(value_type = BTreeMap<String, Option<String>>)]
        env: Given,
    },
    /// It is elsewhere, and speaks streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// Headers that are added outside of the sandbox.
        #[serde(default)]
        #[schema(value_type = BTreeMap<String, Option<String>>)]
        headers: Given,
    },
}

crud!(
    McpServer,
    NewMcpServer,
    Owner,
    "/api/mcp-servers",
    "mcp servers",
    "an MCP server",
    "MCP servers",
    create_mcp_server,
    list_mcp_servers,
    get_mcp_server,
    replace_mcp_server,
    delete_mcp_server
);

impl Resource for McpServer {
    const KIND: ResourceKind = ResourceKind::McpServer;
    type Input = NewMcpServer;
    /// Values of `env` or `headers`, whichever it has.
    type Secrets = Values;

    fn moves(input: &NewMcpServer, before: &McpServer) -> bool {
        match (&input.transport, &before.transport) {
            (NewTransport::Http { url, .. }, Transport::Http { url: before, .. }) => url != before,
            (
                NewTransport::Stdio { command, args, .. },
                Transport::Stdio { command: program, args: words, .. },
            ) => command != program || args != words,
            (NewTransport::Http { .. }, Transport::Stdio { .. })
            | (NewTransport::Stdio { .. }, Transport::Http { .. }) => true,
        }
    }

    fn check(input: NewMcpServer, before: Values) -> Result<Checked<McpServer>, Problem> {
        check_name("name", &input.name)?;
        let (transport, secrets) = match input.transport {
            NewTransport::Stdio { command, args, env } => {
                check_text("transport.command", &command, WORD)?;
                if command.trim().is_empty() {
                    return Err(Problem::bad_field("transport.command", "is empty"));
                }
                check_count("transport.args", args.len(), ARGUMENTS)?;
                for (place, arg) in args.iter().enumerate() {
                    check_text(&format!("transport.args[{place}]"), arg, WORD)?;
                }
                let (env, secrets) = mask("transport.env", env, &before, check_variable)?;
                (Transport::Stdio { command, args, env }, secrets)
            }
            NewTransport::Http { url, headers } => {
                check_address("transport.url", &url)?;
                let (headers, secrets) = mask("transport.headers", headers, &before, check_header)?;
                check_header_values(&secrets)?;
                (Transport::Http { url, headers }, secrets)
            }
        };
        Ok(Checked { name: input.name, body: McpServer { transport }, secrets })
    }
}

fn check_header_values(headers: &Values) -> Result<(), Problem> {
    match headers.iter().find(|(_, value)| http::HeaderValue::try_from(*value).is_err()) {
        Some((name, _)) => Err(Problem::bad_field(
            format!("transport.headers.{name}"),
            "is not the value of a header",
        )),
        None => Ok(()),
    }
}
