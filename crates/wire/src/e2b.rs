//! E2B's control-plane messages, the part that is served. Unknown fields of
//! requests are ignored, as E2B's own server does: SDKs add some every month.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// Body of `POST /sandboxes` and `POST /v2/sandboxes`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSandbox {
    /// What to start from.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Seconds to live.
    pub timeout: Option<i64>,
    /// The caller's own labels.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Variables every command starts with.
    pub env_vars: Option<BTreeMap<String, String>>,
    /// Pause rather than die at the deadline.
    pub auto_pause: Option<bool>,
    /// Outgoing traffic.
    #[serde(rename = "allow_internet_access")]
    pub allow_internet_access: Option<bool>,
    /// Egress rules.
    pub network: Option<NetworkConfig>,
    /// MCP gateway configuration.
    pub mcp: Option<serde_json::Value>,
    /// Volumes to mount.
    pub volume_mounts: Option<Vec<serde_json::Value>>,
}

/// What a sandbox may reach, and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfig {
    /// Ranges of addresses that it reaches whatever is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_out: Option<Vec<String>>,
    /// Ranges of addresses that it does not reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_out: Option<Vec<String>>,
    /// Name servers for domains in `allow_out`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_servers: Option<serde_json::Value>,
    /// A proxy for all that goes out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_proxy: Option<serde_json::Value>,
    /// Changes to requests, by host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<serde_json::Value>,
    /// Whether its ports are open to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_public_traffic: Option<bool>,
    /// The `Host` that its ports see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_request_host: Option<serde_json::Value>,
    /// Ports that speak TLS themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https_ports: Option<serde_json::Value>,
}

/// Body of `PUT /sandboxes/{id}/network`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NetworkUpdate {
    /// The rules, in place of those before.
    #[serde(flatten)]
    pub network: NetworkConfig,
    /// Outgoing traffic.
    pub allow_internet_access: Option<bool>,
}

/// Body of `POST /…/connect`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Connect {
    /// Seconds the sandbox should live from now on, if that is longer.
    pub timeout: Option<i64>,
}

/// Body of `POST /sandboxes/{id}/timeout`.
#[derive(Clone, Debug, Deserialize)]
pub struct SetTimeout {
    /// Seconds from now.
    pub timeout: i64,
}

/// Body of `POST /sandboxes/{id}/refreshes`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Refresh {
    /// Seconds from now; only ever lengthens.
    pub duration: Option<i64>,
}

/// Answer of create and connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// What it was made from.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Its id.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Required by the SDKs' models; E2B calls it the node.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Version of the envd protocol.
    pub envd_version: String,
    /// The data plane's credential.
    pub envd_access_token: Option<String>,
    /// Credential for other ports.
    pub traffic_access_token: Option<String>,
    /// Domain for `<port>-<id>.<domain>` hosts.
    pub domain: Option<String>,
}

/// E2B knows two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// It runs.
    Running,
    /// It is paused.
    Paused,
}

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSandbox {
    /// What it was made from.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Its id.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// As in `Sandbox`.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it will end.
    pub end_at: DateTime<Utc>,
    /// Version of the envd protocol.
    pub envd_version: String,
    /// Processors.
    pub cpu_count: u32,
    /// Memory.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Running or paused.
    pub state: SandboxState,
    /// The caller's own labels.
    pub metadata: BTreeMap<String, String>,
}

/// Answer of `GET /sandboxes/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxDetail {
    /// What the list shows too.
    #[serde(flatten)]
    pub listed: ListedSandbox,
    /// The data plane's credential.
    pub envd_access_token: Option<String>,
    /// Domain for `<port>-<id>.<domain>` hosts.
    pub domain: Option<String>,
    /// Whether it has a way out.
    pub allow_internet_access: bool,
    /// The rules for it, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkConfig>,
}

/// Answer of `GET /sandboxes/{id}/logs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Logs {
    /// The lines as text.
    pub logs: Vec<LogLine>,
    /// The same with their fields.
    pub log_entries: Vec<LogEntry>,
    /// Whether older lines were dropped.
    pub truncated: bool,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When the server read it.
    pub timestamp: DateTime<Utc>,
    /// The text without its newline.
    pub line: String,
}

/// A line of the log with its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// When the server read it.
    pub timestamp: DateTime<Utc>,
    /// The text without its newline.
    pub message: String,
    /// `info` for stdout, `error` for stderr.
    pub level: String,
    /// `pid` and `stream`.
    pub fields: BTreeMap<String, String>,
}

/// Body of a failed REST call. JS SDKs read `code` from it, Python the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestError {
    /// The HTTP status.
    pub code: u16,
    /// What was wrong.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::NewSandbox;

    #[test]
    fn a_create_request_reads_as_the_sdks_write_it() {
        let body = r#"{"templateID":"base","timeout":300,"metadata":{},"envVars":{"A":"1"},
            "allow_internet_access":true,"autoPause":false,"secure":true}"#;
        let request: NewSandbox = serde_json::from_str(body).unwrap();
        assert_eq!(request.template_id, "base");
        assert_eq!(request.env_vars.unwrap()["A"], "1");
        assert_eq!(request.allow_internet_access, Some(true));
    }
}
