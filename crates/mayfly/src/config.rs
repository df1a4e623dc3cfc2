//! Settings: three layers merged into one, then checked.
//!
//! ```text
//! flags ──over──► MAYFLY_* variables ──over──► TOML file ──over──► defaults
//! ```
//!
//! The merge and the checks are pure; `read` alone looks at the world.

mod layer;
mod model;
mod network;
mod origin;
mod places;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::TimeDelta;
use isolate::{Privilege, Tier};
use runner::link::AddressPolicy;
use wire::Secret;
use wire::agent::ModelConfig;

use crate::cli::ServeArguments;
use crate::place::Place;

#[cfg(test)]
pub(crate) use layer::VARIABLES;
pub(crate) use layer::{Layer, LogFormat};
pub(crate) use network::{Chosen, Network, NetworkMode};
pub(crate) use origin::WebOrigin;
pub(crate) use places::{BlobsUrl, DatabaseUrl, HookUrl, ServerUrl};

/// The settings of a server, checked.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) tier: Tier,
    pub(crate) privilege: Privilege,
    pub(crate) network: Network,
    pub(crate) domain: Option<String>,
    pub(crate) envd: PathBuf,
    /// Without it there are sandboxes, but no runs.
    pub(crate) agent: Option<PathBuf>,
    pub(crate) keeper: PathBuf,
    pub(crate) jexec: Option<PathBuf>,
    pub(crate) max_sandboxes: u32,
    pub(crate) disk_mib: u32,
    pub(crate) pool: u32,
    pub(crate) max_runtime: Duration,
    pub(crate) keep_runs: TimeDelta,
    pub(crate) callbacks: AddressPolicy,
    /// Pages of these origins may call the server.
    pub(crate) cors_origins: Vec<WebOrigin>,
    /// Who is told of files that change in runs.
    pub(crate) file_hook: Option<HookUrl>,
    /// Without it clients of `/agui` that name no model get the scripted one.
    pub(crate) model: Option<ModelConfig>,
    /// Without it rows are in the data directory.
    pub(crate) database: Option<DatabaseUrl>,
    /// Without it files are in the data directory.
    pub(crate) blobs: Option<BlobsUrl>,
    /// Without it this server is where it listens.
    pub(crate) public_url: Option<ServerUrl>,
    /// Without it turns and agents run here.
    pub(crate) other_runner: Option<OtherRunner>,
    pub(crate) bag_url_ttl: Duration,
    pub(crate) listener_grace: Duration,
    pub(crate) access: Access,
    pub(crate) log_format: LogFormat,
}

/// A runner that is not this server.
#[derive(Debug)]
pub(crate) struct OtherRunner {
    pub(crate) url: ServerUrl,
    /// `SANDBOX_API_KEY`: our key there, if it asks for one.
    pub(crate) key: Option<Secret<String>>,
}

/// Keys that come from the environment and from nowhere else.
#[derive(Debug, Default)]
pub(crate) struct GivenKeys {
    /// `MAYFLY_API_KEY`: the first key of this server.
    pub(crate) own: Option<Secret<String>>,
    /// `SANDBOX_API_KEY`: our key at another runner.
    pub(crate) runner: Option<Secret<String>>,
    /// `MAYFLY_MODEL_API_KEY`: our key at the server's own model.
    pub(crate) model: Option<Secret<String>>,
}

