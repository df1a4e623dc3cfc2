//! Waits for every process that is ours to wait for: commands, and the orphans
//! that commands leave behind and that come back to us.

use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::Signal;

use crate::{exit::Exit, table::Table};

/// Reaps whoever ends. Never returns.
pub(crate) async fn reap(table: &Table, children: &mut Signal) {
    loop {
        // One signal may stand for many processes.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(exit) = Exit::of(status) {
                table.reaped(pid.as_raw_nonzero().get().unsigned_abs(), exit);
            }
        }
        if children.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
