//! Executions of a former server: there is nobody to carry them on, so they are
//! ended, and with them the sessions that they may have open.

use store::{ExecutionRow, StoreError};

use super::{blocks::session_of, engine::End, journal};
use crate::{clock, state::Workspace};

impl Workspace {
    /// Ends the executions of a former server.
    pub(crate) async fn take_up_executions(&self) {
        let rows = match self.store.open_executions().await {
            Ok(rows) => rows,
            Err(err) => return tracing::error!("former executions could not be read: {err}"),
        };
        for row in rows {
            // One that was begun since this server started has its task.
            if self.executions.get(&row.id).is_some() {
                continue;
            }
            let id = &row.id;
            match self.end_former_execution(&row).await {
                Ok(()) => tracing::info!(execution.id = %id, "execution {id} was left open"),
                Err(err) => {
                    tracing::error!(execution.id = %id, "execution {id} could not be ended: {err}");
                }
            }
        }
    }

    async fn end_former_execution(&self, row: &ExecutionRow) -> Result<(), StoreError> {
        let blocks = row.workflow["blocks"].as_array().into_iter().flatten();
        for block in blocks.filter_map(|block| block["id"].as_str()) {
            self.store.settle_session(&session_of(&row.id, block), clock::now()).await?;
        }
        let last = self.store.last_event(row.id.as_str()).await?;
        let seq = last.map_or(0, |(seq, _)| seq) + 1;
        let end = End::server_restarted();
        let last_words = [journal::own(seq, end.line(&row.id))];
        self.store.finish_execution(&row.id, &end.booked(), &last_words).await?;
        Ok(())
    }
}
