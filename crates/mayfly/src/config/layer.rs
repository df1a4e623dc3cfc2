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
use isolate::Tier;
use serde::{Deserialize, Deserializer};

use super::{ConfigError, set};

/// The variables the layer of the environment is read from.
#[cfg(test)]
pub(crate) const VARIABLES: [&str; 10] = [
    "MAYFLY_LISTEN",
    "MAYFLY_DATA",
    "MAYFLY_TIER",
    "MAYFLY_DOMAIN",
    "MAYFLY_ENVD",
    "MAYFLY_JEXEC",
    "MAYFLY_MAX_SANDBOXES",
    "MAYFLY_POOL",
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
    /// [env: MAYFLY_TIER] [default: native, which needs root]
    #[arg(long, value_parser = tier_parser())]
    #[serde(deserialize_with = "tier")]
    pub(crate) tier: Option<Tier>,

    /// Domain whose subdomains `<port>-<sandbox>` lead to sandboxes' ports
    /// [env: MAYFLY_DOMAIN]
    #[arg(long)]
    pub(crate) domain: Option<String>,

    /// The daemon that runs in every sandbox
    /// [env: MAYFLY_ENVD] [default: mayfly-envd beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) envd: Option<PathBuf>,

    /// Wrapper that the process tier starts envd with, when there is one
    /// [env: MAYFLY_JEXEC] [default: /usr/sbin/jexec]
    #[arg(long, value_name = "PATH")]
    pub(crate) jexec: Option<PathBuf>,

    /// How many sandboxes may live at once
    /// [env: MAYFLY_MAX_SANDBOXES] [default: 200]
    #[arg(long, value_name = "N")]
    pub(crate) max_sandboxes: Option<NonZeroU32>,

    /// How many sandboxes are made ahead of time, to be claimed in a millisecond
    /// [env: MAYFLY_POOL] [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) pool: Option<u32>,

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
            domain: self.domain.or(weaker.domain),
            envd: self.envd.or(weaker.envd),
            jexec: self.jexec.or(weaker.jexec),
            max_sandboxes: self.max_sandboxes.or(weaker.max_sandboxes),
            pool: self.pool.or(weaker.pool),
            insecure: self.insecure.or(weaker.insecure),
            log_format: self.log_format.or(weaker.log_format),
        }
    }

    /// Reads the layer of the environment through `lookup`.
    pub(crate) fn from_environment(
        lookup: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Layer, ConfigError> {
        let format = |text: &str| LogFormat::from_str(text, false);
        Ok(Layer {
            listen: variable(lookup, "MAYFLY_LISTEN", parse_address)?,
            data: variable(lookup, "MAYFLY_DATA", PathBuf::from_str)?,
            tier: variable(lookup, "MAYFLY_TIER", Tier::from_str)?,
            domain: variable(lookup, "MAYFLY_DOMAIN", String::from_str)?,
            envd: variable(lookup, "MAYFLY_ENVD", PathBuf::from_str)?,
            jexec: variable(lookup, "MAYFLY_JEXEC", PathBuf::from_str)?,
            max_sandboxes: variable(lookup, "MAYFLY_MAX_SANDBOXES", NonZeroU32::from_str)?,
            pool: variable(lookup, "MAYFLY_POOL", u32::from_str)?,
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

fn tier<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tier>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}
