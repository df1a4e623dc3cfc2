//! The bag: the files that come with a dispatch, unpacked into the workspace.

use std::path::Path;

use wire::agent::{AgentLimits, AssetsRef};
use wire::run::{ErrorCode, Level};

use super::Home;
use super::download::{DownloadError, download};
use crate::emit::Emitter;
use crate::failure::{Failure, with_cause};
use crate::unpack::unpack;

/// Fetches and unpacks the bag.
pub(super) async fn fetch(
    assets: &AssetsRef,
    workspace_dir: &Path,
    home: &Home,
    limits: &AgentLimits,
    out: &Emitter,
) -> Result<(), Failure> {
    let kept = home.directory("bag").map_err(|err| {
        Failure::new(ErrorCode::BootstrapFailed, format!("cannot keep the bag: {err}"))
    })?;
    let bag = download(&assets.url, &kept, limits.bag_bytes, limits).await.map_err(|err| {
        // A bag that is too large is refused as it is; the rest never came.
        let code = match err {
            DownloadError::TooLarge(_) => ErrorCode::AssetsRejected,
            DownloadError::Status(_)
            | DownloadError::Http(_)
            | DownloadError::BadUrl(_)
            | DownloadError::Write(_) => ErrorCode::BootstrapFailed,
        };
        Failure::new(code, format!("GET /assets: {err}"))
    })?;
    let unpacked = unpack(&bag.file, workspace_dir, limits.bag_bytes).map_err(|err| {
        let message = format!("the bag was refused: {}", with_cause(&err));
        Failure::new(ErrorCode::AssetsRejected, message)
    })?;
    let (files, bytes) = (unpacked.files, unpacked.bytes);
    out.log(Level::Info, format!("unpacked the bag: {files} files, {bytes} bytes"));
    Ok(())
}
