//! The first words with a CLI: hello, and the session that the turn belongs to.

use serde_json::{Value, json};
use wire::run::ErrorCode;

use super::line::{Broken, Line};
use super::{Manner, servers};
use crate::failure::Failure;
use crate::harness::job::{Job, Server};

/// Says hello and opens the session; its id.
pub(super) async fn open(
    job: &Job<'_>,
    line: &mut Line,
    servers: &[Server],
    manner: &Manner,
) -> Result<String, Broken> {
    let able = line.settle("initialize", &hello()).await?;
    let able = able.map_err(|refusal| line.refused("initialize", &refusal))?;
    let offered = &able["agentCapabilities"];
    let servers = servers::offered(servers, &offered["mcpCapabilities"], job.out);
    let mut params = json!({"cwd": job.session.workspace_dir, "mcpServers": servers});
    if !manner.meta.is_empty() {
        params["_meta"] = Value::Object(manner.meta.clone());
    }
    let Some(id) = &job.resume else {
        let opened = line.settle("session/new", &params).await?;
        let opened = opened.map_err(|refusal| line.refused("session/new", &refusal))?;
        let id = opened["sessionId"].as_str().map(str::to_owned);
        return id.ok_or_else(|| line.failed("opened a session without an id").into());
    };
    params["sessionId"] = Value::from(id.as_str());
    // The one does not tell again what was said before, the other does.
    let resumes = offered["sessionCapabilities"]["resume"].is_object();
    let method = if resumes { "session/resume" } else { "session/load" };
    if let Err(refusal) = line.settle(method, &params).await? {
        let message = format!("session `{id}` cannot go on: {}", refusal.words);
        return Err(Failure::new(ErrorCode::BadRequest, message).into());
    }
    if let Some(model) = manner.model {
        let params = json!({"sessionId": id, "modelId": model});
        let set = line.settle("session/set_model", &params).await?;
        set.map_err(|refusal| line.refused("session/set_model", &refusal))?;
    }
    Ok(id.clone())
}

/// We have neither files nor terminals to offer.
fn hello() -> Value {
    json!({
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": false, "writeTextFile": false},
            "terminal": false,
        },
        "clientInfo": {"name": "mayfly", "version": env!("CARGO_PKG_VERSION")},
    })
}
