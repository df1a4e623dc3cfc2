//! One layer of settings, and where layers come from.
//!
//! The struct is the only list of settings: a field is a flag to clap and a
//! key of the TOML file to serde. A new field does not compile until it is
//! read from the environment and merged below.

use std::ffi::OsString;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use isolate::{Cidr, Tier};
use runner::link::AddressRange;
use serde::{Deserialize, Deserializer};
use wire::agent::Provider;

use super::model::{parse_provider, provider_parser};
use super::origin::WebOrigin;
use super::places::{BlobsUrl, DatabaseUrl, HookUrl, ServerUrl, from_text};
use super::{ConfigError, NetworkMode, set};

/// The variables the layer of the environment is read from.
#[cfg(test)]
pub(crate) const VARIABLES: [&str; 29] = [
    "MAYFLY_LISTEN",
    "MAYFLY_DATA",
    "MAYFLY_TIER",
    "MAYFLY_NETWORK",
    "MAYFLY_DNS",
    "MAYFLY_EGRESS_OPEN",
    "MAYFLY_DOMAIN",
    "MAYFLY_ENVD",
    "MAYFLY_AGENT",
    "MAYFLY_JEXEC",
    "MAYFLY_MAX_SANDBOXES",
    "MAYFLY_DISK_MIB",
    "MAYFLY_POOL",
    "ASSISTANT_SANDBOX_MAX_RUNTIME_SEC",
    "MAYFLY_KEEP_RUNS_DAYS",
    "MAYFLY_CALLBACK_ALLOW",
    "MAYFLY_CORS_ORIGIN",
    "MAYFLY_FILE_HOOK_URL",
    "MAYFLY_MODEL_PROVIDER",
    "MAYFLY_MODEL_NAME",
    "MAYFLY_MODEL_BASE_URL",
    "MAYFLY_DATABASE",
    "MAYFLY_BLOBS",
    "MAYFLY_PUBLIC_URL",
    "SANDBOX_URL",
    "CHAT_BAG_ZIP_URL_TTL_SECONDS",
    "MAYFLY_LISTENER_GRACE_SEC",
    "MAYFLY_INSECURE",
    "MAYFLY_LOG_FORMAT",
];