/// Who may use the server.
#[derive(Debug)]
pub(crate) enum Access {
    /// Whoever has a key; the operator may have given the first one.
    Keys {
        /// `MAYFLY_API_KEY`.
        given: Option<Secret<String>>,
    },
    /// Everybody on this machine.
    Insecure,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration `{path}`")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the configuration `{path}` is wrong")]
    Malformed { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{variable} is not Unicode text")]
    NotText { variable: &'static str },
    #[error("{variable} is `{value}`: {reason}")]
    BadVariable { variable: &'static str, value: String, reason: String },
    #[error(
        "tier `process` has no walls, so it listens on loopback only, not on {0}; use --listen \
         127.0.0.1:{port}, and reach it from another machine with `ssh -L \
         {port}:127.0.0.1:{port}`",
        port = .0.port()
    )]
    ProcessTierInPublic(SocketAddr),
    #[error(
        "--insecure serves everybody who connects, so it listens on loopback only, not on {0}; \
         leave --insecure out, or use --listen 127.0.0.1:{port}",
        port = .0.port()
    )]
    InsecureInPublic(SocketAddr),
    #[error(
        "tier `{0}` needs root, to build walls; run as root, or use --tier native, which does with \
         less"
    )]
    WallsNeedRoot(Tier),
    #[error(
        "--network internet cannot be had with tier `{tier}`: {reason}; use --network none, or leave \
         it out"
    )]
    NoInternet { tier: Tier, reason: &'static str },
    #[error("`{0}` is not a domain: give a plain host name, without scheme, port or path")]
    BadDomain(String),
    #[error("there is no envd at `{0}`; build it with `cargo xtask build`, or name it with --envd")]
    NoEnvd(PathBuf),
    #[error(
        "there is no agent at `{0}`; build it with `cargo xtask build`, or leave --agent out to \
         take the one beside this program"
    )]
    NoAgent(PathBuf),
    #[error("there is no jexec at `{0}`; leave --jexec out to run without it")]
    NoJexec(PathBuf),
    #[error("{said} is of no use without {lacks}")]
    HalfAModel { said: &'static str, lacks: &'static str },
    #[error("cannot find out where this program lies, so name envd with --envd")]
    NoExecutable { source: std::io::Error },
}

/// What the checks may know of the world.
pub(crate) struct Surroundings<'a> {
    /// Directory of the running program.
    pub(crate) beside: &'a Path,
    /// Whether there is a file.
    pub(crate) exists: &'a dyn Fn(&Path) -> bool,
    /// What walls can be built with.
    pub(crate) privilege: Privilege,
}

/// Merges the flags with this process's environment and the file they name.
pub(crate) fn read(flags: Layer, config: Option<PathBuf>) -> Result<Layer, ConfigError> {
    let lookup = |variable: &str| env::var_os(variable);
    let environment = Layer::from_environment(&lookup)?;
    let path = config.or_else(|| set(env::var_os("MAYFLY_CONFIG")).map(PathBuf::from));
    let file = match path {
        None => Layer::default(),
        Some(path) => {
            let text = fs::read_to_string(&path)
                .map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
            Layer::from_toml(&text)
                .map_err(|source| ConfigError::Malformed { path, source: Box::new(source) })?
        }
    };
    Ok(flags.over(environment).over(file))
}

impl ServeConfig {
    /// Settings of `serve` from flags, environment and file, checked against
    /// this host.
    pub(crate) fn read(arguments: ServeArguments) -> Result<ServeConfig, ConfigError> {
        let settings = read(arguments.flags, arguments.config)?;
        let surroundings = Surroundings {
            beside: &beside_executable()?,
            exists: &Path::exists,
            privilege: Privilege::of_process(),
        };
        let given = GivenKeys {
            own: key("MAYFLY_API_KEY")?,
            runner: key("SANDBOX_API_KEY")?,
            model: key("MAYFLY_MODEL_API_KEY")?,
        };
        settings.resolve(given, &surroundings)
    }

    /// Where the rows are.
    pub(crate) fn place(&self) -> Place {
        Place { data: self.data.clone(), database: self.database.clone() }
    }
}

/// Directory of the running program.
pub(crate) fn beside_executable() -> Result<PathBuf, ConfigError> {
    let executable = env::current_exe().map_err(|source| ConfigError::NoExecutable { source })?;
    Ok(executable.parent().map(Path::to_owned).unwrap_or_default())
}

/// A key of the environment, if there is one.
fn key(variable: &'static str) -> Result<Option<Secret<String>>, ConfigError> {
    match set(env::var_os(variable)).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(key)) => Ok(Some(Secret::new(key))),
        Some(Err(_)) => Err(ConfigError::NotText { variable }),
    }
}

