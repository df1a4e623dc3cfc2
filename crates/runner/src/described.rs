//! What the API document says of more than one route: how they refuse, and
//! values that have a fixed set of names.

use utoipa::{
    IntoResponses, ToSchema,
    openapi::{
        RefOr,
        schema::{Object, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type},
    },
};
use wire::{agent::Harness, run::ErrorCode};

/// The body of an answer that is no success.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `http_kit::Fault` writes")]
pub(crate) struct Fault {
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    code: u16,
    /// What was wrong.
    message: String,
}

/// A server-sent event of AG-UI.
#[derive(ToSchema)]
#[schema(example = json!({"id": "1", "data": "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}"}))]
#[expect(dead_code, reason = "it describes what `wire::agui::encode_sse` writes")]
pub(crate) struct ServerSentEvent {
    /// Its place, for `Last-Event-ID`.
    id: String,
    /// One AG-UI event as JSON.
    data: String,
}

/// How every route may refuse.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it describes answers that `http_kit::Fault` makes")]
pub(crate) enum Refused {
    /// No API key, or none that is known.
    #[response(status = 401)]
    Key(Fault),
    /// It failed inside; the server's log says why.
    #[response(status = 500)]
    Inside(Fault),
}

/// How routes that start a run may refuse, besides.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it describes answers that `http_kit::Fault` makes")]
pub(crate) enum NoStart {
    /// A field is wrong.
    #[response(status = 400)]
    Field(Fault),
    /// The body is too large.
    #[response(status = 413)]
    Large(Fault),
    /// There are too many sandboxes.
    #[response(status = 429)]
    Many(Fault),
    /// No sandbox can be started now.
    #[response(status = 503)]
    Now(Fault),
}

/// How routes of one run may refuse, besides.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it describes answers that `http_kit::Fault` makes")]
pub(crate) enum NoRun {
    /// There is no such run, or it is another team's.
    #[response(status = 404)]
    Unknown(Fault),
}

/// A file that a run left.
#[derive(ToSchema)]
#[schema(as = RunAsset, rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes `wire::run::UploadedFile`")]
pub(crate) struct Asset {
    /// Its name in addresses.
    id: String,
    /// The name it had.
    name: String,
    /// What the agent said that it holds.
    mime_type: String,
    /// How large it is, in bytes.
    size: u64,
    /// SHA-256 of its content, in hex.
    sha256: String,
    /// Where the runner keeps it.
    storage_key: String,
}

/// Where a run is.
pub(crate) fn state() -> Object {
    text_of(["starting", "running", "succeeded", "failed"], "Where the run is.")
}

/// What a hang-up means.
pub(crate) fn on_disconnect() -> Object {
    text_of(["cancel", "continue"], "What a hang-up of the caller means to the run.")
}

/// What runs the loop.
pub(crate) fn harness() -> Object {
    let names = Harness::ALL.map(Harness::name);
    text_of(names, "What runs the loop; `builtin` unless said.")
}

/// What happens to an action.
pub(crate) fn ruling() -> Object {
    text_of(["allow", "ask", "deny"], "What holds; `ask` unless said.")
}

/// Whether changes of files are told.
pub(crate) fn file_events() -> RefOr<Schema> {
    let switch = ObjectBuilder::new().schema_type(Type::Boolean);
    let diff = ObjectBuilder::new()
        .schema_type(Type::Boolean)
        .description(Some("Whether what changed in the file is told too."));
    let webhook = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("An address that hears of the changes beside the readers."));
    let more = ObjectBuilder::new().property("diff", diff).property("webhook", webhook);
    let description = "Whether changes of files are told as they happen; they are, unless said.";
    let either = OneOfBuilder::new().item(switch).item(more).description(Some(description));
    RefOr::T(Schema::OneOf(either.build()))
}

/// Why a run failed.
pub(crate) fn error_code() -> RefOr<Schema> {
    let names = ErrorCode::ALL.map(|code| Some(code.name())).into_iter().chain([None]);
    let description = "Why it failed; null while it runs, and after a result.";
    ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Null]))
        .enum_values(Some(names))
        .description(Some(description))
        .build()
        .into()
}

fn text_of<const N: usize>(names: [&'static str; N], description: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(names))
        .description(Some(description))
        .build()
}