/// Settings from one source; what it does not say is `None`.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Layer {
    /// Address to listen on [env: MAYFLY_LISTEN] [default: 127.0.0.1:3000]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    #[serde(deserialize_with = "address")]
    pub(crate) listen: Option<SocketAddr>,

    /// Directory for the database and the sandboxes, made when missing
    /// [env: MAYFLY_DATA] [default: ./mayfly-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// How strong the walls are; `process` has none and is for development
    /// [env: MAYFLY_TIER] [default: native, which without root limits little]
    #[arg(long, value_parser = tier_parser())]
    #[serde(deserialize_with = "tier")]
    pub(crate) tier: Option<Tier>,

    /// What sandboxes reach: nothing, or the internet less private ranges
    /// [env: MAYFLY_NETWORK] [default: internet where the tier is native, with root and nft]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) network: Option<NetworkMode>,

    /// Name server for sandboxes; may be repeated
    /// [env: MAYFLY_DNS, with commas] [default: the host's]
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) dns: Option<Vec<Ipv4Addr>>,

    /// Private range that sandboxes may reach all the same; may be repeated
    /// [env: MAYFLY_EGRESS_OPEN, with commas]
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) egress_open: Option<Vec<Cidr>>,

    /// Domain whose subdomains `<port>-<sandbox>` lead to sandboxes' ports
    /// [env: MAYFLY_DOMAIN]
    #[arg(long)]
    pub(crate) domain: Option<String>,

    /// The daemon that runs in every sandbox
    /// [env: MAYFLY_ENVD] [default: mayfly-envd beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) envd: Option<PathBuf>,

    /// The agent that runs are made with
    /// [env: MAYFLY_AGENT] [default: mayfly-agent beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) agent: Option<PathBuf>,

    /// Wrapper that the process tier starts envd with, when there is one
    /// [env: MAYFLY_JEXEC] [default: /usr/sbin/jexec]
    #[arg(long, value_name = "PATH")]
    pub(crate) jexec: Option<PathBuf>,

    /// How many sandboxes may live at once
    /// [env: MAYFLY_MAX_SANDBOXES] [default: 200]
    #[arg(long, value_name = "N")]
    pub(crate) max_sandboxes: Option<NonZeroU32>,

    /// Size of each sandbox's disk in MiB; 0 is no limit but the host's
    /// [env: MAYFLY_DISK_MIB] [default: 5120]
    #[arg(long, value_name = "MIB", value_parser = parse_disk)]
    #[serde(deserialize_with = "disk")]
    pub(crate) disk_mib: Option<u32>,

    /// How many sandboxes are made ahead of time, to be claimed in a millisecond
    /// [env: MAYFLY_POOL] [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) pool: Option<u32>,

    /// Longest time of one run, in seconds
    /// [env: ASSISTANT_SANDBOX_MAX_RUNTIME_SEC] [default: 28800]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) max_runtime_sec: Option<NonZeroU32>,

    /// How many days the log of a run that ended is kept
    /// [env: MAYFLY_KEEP_RUNS_DAYS] [default: 7]
    #[arg(long, value_name = "DAYS")]
    pub(crate) keep_runs_days: Option<u32>,

    /// Range that a run's callbacks, models and MCP servers may be in; may be
    /// repeated [env: MAYFLY_CALLBACK_ALLOW, with commas] [default: everything but
    /// link-local and metadata addresses]
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    #[serde(deserialize_with = "ranges")]
    pub(crate) callback_allow: Option<Vec<AddressRange>>,

    /// Origin whose web pages may call this server, or `*`; may be repeated
    /// [env: MAYFLY_CORS_ORIGIN, with commas]
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) cors_origin: Option<Vec<WebOrigin>>,

    /// Address that is told of every file that changes in a run
    /// [env: MAYFLY_FILE_HOOK_URL]
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "from_text")]
    pub(crate) file_hook_url: Option<HookUrl>,

    /// Who answers clients of /agui that name no model; the key is in
    /// MAYFLY_MODEL_API_KEY [env: MAYFLY_MODEL_PROVIDER] [default: nobody, which is the
    /// scripted provider]
    #[arg(long, value_name = "PROVIDER", value_parser = provider_parser())]
    pub(crate) model_provider: Option<Provider>,

    /// That provider's model [env: MAYFLY_MODEL_NAME]
    #[arg(long, value_name = "NAME")]
    pub(crate) model_name: Option<String>,

    /// Where that provider is [env: MAYFLY_MODEL_BASE_URL] [default: its usual place]
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "from_text")]
    pub(crate) model_base_url: Option<ServerUrl>,

    /// PostgreSQL database for rows, postgres://user:password@host/name
    /// [env: MAYFLY_DATABASE] [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "from_text")]
    pub(crate) database: Option<DatabaseUrl>,

    /// S3 bucket for files, s3://bucket/prefix?endpoint=URL&region=NAME; keys are in
    /// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    /// [env: MAYFLY_BLOBS] [default: blobs in the data directory]
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "from_text")]
    pub(crate) blobs: Option<BlobsUrl>,

    /// Where runners and browsers reach this server
    /// [env: MAYFLY_PUBLIC_URL] [default: http:// and the address listened on]
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "from_text")]
    pub(crate) public_url: Option<ServerUrl>,

    /// Runner that turns and agents are dispatched to; its key is in SANDBOX_API_KEY
    /// [env: SANDBOX_URL or ASSISTANT_SANDBOX_URL] [default: this server]
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "from_text")]
    pub(crate) sandbox_url: Option<ServerUrl>,

    /// How long the signed address of a bag's zip is good, in seconds
    /// [env: CHAT_BAG_ZIP_URL_TTL_SECONDS] [default: 300]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) bag_url_ttl_sec: Option<NonZeroU32>,

    /// How long nobody may listen to a turn before it is cancelled, in seconds; a
    /// browser that reloads takes a moment [env: MAYFLY_LISTENER_GRACE_SEC] [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) listener_grace_sec: Option<u32>,

    /// Serve without API keys; on loopback only [env: MAYFLY_INSECURE]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) insecure: Option<bool>,

    /// How the log on stderr is written [env: MAYFLY_LOG_FORMAT] [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For programs, one object a line.
    Json,
}