impl Layer {
    /// Where the data is.
    pub(crate) fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| PathBuf::from("./mayfly-data"))
    }

    /// Where envd is.
    pub(crate) fn envd(&self, beside: &Path) -> PathBuf {
        self.envd.clone().unwrap_or_else(|| beside.join("mayfly-envd"))
    }

    /// Fills in the defaults and refuses what cannot or must not be served.
    pub(crate) fn resolve(
        self,
        given: GivenKeys,
        surroundings: &Surroundings<'_>,
    ) -> Result<ServeConfig, ConfigError> {
        let exists = surroundings.exists;
        let listen = self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 3000)));
        let tier = self.tier.unwrap_or(Tier::Native);
        match (tier, surroundings.privilege) {
            (Tier::Gvisor | Tier::Runc, Privilege::User) => {
                return Err(ConfigError::WallsNeedRoot(tier));
            }
            (Tier::Process | Tier::Native, Privilege::User) | (_, Privilege::Root) => {}
        }
        let access = match self.insecure {
            // The flag is explicit, so it wins over a key left in the environment.
            Some(true) => Access::Insecure,
            Some(false) | None => Access::Keys { given: given.own },
        };
        refuse_in_public(listen, tier, &access)?;
        let said = network::Said {
            mode: self.network,
            dns: self.dns.clone(),
            open: self.egress_open.clone(),
        };
        let network = Network::decide(tier, said, surroundings)?;
        if let Some(domain) = self.domain.as_ref().filter(|domain| !is_host_name(domain)) {
            return Err(ConfigError::BadDomain(domain.clone()));
        }
        let envd = self.envd(surroundings.beside);
        if !exists(&envd) {
            return Err(ConfigError::NoEnvd(envd));
        }
        let agent = match self.agent.clone() {
            Some(path) if !exists(&path) => return Err(ConfigError::NoAgent(path)),
            Some(path) => Some(path),
            None => Some(surroundings.beside.join("mayfly-agent")).filter(|path| exists(path)),
        };
        let jexec = match self.jexec.clone() {
            Some(path) if !exists(&path) => return Err(ConfigError::NoJexec(path)),
            Some(path) => Some(path),
            None => Some(PathBuf::from("/usr/sbin/jexec")).filter(|path| exists(path)),
        };
        let model = model::Said {
            provider: self.model_provider,
            name: self.model_name.clone(),
            base_url: self.model_base_url.clone(),
            key: given.model,
        };
        let model = model.decide()?;
        Ok(ServeConfig {
            listen,
            tier,
            privilege: surroundings.privilege,
            network,
            access,
            envd,
            agent,
            keeper: surroundings.beside.join("mayfly-keeper"),
            jexec,
            data: self.data(),
            domain: self.domain,
            max_sandboxes: self.max_sandboxes.map_or(200, |limit| limit.get()),
            disk_mib: self.disk_mib.unwrap_or(5120),
            pool: self.pool.unwrap_or(0),
            max_runtime: Duration::from_secs(
                self.max_runtime_sec.map_or(28_800, |seconds| u64::from(seconds.get())),
            ),
            keep_runs: TimeDelta::days(i64::from(self.keep_runs_days.unwrap_or(7))),
            callbacks: AddressPolicy::new(self.callback_allow.unwrap_or_default()),
            cors_origins: self.cors_origin.unwrap_or_default(),
            file_hook: self.file_hook_url,
            model,
            database: self.database,
            blobs: self.blobs,
            public_url: self.public_url,
            other_runner: self.sandbox_url.map(|url| OtherRunner { url, key: given.runner }),
            bag_url_ttl: Duration::from_secs(
                self.bag_url_ttl_sec.map_or(300, |seconds| u64::from(seconds.get())),
            ),
            listener_grace: Duration::from_secs(u64::from(self.listener_grace_sec.unwrap_or(10))),
            log_format: self.log_format.unwrap_or(LogFormat::Text),
        })
    }
}

fn refuse_in_public(listen: SocketAddr, tier: Tier, access: &Access) -> Result<(), ConfigError> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    match access {
        Access::Insecure => return Err(ConfigError::InsecureInPublic(listen)),
        Access::Keys { .. } => {}
    }
    if tier.has_walls() { Ok(()) } else { Err(ConfigError::ProcessTierInPublic(listen)) }
}

/// Labels of letters, digits and inner hyphens: what may follow `<port>-<id>.`.
fn is_host_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    text.len() <= 200
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(plain)
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

/// A variable that is set to nothing counts as not set, as compose files do it.
fn set(value: Option<OsString>) -> Option<OsString> {
    value.filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
