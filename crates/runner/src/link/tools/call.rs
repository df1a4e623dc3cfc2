//! One call of a tool: a step of the run from its start to its end, whatever
//! that end is.

use std::time::Instant;

use serde_json::Value;
use tokio::sync::{
    mpsc::{self, OwnedPermit},
    oneshot,
};
use wire::run::{Outcome, StepId};

use crate::link::{
    refusal::Refusal,
    upstreams::{Booked, Note, Upstreams},
};

use super::{
    given::{Place, Tool},
    http::{self, Call},
};

/// A call whose start was told. Dropped before its end, because whoever waited
/// hung up, it ends as interrupted.
struct Open {
    id: StepId,
    began: Instant,
    /// A place in the channel: telling the end never waits and never fails.
    end: Option<OwnedPermit<Note>>,
}

/// Calls the tool; whoever asks has a place for it. `line` is how much the agent
/// had said before. The outcome is in the log before it is returned.
pub(super) async fn run(
    upstreams: &Upstreams,
    tool: &Tool,
    arguments: Value,
    line: Option<u64>,
    notes: mpsc::Sender<Note>,
) -> Result<Outcome, Refusal> {
    let bridge = &upstreams.bridge;
    let end = notes.clone().reserve_owned().await.map_err(|_| Refusal::Ending)?;
    let start = notes.reserve().await.map_err(|_| Refusal::Ending)?;
    let id = bridge.next_step().ok_or(Refusal::Ending)?;
    let call = match &tool.place {
        Place::Client => None,
        Place::Http { url, headers, timeout_ms } => Some(Call {
            terms: &upstreams.terms,
            name: tool.name(),
            // Written before the log has the arguments: one copy of them is enough.
            document: http::document(tool.name(), &arguments, upstreams.run.as_ref(), &id),
            url,
            headers,
            timeout_ms: timeout_ms.unwrap_or(upstreams.terms.limits.tool_timeout_ms),
            notes: &notes,
        }),
    };
    // Nothing is awaited in between, so no start is without its end.
    let began = Instant::now();
    let name = tool.name().to_owned();
    let (booked, booking) = oneshot::channel();
    let (id_told, booked) = (id.clone(), Booked(Some(booked)));
    start.send(Note::ToolStarted { id: id_told, name, args: arguments, at: began, line, booked });
    let open = Open { id, began, end: Some(end) };
    // What a tool does has its step in the log, whenever this server is killed.
    booking.await.map_err(|_| Refusal::Ending)?;
    let outcome = match call {
        None => Outcome::Deferred,
        Some(call) => http::execute(call).await,
    };
    open.end(outcome.clone()).await;
    Ok(outcome)
}

impl Open {
    /// Ends it. What the agent says when it knows comes after that in the log.
    async fn end(mut self, outcome: Outcome) {
        let (booked, booking) = oneshot::channel();
        self.tell(outcome, Booked(Some(booked)));
        // The sender is dropped when it is done, or when nobody books any more.
        let _ = booking.await;
    }

    fn tell(&mut self, outcome: Outcome, booked: Booked) {
        let Some(end) = self.end.take() else { return };
        let duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        end.send(Note::ToolEnded { id: self.id.clone(), outcome, duration_ms, booked });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let outcome = Outcome::Failed { error: "interrupted".to_owned(), result: None };
        self.tell(outcome, Booked::default());
    }
}