impl Layer {
    /// What this layer says, and where it says nothing, what the weaker says.
    pub(crate) fn over(self, weaker: Layer) -> Layer {
        Layer {
            listen: self.listen.or(weaker.listen),
            data: self.data.or(weaker.data),
            tier: self.tier.or(weaker.tier),
            network: self.network.or(weaker.network),
            dns: self.dns.or(weaker.dns),
            egress_open: self.egress_open.or(weaker.egress_open),
            domain: self.domain.or(weaker.domain),
            envd: self.envd.or(weaker.envd),
            agent: self.agent.or(weaker.agent),
            jexec: self.jexec.or(weaker.jexec),
            max_sandboxes: self.max_sandboxes.or(weaker.max_sandboxes),
            disk_mib: self.disk_mib.or(weaker.disk_mib),
            pool: self.pool.or(weaker.pool),
            max_runtime_sec: self.max_runtime_sec.or(weaker.max_runtime_sec),
            keep_runs_days: self.keep_runs_days.or(weaker.keep_runs_days),
            callback_allow: self.callback_allow.or(weaker.callback_allow),
            cors_origin: self.cors_origin.or(weaker.cors_origin),
            file_hook_url: self.file_hook_url.or(weaker.file_hook_url),
            model_provider: self.model_provider.or(weaker.model_provider),
            model_name: self.model_name.or(weaker.model_name),
            model_base_url: self.model_base_url.or(weaker.model_base_url),
            database: self.database.or(weaker.database),
            blobs: self.blobs.or(weaker.blobs),
            public_url: self.public_url.or(weaker.public_url),
            sandbox_url: self.sandbox_url.or(weaker.sandbox_url),
            bag_url_ttl_sec: self.bag_url_ttl_sec.or(weaker.bag_url_ttl_sec),
            listener_grace_sec: self.listener_grace_sec.or(weaker.listener_grace_sec),
            insecure: self.insecure.or(weaker.insecure),
            log_format: self.log_format.or(weaker.log_format),
        }
    }

