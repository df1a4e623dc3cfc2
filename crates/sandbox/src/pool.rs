//! Sandboxes made ahead of time: walls up, envd answering, nothing told yet.
//!
//! What a claim decides (environment, deadline, network, owner) is applied at the
//! claim; the network only if it is not the one that all get.
//! A blank is handed out once and never comes back.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use chrono::{TimeDelta, Utc};
use hyper::body::Incoming;
use isolate::{Instance, Network, Root};
use wire::SandboxId;

use crate::{
    CreateError, Envd,
    driver::keeper_deadline,
    making::{Ground, TEMPLATE, discard},
    registry::Shared,
};

/// How long a blank may wait for its claim. Its keeper ends it then.
const SHELF_LIFE: TimeDelta = TimeDelta::days(1);

/// A sandbox that nobody owns yet.
pub(crate) struct Blank {
    pub(crate) id: SandboxId,
    pub(crate) root: Root,
    /// What it reaches until somebody wishes otherwise.
    pub(crate) network: Network,
    pub(crate) instance: Arc<dyn Instance>,
    pub(crate) envd: Envd,
    pub(crate) control: Incoming,
}

/// Blanks of the default template.
pub(crate) struct Pool {
    size: usize,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    ready: VecDeque<Blank>,
    /// Being made right now.
    coming: usize,
}

impl Pool {
    pub(crate) fn new(size: usize) -> Pool {
        Pool { size, shelf: Mutex::default() }
    }

    /// How many wait.
    pub(crate) fn ready(&self) -> usize {
        self.shelf.lock().map_or(0, |shelf| shelf.ready.len())
    }
}

impl Shared {
    /// A blank with exactly this file tree, if one waits. Another takes its place.
    pub(crate) fn take_blank(self: &Arc<Shared>, root: &Root) -> Option<Blank> {
        let mut shelf = self.pool.shelf.lock().ok()?;
        let at = shelf.ready.iter().position(|blank| blank.root == *root)?;
        let blank = shelf.ready.remove(at);
        drop(shelf);
        self.fill_pool();
        blank
    }

    /// Makes as many blanks as are missing, one after the other: they must not
    /// crowd out somebody who waits for a sandbox now.
    pub(crate) fn fill_pool(self: &Arc<Shared>) {
        let Ok(mut shelf) = self.pool.shelf.lock() else { return };
        if shelf.coming > 0 || shelf.ready.len() >= self.pool.size {
            return;
        }
        shelf.coming = 1;
        drop(shelf);
        let shared = Arc::clone(self);
        self.office.tasks.spawn(async move { shared.fill().await });
    }

    async fn fill(self: Arc<Shared>) {
        loop {
            let made = self.make_blank().await;
            let Ok(mut shelf) = self.pool.shelf.lock() else { return };
            let full = match made {
                Ok(blank) => {
                    shelf.ready.push_back(blank);
                    shelf.ready.len() >= self.pool.size
                }
                Err(err) => {
                    // The next claim tries again; until then there is no pool.
                    tracing::error!("no sandbox could be made ahead of time: {err}");
                    true
                }
            };
            if full || self.room.is_closed() {
                shelf.coming = 0;
                return;
            }
        }
    }

    async fn make_blank(&self) -> Result<Blank, CreateError> {
        let Ground { root, limits, .. } = self.ground(TEMPLATE)?;
        let deadline = keeper_deadline(Utc::now() + SHELF_LIFE);
        self.build(root, limits, self.default_network(), deadline).await
    }

    /// Takes down all that wait. Nothing may be made any more by now.
    pub(crate) async fn empty_pool(&self) {
        let ready = match self.pool.shelf.lock() {
            Ok(mut shelf) => std::mem::take(&mut shelf.ready),
            Err(_) => VecDeque::new(),
        };
        for blank in ready {
            discard(&blank.id, blank.instance.as_ref()).await;
        }
    }
}
