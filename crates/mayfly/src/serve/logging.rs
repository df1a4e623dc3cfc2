//! The log: on stderr, so that stdout keeps to what a person reads at start.

use std::env;
use std::io::{self, IsTerminal};

use anyhow::{Context, anyhow};
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Starts logging; `MAYFLY_LOG` says what, `info` when it says nothing.
pub(super) fn start(format: LogFormat) -> anyhow::Result<()> {
    let wanted = env::var("MAYFLY_LOG").ok().filter(|text| !text.is_empty());
    let wanted = wanted.unwrap_or_else(|| "info".to_owned());
    let filter =
        EnvFilter::try_new(&wanted).with_context(|| format!("MAYFLY_LOG is `{wanted}`"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|err| anyhow!("cannot start the log: {err}"))
}
