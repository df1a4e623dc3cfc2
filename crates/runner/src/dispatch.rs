//! What a caller dispatches, checked before anything is started. A mistake is
//! told by the name of its field.
//!
//! Fields nobody knows are passed over, since callers send more than a runner
//! needs. Inside the objects that set limits and rules they are refused: to
//! ignore them would look like consent.

mod harness;
mod origin;
mod policy;
mod shape;
mod tools;

use http::Uri;
use serde_json::Value;
use store::OnDisconnect;
use wire::agent::{CodeMode, FileEvents, Harness, Policy};

use crate::fields::{BadBody, Fields};
use crate::names::CallersName;

pub(crate) use harness::session_id;
pub(crate) use origin::{Origin, inline};
pub(crate) use shape::{DispatchBody, DispatchLimits, DispatchPolicy, DispatchTool};
pub(crate) use tools::{Executor, GivenTool};

/// Longest prompt.
pub(crate) const PROMPT_LIMIT: usize = 1 << 20;
/// Largest inline config, and environment.
const CONFIG_LIMIT: usize = 8 << 20;
/// Largest body: a config, an environment, a prompt, and the rest.
pub(crate) const BODY_LIMIT: usize = 2 * CONFIG_LIMIT + 2 * PROMPT_LIMIT;
/// Longest of everything else that is text.
pub(crate) const TEXT_LIMIT: usize = 4096;
/// What a sandbox of our own loop is made from, when the caller says nothing.
pub(crate) const TEMPLATE: &str = "base";

/// A dispatch that may be started.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) prompt: String,
    pub(crate) chat_id: Option<String>,
    /// The conversation, by the caller's name for it.
    pub(crate) thread_id: Option<String>,
    /// The caller's own name for the run.
    pub(crate) client_run_id: Option<String>,
    pub(crate) origin: Origin,
    /// What runs the loop, if the dispatch says so; a workspace may say it later.
    pub(crate) harness: Option<Harness>,
    /// The harness's own session that goes on.
    pub(crate) session_id: Option<String>,
    pub(crate) template: String,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) file_events: FileEvents,
    /// Who hears of files beside the readers of the log.
    pub(crate) file_hook: Option<String>,
    pub(crate) tools: Vec<GivenTool>,
    pub(crate) policy: Option<Policy>,
    pub(crate) code_mode: CodeMode,
    pub(crate) limits: Limits,
}

/// What is to be done, apart from how.
pub(crate) struct Assignment {
    pub(crate) prompt: String,
    pub(crate) chat_id: Option<String>,
    pub(crate) thread_id: Option<String>,
    pub(crate) client_run_id: Option<String>,
    pub(crate) origin: Origin,
    /// Tools that the client executes; those of servers are among the fields.
    pub(crate) client_tools: Vec<GivenTool>,
}

/// What the caller allows the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_runtime_sec: Option<u64>,
    pub(crate) model_timeout_sec: Option<u64>,
    pub(crate) tokens: Option<u64>,
}

impl Dispatch {
    /// Reads the body of `POST /stream`, or says which field is wrong.
    pub(crate) fn parse(body: &[u8]) -> Result<Dispatch, BadBody> {
        let mut fields = Fields::of_body(body)?;
        let prompt =
            fields.text("prompt", PROMPT_LIMIT)?.ok_or_else(|| fields.missing("prompt"))?;
        let chat_id = fields.text("chat_id", TEXT_LIMIT)?;
        let assignment = Assignment {
            prompt,
            thread_id: chat_id.clone(),
            chat_id,
            client_run_id: None,
            origin: origin::take(&mut fields)?,
            client_tools: Vec::new(),
        };
        Dispatch::new(assignment, fields)
    }

    /// What the caller calls the run, if it has a name for it.
    pub(crate) fn callers_name(&self) -> Option<CallersName> {
        let (thread_id, run_id) = (self.thread_id.clone()?, self.client_run_id.clone()?);
        Some(CallersName { thread_id, run_id })
    }

