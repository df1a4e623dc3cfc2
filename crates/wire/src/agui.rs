//! AG-UI 1.0: a run as the events that chat front ends read, and the request
//! with which they start one.
//!
//! ```text
//! RunEvent ──► AguiProjector ──► AguiEvent ──► SSE | NDJSON | protobuf
//! RunAgentInput ◄── the body of a front end's request
//! ```
//!
//! The types are our own (`docs/decisions/0014-own-agui-types.md`) and have what
//! we emit. What `@ag-ui/client` refuses cannot be said with them or is held by
//! the `AguiChecker`: nothing before the start or after the end, nothing left
//! open, integers that JavaScript can hold, metadata that is never null. Which
//! surface speaks which form is in the runner.

mod calls;
mod checker;
mod encode;
mod event;
mod input;
mod position;
mod projector;
mod proto;
mod speech;
mod surrogates;
#[cfg(test)]
mod tests;

pub use checker::{AguiChecker, Thing, Violation};
pub use encode::{NDJSON_TYPE, PROTO_TYPE, SSE_TYPE, encode_ndjson, encode_proto, encode_sse};
pub use event::{AguiEvent, AguiKind, AguiRole, AguiUsage, RunOutcome};
pub use input::{BadInput, InputCall, InputContext, InputMessage, InputTool, RunAgentInput};
pub use position::{BadPosition, Position};
pub use projector::AguiProjector;
