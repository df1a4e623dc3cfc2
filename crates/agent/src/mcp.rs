//! MCP servers, by the official SDK: programs inside the sandbox over stdio,
//! others by streamable HTTP through the host link.
//!
//! A server that does not start is a warning, and its tools are missing; the
//! run goes on. What servers say is hostile: tools, names and results are
//! bounded, and every wait has an end.

mod http;
mod names;
mod outcome;

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use rmcp::{
    RoleClient, ServiceError, ServiceExt,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation,
        PaginatedRequestParams, Tool,
    },
    service::{ClientInitializeError, RunningService},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value};
use tokio::time::timeout;
use wire::{agent::McpServer, run::Level};

use crate::{
    emit::Emitter,
    model::ToolSpec,
    session::Session,
    tools::{Returned, ToolError},
};

use http::LinkClient;

/// Longest time a server may take to start and to list its tools.
const START: Duration = Duration::from_secs(60);
/// Longest time a server may take to stop.
const STOP: Duration = Duration::from_secs(2);
/// Most tools of one server.
const TOOLS: usize = 256;
/// Largest description and schema of a tool together.
const TOOL_BYTES: usize = 64 << 10;

type Client = RunningService<RoleClient, ClientConfig>;

/// The servers of one run that did start.
pub(crate) struct Servers {
    clients: Vec<Client>,
    tools: Vec<Offered>,
    limit: Duration,
}

/// A tool of one of them.
struct Offered {
    spec: ToolSpec,
    /// Its server's place in the list.
    client: usize,
    /// Its name at its server.
    tool: String,
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("it did not start: {0}")]
    Spawn(#[from] std::io::Error),
    #[error("the handshake failed: {0}")]
    Handshake(#[from] Box<ClientInitializeError>),
    #[error("it did not list its tools: {0}")]
    List(#[from] ServiceError),
    #[error("it took longer than {} ms to start", .0.as_millis())]
    Timeout(Duration),
}

impl Servers {
    /// Starts all servers of the configuration, side by side.
    pub(crate) async fn connect(session: &Session, out: &Emitter) -> Servers {
        let limit = Duration::from_millis(session.limits.tool_timeout_ms);
        let mut servers = Servers { clients: Vec::new(), tools: Vec::new(), limit };
        let configured = &session.config.mcp_servers;
        let starting = configured.iter().map(|server| start(session, server, START.min(limit)));
        for (server, started) in configured.iter().zip(join_all(starting).await) {
            let name = server.name();
            match started {
                Ok((client, tools)) => {
                    let message = format!("MCP server `{name}` offers {} tools", tools.len());
                    out.log(Level::Debug, message);
                    servers.add(name, client, tools);
                }
                Err(err) => {
                    let message = format!("MCP server `{name}` is not available: {err}");
                    out.log(Level::Warn, message);
                }
            }
        }
        servers
    }

    /// No servers at all.
    #[cfg(test)]
    pub(crate) fn none() -> Servers {
        Servers { clients: Vec::new(), tools: Vec::new(), limit: START }
    }

    /// The tools as the model sees them.
    pub(crate) fn specs(&self) -> impl Iterator<Item = ToolSpec> {
        self.tools.iter().map(|offered| offered.spec.clone())
    }

    /// Calls a tool by the name that the model knows.
    pub(crate) async fn call(
        &self,
        name: &str,
        fields: &Map<String, Value>,
    ) -> Result<Returned, ToolError> {
        let offered = self.tools.iter().find(|offered| offered.spec.name == name);
        let offered =
            offered.ok_or_else(|| ToolError::new(format!("there is no tool `{name}`")))?;
        let request =
            CallToolRequestParams::new(offered.tool.clone()).with_arguments(fields.clone());
        let client = &self.clients[offered.client];
        match timeout(self.limit, client.call_tool(request)).await {
            Ok(Ok(result)) => outcome::returned(result),
            Ok(Err(err)) => Err(ToolError::new(format!("the MCP server failed: {err}"))),
            Err(_) => Err(ToolError::timed_out(self.limit)),
        }
    }

    /// Ends all servers. One that does not end by itself ends with the sandbox.
    pub(crate) async fn close(self) {
        let closing = self.clients.into_iter().map(|mut client| async move {
            let _ = client.close_with_timeout(STOP).await;
        });
        join_all(closing).await;
    }

    fn add(&mut self, server: &str, client: Client, tools: Vec<Tool>) {
        for tool in tools {
            let taken = |name: &str| self.tools.iter().any(|other| other.spec.name == name);
            let name = names::offered(server, &tool.name, taken);
            let description = tool.description.unwrap_or_default().into_owned();
            let schema = Value::Object(Arc::unwrap_or_clone(tool.input_schema));
            let spec = ToolSpec { name, description, schema };
            let client = self.clients.len();
            self.tools.push(Offered { spec, client, tool: tool.name.into_owned() });
        }
        self.clients.push(client);
    }
}

async fn start(
    session: &Session,
    server: &McpServer,
    limit: Duration,
) -> Result<(Client, Vec<Tool>), StartError> {
    let starting = async {
        let client = connect(session, server).await?;
        let tools = list(&client).await?;
        Ok((client, tools))
    };
    timeout(limit, starting).await.unwrap_or(Err(StartError::Timeout(limit)))
}

async fn connect(session: &Session, server: &McpServer) -> Result<Client, StartError> {
    let us = ClientConfig::new(
        ClientCapabilities::default(),
        Implementation::new("mayfly-agent", env!("CARGO_PKG_VERSION")),
    );
    let client = match server {
        McpServer::Stdio { command, args, env, .. } => {
            let mut program = session.command(command);
            program.args(args).envs(env);
            us.serve(TokioChildProcess::new(program)?).await
        }
        McpServer::Http { url, .. } => {
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            let client = LinkClient::new(Duration::from_millis(session.limits.tool_timeout_ms));
            us.serve(StreamableHttpClientTransport::with_client(client, config)).await
        }
    };
    client.map_err(|err| StartError::Handshake(Box::new(err)))
}

/// All tools that fit the bounds. Pages are counted, since a server may say
/// for ever that there is one more.
async fn list(client: &Client) -> Result<Vec<Tool>, StartError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..TOOLS {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = client.list_tools(Some(page)).await?;
        tools.extend(listed.tools.into_iter().filter(fits));
        cursor = listed.next_cursor;
        if cursor.is_none() || tools.len() >= TOOLS {
            break;
        }
    }
    tools.truncate(TOOLS);
    Ok(tools)
}

fn fits(tool: &Tool) -> bool {
    let schema = serde_json::to_vec(&*tool.input_schema).map_or(usize::MAX, |json| json.len());
    let description = tool.description.as_ref().map_or(0, |text| text.len());
    schema.saturating_add(description) <= TOOL_BYTES
}
