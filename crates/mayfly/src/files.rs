//! The files that a run left, fetched from the server that keeps them.

use std::path::Path;

use anyhow::Context;
use reqwest::Method;
use serde::Deserialize;
use tokio::io::AsyncWriteExt;

use crate::client::Server;
use crate::output;

/// What a run left, as the server lists it.
#[derive(Deserialize)]
struct Kept {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    id: String,
    name: String,
    size: u64,
}

/// Puts every file of the run into `directory` and says which.
pub(crate) async fn fetch(server: &Server, run: &str, directory: &Path) -> anyhow::Result<()> {
    let kept: Kept = server.get(&format!("/runs/{run}/assets")).await?;
    if kept.files.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for file in kept.files {
        // The name is the sandbox's: only its last part can be one of ours.
        let name = Path::new(&file.name).file_name().context("a file of the run has no name")?;
        let path = directory.join(name);
        let request = server.request(Method::GET, &format!("/runs/{run}/assets/{}", file.id));
        let mut answer = server.send(request).await?;
        let mut target = tokio::fs::File::create(&path)
            .await
            .with_context(|| format!("cannot write {}", path.display()))?;
        while let Some(chunk) = answer.chunk().await? {
            target.write_all(&chunk).await?;
        }
        target.flush().await?;
        output::print(&format!("{} ({} bytes)\n", path.display(), file.size))?;
    }
    Ok(())
}
