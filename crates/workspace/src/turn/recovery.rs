//! Turns of a former server: taken up again if they are to continue and can,
//! ended if not. No turn is left without its terminating event.

use std::{collections::HashMap, sync::Arc};

use store::{OnDisconnect, StoreError, TurnRow};
use wire::run::{ErrorCode, Progress, StepId};

use super::{
    book::Book,
    driver::{Beginning, Driver},
    event::{Ending, TurnEvent},
    processor::Processor,
};
use crate::state::Workspace;

/// Events that are read at once.
const PAGE: u32 = 200;

impl Workspace {
    /// Takes up the turns of a former server. For when this one serves: runs are
    /// followed over HTTP, and the runner may be this server's own.
    pub(crate) async fn take_up_turns(&self) {
        let rows = match self.store.open_turns().await {
            Ok(rows) => rows,
            Err(err) => return tracing::error!("former turns could not be read: {err}"),
        };
        for row in rows {
            let id = row.id.clone();
            // One that was begun since this server started has its driver.
            if self.turns.get(&id).is_some() {
                continue;
            }
            if let Err(err) = self.take_up_turn(row).await {
                tracing::error!(turn.id = %id, "turn {id} could not be taken up: {err}");
            }
        }
    }

    async fn take_up_turn(&self, row: TurnRow) -> Result<(), StoreError> {
        let id = row.id.clone();
        let run = match (row.on_disconnect, &row.run_id) {
            (OnDisconnect::Continue, Some(run_id)) => Some(run_id.clone()),
            (OnDisconnect::Continue, None) | (OnDisconnect::Cancel, _) => None,
        };
        let live = self.turns.enroll(&id, &row.chat_id);
        let mut book = Book::new(self, row, Arc::clone(&live));
        let (seq, steps) = match self.recall(&mut book).await {
            Ok(recalled) => recalled,
            Err(err) => {
                self.turns.strike(&id);
                return Err(err);
            }
        };
        let driver = Driver::new(self.clone(), live, book);
        match run {
            Some(run_id) => {
                tracing::info!(turn.id = %id, run.id = run_id, "turn {id} is taken up again");
                let processor = Processor::resumed(seq, steps);
                self.tasks.spawn(driver.drive(Beginning::Rejoin { run_id, processor }));
            }
            None => {
                let ending = Ending::Failed {
                    code: ErrorCode::SandboxLost.name().to_owned(),
                    message: "the server was restarted while the turn ran".to_owned(),
                };
                self.tasks.spawn(async move { driver.give_up(&ending).await });
            }
        }
        Ok(())
    }

    /// Reads the turn's events into its book; gives the last number of the
    /// runner's, and the names of the steps that run.
    async fn recall(&self, book: &mut Book) -> Result<(u64, HashMap<StepId, String>), StoreError> {
        let stream = book.row().id.to_string();
        let (mut after, mut upstream, mut steps) = (0, 0, HashMap::new());
        loop {
            let events = self.store.events_after(&stream, after, PAGE).await?;
            let Some(last) = events.last() else { return Ok((upstream, steps)) };
            after = last.seq;
            for event in &events {
                upstream = event.upstream.map_or(upstream, |number| upstream.max(number));
                if let Some(TurnEvent::Step(step)) = book.recall(event) {
                    match step.progress {
                        Progress::Running { .. } => steps.insert(step.id, step.name),
                        Progress::Succeeded { .. } | Progress::Failed { .. } => {
                            steps.remove(&step.id)
                        }
                    };
                }
            }
        }
    }
}