    /// Reads the layer of the environment through `lookup`.
    pub(crate) fn from_environment(
        lookup: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Layer, ConfigError> {
        let format = |text: &str| LogFormat::from_str(text, false);
        let mode = |text: &str| NetworkMode::from_str(text, false);
        Ok(Layer {
            listen: variable(lookup, "MAYFLY_LISTEN", parse_address)?,
            data: variable(lookup, "MAYFLY_DATA", PathBuf::from_str)?,
            tier: variable(lookup, "MAYFLY_TIER", Tier::from_str)?,
            network: variable(lookup, "MAYFLY_NETWORK", mode)?,
            dns: variable(lookup, "MAYFLY_DNS", list)?,
            egress_open: variable(lookup, "MAYFLY_EGRESS_OPEN", list)?,
            domain: variable(lookup, "MAYFLY_DOMAIN", String::from_str)?,
            envd: variable(lookup, "MAYFLY_ENVD", PathBuf::from_str)?,
            agent: variable(lookup, "MAYFLY_AGENT", PathBuf::from_str)?,
            jexec: variable(lookup, "MAYFLY_JEXEC", PathBuf::from_str)?,
            max_sandboxes: variable(lookup, "MAYFLY_MAX_SANDBOXES", NonZeroU32::from_str)?,
            disk_mib: variable(lookup, "MAYFLY_DISK_MIB", parse_disk)?,
            pool: variable(lookup, "MAYFLY_POOL", u32::from_str)?,
            // A seed's own name: callers and operators share it.
            max_runtime_sec: variable(
                lookup,
                "ASSISTANT_SANDBOX_MAX_RUNTIME_SEC",
                NonZeroU32::from_str,
            )?,
            keep_runs_days: variable(lookup, "MAYFLY_KEEP_RUNS_DAYS", u32::from_str)?,
            callback_allow: variable(lookup, "MAYFLY_CALLBACK_ALLOW", list)?,
            cors_origin: variable(lookup, "MAYFLY_CORS_ORIGIN", list)?,
            file_hook_url: variable(lookup, "MAYFLY_FILE_HOOK_URL", HookUrl::from_str)?,
            model_provider: variable(lookup, "MAYFLY_MODEL_PROVIDER", parse_provider)?,
            model_name: variable(lookup, "MAYFLY_MODEL_NAME", String::from_str)?,
            model_base_url: variable(lookup, "MAYFLY_MODEL_BASE_URL", ServerUrl::from_str)?,
            database: variable(lookup, "MAYFLY_DATABASE", DatabaseUrl::from_str)?,
            blobs: variable(lookup, "MAYFLY_BLOBS", BlobsUrl::from_str)?,
            public_url: variable(lookup, "MAYFLY_PUBLIC_URL", ServerUrl::from_str)?,
            // Both names are a seed's own.
            sandbox_url: match variable(lookup, "SANDBOX_URL", ServerUrl::from_str)? {
                Some(url) => Some(url),
                None => variable(lookup, "ASSISTANT_SANDBOX_URL", ServerUrl::from_str)?,
            },
            bag_url_ttl_sec: variable(
                lookup,
                "CHAT_BAG_ZIP_URL_TTL_SECONDS",
                NonZeroU32::from_str,
            )?,
            listener_grace_sec: variable(lookup, "MAYFLY_LISTENER_GRACE_SEC", u32::from_str)?,
            insecure: variable(lookup, "MAYFLY_INSECURE", parse_switch)?,
            log_format: variable(lookup, "MAYFLY_LOG_FORMAT", format)?,
        })
    }

    /// Reads the layer of a file. The error shows the line.
    pub(crate) fn from_toml(text: &str) -> Result<Layer, toml::de::Error> {
        toml::from_str(text)
    }
}

fn variable<T, E: Display>(
    lookup: &dyn Fn(&str) -> Option<OsString>,
    variable: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, ConfigError> {
    let Some(value) = set(lookup(variable)) else { return Ok(None) };
    let value = value.into_string().map_err(|_| ConfigError::NotText { variable })?;
    match parse(&value) {
        Ok(parsed) => Ok(Some(parsed)),
        Err(err) => Err(ConfigError::BadVariable { variable, reason: err.to_string(), value }),
    }
}

/// An address and a port; `localhost` is taken too, since everybody types it.
fn parse_address(text: &str) -> Result<SocketAddr, &'static str> {
    let port = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    match port {
        Some(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        None => text.parse().map_err(|_| "give an address and a port, such as 127.0.0.1:3000"),
    }
}

/// A size that a file system and what the launcher writes fit in.
fn parse_disk(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().and_then(checked_disk).ok_or(DISK)
}

const DISK: &str = "give a number of MiB from 64 to 4194304, or 0 for no limit";

fn checked_disk(mib: u32) -> Option<u32> {
    Some(mib).filter(|mib| *mib == 0 || (64..=1 << 22).contains(mib))
}

fn list<T: FromStr>(text: &str) -> Result<Vec<T>, T::Err> {
    text.split(',').map(|one| one.trim().parse()).collect()
}

fn parse_switch(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("give true or false"),
    }
}

/// Names all tiers, so that help and completion know them, and refuses with
/// the reason those this version has not.
fn tier_parser() -> impl TypedValueParser<Value = Tier> {
    PossibleValuesParser::new(["process", "native", "gvisor", "runc", "kubernetes"])
        .try_map(|name| name.parse::<Tier>())
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    parse_address(&text).map(Some).map_err(serde::de::Error::custom)
}

fn disk<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let mib = u32::deserialize(from)?;
    checked_disk(mib).map(Some).ok_or_else(|| serde::de::Error::custom(DISK))
}

fn ranges<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<AddressRange>>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let ranges: Result<_, _> = texts.iter().map(|text| text.parse()).collect();
    ranges.map(Some).map_err(serde::de::Error::custom)
}

fn tier<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tier>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}