    /// An assignment, done as the fields say.
    pub(crate) fn new(assignment: Assignment, mut fields: Fields) -> Result<Dispatch, BadBody> {
        let Assignment { prompt, chat_id, thread_id, client_run_id, origin, client_tools } =
            assignment;
        let harness = harness::take(&mut fields, &origin)?;
        let template = match fields.text("template", TEXT_LIMIT)? {
            Some(template) => template,
            None => harness::template(harness).to_owned(),
        };
        let on_disconnect = match fields.text("on_disconnect", TEXT_LIMIT)? {
            None => OnDisconnect::Cancel,
            Some(name) => OnDisconnect::parse(&name)
                .ok_or_else(|| fields.wrong("on_disconnect", "must be `cancel` or `continue`"))?,
        };
        let (file_events, file_hook) = file_events(&mut fields)?;
        let mut tools = GivenTool::take_all(&mut fields)?;
        tools.extend(client_tools);
        tools::check_names("tools", &tools)?;
        let code_mode = match fields.take("code_mode")? {
            None | Some(Value::Bool(false)) => CodeMode::Off,
            Some(Value::Bool(true)) => CodeMode::On,
            Some(_) => return Err(fields.wrong("code_mode", "must be true or false")),
        };
        Ok(Dispatch {
            session_id: harness::session(&mut fields, &origin)?,
            policy: policy::take(&mut fields)?,
            limits: limits(fields.inside("limits")?)?,
            prompt,
            chat_id,
            thread_id,
            client_run_id,
            origin,
            harness,
            template,
            on_disconnect,
            file_events,
            file_hook,
            tools,
            code_mode,
        })
    }

    /// Every address that is called for the run whatever its agent does, by the
    /// name of its field.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let workspace = match &self.origin {
            Origin::Callbacks { agent_url, .. } => Some(("agent_url", agent_url.as_str())),
            Origin::Inline { .. } => None,
        };
        let hook = self.file_hook.as_deref().map(|url| ("file_events.webhook", url));
        let tools = self.tools.iter().filter_map(|given| match &given.executor {
            Executor::Http { url, .. } => Some(("tools", url.as_str())),
            Executor::Client => None,
        });
        workspace.into_iter().chain(hook).chain(tools)
    }
}

fn file_events(fields: &mut Fields) -> Result<(FileEvents, Option<String>), BadBody> {
    let given = match fields.take("file_events")? {
        None | Some(Value::Bool(true)) => return Ok((FileEvents::On, None)),
        Some(Value::Bool(false)) => return Ok((FileEvents::Off, None)),
        Some(given @ Value::Object(_)) => given,
        Some(_) => {
            let must = "must be true, false, or an object with `diff` and `webhook`";
            return Err(fields.wrong("file_events", must));
        }
    };
    let mut fields = Fields::of_value(&fields.named("file_events"), given)?;
    let events = match fields.take("diff")? {
        None | Some(Value::Bool(false)) => FileEvents::On,
        Some(Value::Bool(true)) => FileEvents::Diff,
        Some(_) => return Err(fields.wrong("diff", "must be true or false")),
    };
    let webhook = match fields.text("webhook", TEXT_LIMIT)? {
        None => None,
        Some(url) => match hook(&url) {
            None => return Err(fields.wrong("webhook", "must be an absolute http(s) address")),
            url => url,
        },
    };
    fields.nothing_else()?;
    Ok((events, webhook))
}

fn limits(mut fields: Fields) -> Result<Limits, BadBody> {
    let limits = Limits {
        max_runtime_sec: fields.count("max_runtime_sec")?,
        model_timeout_sec: fields.count("model_timeout_sec")?,
        tokens: fields.count("tokens")?,
    };
    // A limit that is not kept is worse than none.
    fields.nothing_else()?;
    Ok(limits)
}

/// An absolute address that paths can be put behind.
fn address(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let address = hook(text).filter(|_| uri.query().is_none())?;
    Some(address.trim_end_matches('/').to_owned())
}

/// An absolute address that is called as it is.
fn hook(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority()?.as_str();
    let plain = !authority.contains('@') && !text.contains('#');
    let named = uri.host().is_some_and(|host| !host.is_empty());
    (known && plain && named).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
