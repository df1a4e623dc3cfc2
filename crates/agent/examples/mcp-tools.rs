//! A small MCP server made with the official SDK, for tests and to copy: over
//! stdio, or with the argument `http` over streamable HTTP on a free port, whose
//! address is its first line of output. It ends when its input does.

use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

struct Tools;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &'static str, description: &'static str, properties: Value| {
            let schema = json!({"type": "object", "properties": properties});
            Tool::new(name, description, schema.as_object().cloned().unwrap_or_default())
        };
        Ok(ListToolsResult::with_all_items(vec![
            tool(
                "add",
                "Adds two numbers.",
                json!({"a": {"type": "integer"}, "b": {"type": "integer"}}),
            ),
            tool("variable", "Reads a variable.", json!({"name": {"type": "string"}})),
            tool("fail", "Always fails.", json!({})),
            tool("sleep", "Takes its time.", json!({"ms": {"type": "integer"}})),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let number = |name: &str| arguments[name].as_i64().unwrap_or_default();
        let text = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]);
        let result = match &*request.name {
            "add" => CallToolResult::structured(json!({"sum": number("a") + number("b")})),
            "variable" => {
                let name = arguments["name"].as_str().unwrap_or_default();
                text(std::env::var(name).unwrap_or_default())
            }
            "fail" => CallToolResult::error(vec![ContentBlock::text("it did not work")]),
            "sleep" => {
                let wait = Duration::from_millis(number("ms").unsigned_abs());
                tokio::time::sleep(wait).await;
                text("awake".to_owned())
            }
            other => return Err(ErrorData::invalid_params(format!("no tool `{other}`"), None)),
        };
        Ok(result.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("http") {
        return serve_http().await;
    }
    let server = Tools.serve((tokio::io::stdin(), tokio::io::stdout())).await?;
    server.waiting().await?;
    Ok(())
}

async fn serve_http() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    let service = StreamableHttpService::new(
        || Ok(Tools),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().route_service("/mcp", service);
    let server = axum::serve(listener, router);
    let input_ended = async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    tokio::select! {
        served = async { server.await } => served?,
        () = input_ended => {}
    }
    Ok(())
}
