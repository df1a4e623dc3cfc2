//! Which command a pid means.

use std::sync::Arc;

use http::StatusCode;
use http_kit::{Fault, Team};
use sandbox::Sandbox;
use wire::{Code, CommandInfo, CommandState};

use crate::Gateway;

/// A command and where it is.
pub(super) struct Place {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) info: CommandInfo,
}

impl Place {
    /// Looks in one sandbox, or in all of the team's. A running command is
    /// meant before one that has ended; two of a kind are ambiguous.
    pub(super) fn find(
        gateway: &Gateway,
        team: &Team,
        pid: u32,
        sandbox_id: Option<&str>,
    ) -> Result<Place, Fault> {
        let sandboxes = match sandbox_id {
            Some(id) => vec![gateway.owned(id, team)?],
            None => gateway.sandboxes.list(&team.0),
        };
        let (mut running, mut ended) = (Vec::new(), Vec::new());
        for sandbox in sandboxes {
            if let Some(info) = sandbox.commands().find(pid) {
                let place = Place { sandbox, info };
                match place.info.state {
                    CommandState::Running => running.push(place),
                    CommandState::Ok | CommandState::Error | CommandState::Killed => {
                        ended.push(place);
                    }
                }
            }
        }
        let mut meant = if running.is_empty() { ended } else { running };
        if meant.len() > 1 {
            return Err(ambiguous(pid, &meant));
        }
        meant.pop().ok_or_else(|| unknown(pid))
    }
}

/// A pid from the path.
pub(super) fn pid_of(text: &str) -> Result<u32, Fault> {
    text.parse()
        .map_err(|_| Fault::new(Code::InvalidArgument, format!("`{text}` is not a process id")))
}

pub(super) fn unknown(pid: u32) -> Fault {
    Fault::new(Code::NotFound, format!("process with pid {pid} not found"))
}

fn ambiguous(pid: u32, places: &[Place]) -> Fault {
    let ids: Vec<&str> = places.iter().map(|place| place.sandbox.id().as_str()).collect();
    let message = format!(
        "pid {pid} exists in {} sandboxes; add `?sandbox_id=` with one of {}",
        ids.len(),
        ids.join(", ")
    );
    Fault::new(Code::FailedPrecondition, message).with_status(StatusCode::CONFLICT)
}
