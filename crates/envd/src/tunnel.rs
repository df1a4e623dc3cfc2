//! Connections that come through standard input and output, where the host can
//! hand in no socket. Standard input stays the leash: its end is our end.
//!
//! The host finishes a session before it takes a checkpoint. What is restored
//! later finds other pipes in the same places and begins the next session.

use std::rc::Rc;

use tokio::net::unix::pipe::{Receiver, Sender};
use tunnel::Parting;

use crate::{daemon::Daemon, server};

/// Serves every connection until the host is gone.
pub(crate) async fn serve(daemon: &Rc<Daemon>, mut input: Receiver, mut output: Sender) {
    let (accepted, mut connections) = tunnel::accepting();
    let sessions = async {
        loop {
            match tunnel::accept_side(&mut input, &mut output, &accepted).await {
                Parting::Finished => {}
                Parting::Gone | Parting::Failed(_) => return,
            }
        }
    };
    let serving = async {
        while let Some(stream) = connections.recv().await {
            daemon.tasks.spawn_local(server::connection(Rc::clone(daemon), stream));
        }
    };
    tokio::select! {
        () = sessions => {}
        () = serving => {}
    }
}
