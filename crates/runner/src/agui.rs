//! `POST /agui`: a run for a front end that speaks AG-UI, such as `HttpAgent`.
//!
//! The request is a `RunAgentInput`. What AG-UI has no field for is chosen in its
//! `forwardedProps`, by the names that `POST /stream` has. A client's tools are
//! executed by the client: the run ends, and the next one brings what they
//! returned.

mod conversation;
mod model;
mod shape;

use axum::{
    extract::{Request, State},
    http::HeaderMap,
    response::Response,
};
use http_kit::{Caller, Fault, Team};
use serde_json::{Map, Value, json};
use wire::{
    Code,
    agent::{Harness, HostTool, ModelConfig},
    agui::{BadInput, InputTool, RunAgentInput},
};

use crate::{
    caller::Owned,
    described::{self, NoStart, Refused},
    dispatch::{self, Assignment, Dispatch, GivenTool, TEXT_LIMIT},
    fault,
    fields::{BadBody, Fields},
    names::CallersName,
    office::Runner,
    projection::Projection,
    stream,
};

use conversation::Conversation;
use shape::AguiBody;

/// What is chosen beside AG-UI's own fields.
const PROPS: &str = "forwardedProps";

/// Runs an agent for an AG-UI front end.
///
/// The answer is a stream of AG-UI events that ends with `RUN_FINISHED` or
/// `RUN_ERROR`. A caller that hangs up ends the run, unless
/// `forwardedProps.on_disconnect` says `continue`. The same request again with a
/// `Last-Event-ID` goes on with that run, as `GET /runs/{id}/stream` does.
#[utoipa::path(
    post,
    path = "/agui",
    operation_id = "run_agent",
    tag = "runs",
    request_body = AguiBody,
    params((
        "Last-Event-ID" = Option<String>,
        Header,
        description = "The last event of the same run that the caller has: it goes on behind it.",
    )),
    responses(
        (
            status = 200,
            description = "Events as they come, in the format of `Accept`; server-sent ones \
                           unless said. Each server-sent event has an id for `Last-Event-ID`.",
            headers(("x-mayfly-run-id" = String, description = "The run's id.")),
            content(
                (described::ServerSentEvent = "text/event-stream"),
                (String = "application/x-ndjson"),
                (String = "application/vnd.ag-ui.event+ndjson"),
                (String = "application/vnd.ag-ui.event+proto"),
            ),
        ),
        (
            status = 404,
            description = "`Last-Event-ID` is of a run that is not known.",
            body = described::Fault,
        ),
        NoStart,
        Refused,
    ),
)]
pub(crate) async fn run(
    State(runner): State<Runner>,
    Caller(team): Caller,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Fault> {
    let projection = Projection::asked_of_agui(&headers);
    let last_event = stream::last_event(&headers)?;
    let body = stream::body(request).await?;
    if let Some(position) = last_event {
        let owned = known(&runner, &team, &body).await?;
        return stream::go_on(&runner, owned, projection, position);
    }
    let dispatch = read(&body, runner.office.model.as_ref())
        .map_err(|err| Fault::new(Code::InvalidArgument, err.to_string()))?;
    stream::start(&runner, team, dispatch, projection).await
}

/// The run that a front end was cut off from. It asks again as it asked first, and
/// says in `Last-Event-ID` how far it has come.
async fn known(runner: &Runner, team: &Team, body: &[u8]) -> Result<Owned, Fault> {
    let name = called(body).map_err(|err| Fault::new(Code::InvalidArgument, err.to_string()))?;
    let called = runner.office.store.run_called(&team.0, &name.hash()).await;
    let Some(id) = called.map_err(fault::of_store)? else {
        let CallersName { thread_id, run_id } = name;
        let message = format!("there is no run `{run_id}` of thread `{thread_id}` to go on with");
        return Err(Fault::new(Code::NotFound, message));
    };
    runner.owned(id.as_str(), team).await
}

/// What the run of a request is called.
fn called(body: &[u8]) -> Result<CallersName, BadRequest> {
    let input = RunAgentInput::parse(body)?;
    let (thread_id, run_id) = (name("threadId", input.thread_id)?, name("runId", input.run_id)?);
    Ok(CallersName { thread_id, run_id })
}

/// A request that cannot be dispatched.
#[derive(Debug, thiserror::Error)]
enum BadRequest {
    #[error(transparent)]
    Input(#[from] BadInput),
    #[error(transparent)]
    Body(#[from] BadBody),
}

/// Reads a `RunAgentInput` as a dispatch; `usual` is the model of a client that
/// names none.
fn read(body: &[u8], usual: Option<&ModelConfig>) -> Result<Dispatch, BadRequest> {
    let input = RunAgentInput::parse(body)?;
    let mut props = Fields::of_value(PROPS, Value::Object(input.forwarded_props))?;
    let conversation = Conversation::read(input.messages, &input.context)?;
    let client_tools = client_tools(input.tools)?;
    let config = config(&mut props, &conversation, usual)?;
    let env = props.take("env")?.unwrap_or(Value::Null);
    let session_id = dispatch::session_id(&mut props, "session_id")?;
    let assignment = Assignment {
        prompt: String::new(),
        chat_id: None,
        thread_id: Some(name("threadId", input.thread_id)?),
        client_run_id: Some(name("runId", input.run_id)?),
        origin: dispatch::inline(&props, config, env)?,
        client_tools,
    };
    let mut dispatch = Dispatch::new(assignment, props)?;
    dispatch.prompt = match dispatch.harness {
        None | Some(Harness::Builtin) => conversation.ending.for_model(),
        Some(Harness::ClaudeCode | Harness::Codex | Harness::Opencode | Harness::GrokBuild) => {
            conversation.ending.for_program()
        }
    };
    dispatch.session_id = session_id.or(dispatch.session_id);
    Ok(dispatch)
}

fn name(field: &str, text: String) -> Result<String, BadBody> {
    if (1..=TEXT_LIMIT).contains(&text.len()) {
        return Ok(text);
    }
    let must = format!("must be 1 to {TEXT_LIMIT} bytes long");
    Err(BadBody::Wrong { field: field.to_owned(), must })
}

fn client_tools(tools: Vec<InputTool>) -> Result<Vec<GivenTool>, BadBody> {
    let given = tools.into_iter().enumerate().map(|(index, tool)| {
        let InputTool { name, description, parameters } = tool;
        let parameters = parameters.unwrap_or_else(HostTool::any_object);
        let tool = HostTool { name, description, parameters, deferred: true };
        GivenTool::of_client(&format!("tools[{index}]"), tool)
    });
    given.collect()
}

/// The configuration that the client gave, with its conversation and a model.
fn config(
    props: &mut Fields,
    conversation: &Conversation,
    usual: Option<&ModelConfig>,
) -> Result<Value, BadBody> {
    let mut config = match props.take("config")? {
        None => Map::new(),
        Some(Value::Object(config)) => config,
        Some(_) => return Err(props.wrong("config", "must be an object")),
    };
    if config.get("messages").is_some_and(|messages| !messages.is_null()) {
        return Err(props.wrong("config.messages", "is of no use beside `messages`"));
    }
    model::choose(props, &mut config, usual)?;
    let given = config.get("system_prompt").and_then(Value::as_str);
    // One that is no text is refused with the rest of the configuration.
    if given.is_some() || config.get("system_prompt").is_none_or(Value::is_null) {
        let system = conversation.system_prompt(given.unwrap_or_default());
        config.insert("system_prompt".to_owned(), system.into());
    }
    config.insert("messages".to_owned(), json!(conversation.messages));
    Ok(Value::Object(config))
}

#[cfg(test)]
mod tests;
