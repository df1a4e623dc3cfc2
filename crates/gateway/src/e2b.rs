//! E2B's control plane, as its SDKs speak it.

mod create;
mod life;
mod list;
mod logs;
mod network;

use sandbox::Sandbox;
use wire::{ListedSandbox, SandboxState};

use crate::Gateway;

pub(crate) use create::{create, create_v1, create_v2};
pub(crate) use life::{connect, info, kill, refresh, set_timeout};
pub(crate) use list::{list, list_running};
pub(crate) use logs::logs;
pub(crate) use network::update as update_network;

/// The envd protocol we speak. SDKs switch features on by it.
const ENVD_VERSION: &str = "0.6.13";
/// What a sandbox is made from when nobody says.
pub(crate) const DEFAULT_TEMPLATE: &str = "base";
/// A required field of E2B's models that names the node; there is one.
const CLIENT_ID: &str = "mayfly";

impl Gateway {
    /// What create and connect answer.
    fn describe(&self, sandbox: &Sandbox) -> wire::Sandbox {
        wire::Sandbox {
            template_id: sandbox.template().to_owned(),
            sandbox_id: sandbox.id().to_string(),
            client_id: CLIENT_ID.to_owned(),
            envd_version: ENVD_VERSION.to_owned(),
            envd_access_token: Some(self.tokens.issue(sandbox.id())),
            traffic_access_token: None,
            domain: self.domain(),
        }
    }

    /// A line of the list.
    fn summarize(&self, sandbox: &Sandbox) -> ListedSandbox {
        let resources = self.sandboxes.resources(sandbox.template());
        ListedSandbox {
            template_id: sandbox.template().to_owned(),
            sandbox_id: sandbox.id().to_string(),
            client_id: CLIENT_ID.to_owned(),
            started_at: sandbox.started_at(),
            end_at: sandbox.deadline(),
            envd_version: ENVD_VERSION.to_owned(),
            cpu_count: resources.cpus,
            memory_mb: resources.memory_mib,
            disk_size_mb: resources.disk_mib,
            state: SandboxState::Running,
            metadata: sandbox.metadata().clone(),
        }
    }
}
