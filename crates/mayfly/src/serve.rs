//! `mayfly serve`: the place where the parts meet.
//!
//! In order: settings, log, store, listener, key, banner, serving. Whatever
//! can fail because of a setting fails before anything is printed.

mod banner;
mod cors;
mod document;
mod first_key;
mod house;
mod logging;
mod network;
mod signals;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use isolate::{Privilege, Tier};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::cli::ServeArguments;
use crate::config::ServeConfig;
use crate::output;
use banner::{Banner, Paper};
use house::House;
use signals::Signals;

/// How long open requests may take to finish after the signal to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Reads the settings and serves with them.
pub(crate) fn command(arguments: ServeArguments) -> anyhow::Result<ExitCode> {
    let config = ServeConfig::read(arguments)?;
    logging::start(config.log_format)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(config))?;
    Ok(ExitCode::SUCCESS)
}

/// `mayfly down`: stops a running server, and ends every sandbox either way.
pub(crate) fn down(arguments: ServeArguments) -> anyhow::Result<ExitCode> {
    let config = ServeConfig::read(arguments)?;
    logging::start(config.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        house::stop_server(&config.data).await?;
        let store = config.place().open().await?;
        let _only_server = house::lock(&config.data)?;
        let house = House::build(&config, &store, config.listen).await?;
        let ended = house.end_all(GRACE).await;
        store.close().await;
        anyhow::Ok(ended)
    })?;
    output::print(&format!("Nothing runs any more; {ended} sandboxes were ended.\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(config: ServeConfig) -> anyhow::Result<()> {
    let store = config.place().open().await?;
    let _only_server = house::lock(&config.data)?;
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr()?;
    // Not before the address is ours: a key made by a start that fails would
    // never be shown to anybody.
    let key = first_key::ensure(&store, &config.access).await?;

    let house = House::build(&config, &store, address).await?;

    // From here on a signal ends the server in order, also one that comes
    // while it starts.
    let tracker = TaskTracker::new();
    let stop = Signals::listen()?.cancel_on(&tracker);

    let network = network::describe(house.network());
    let (tier, privilege) = (config.tier, config.privilege);
    let banner =
        Banner { address, tier, privilege, network: &network, data: &config.data, key: &key };
    let paper = if io::stdout().is_terminal() { Paper::Terminal } else { Paper::Plain };
    if let Err(err) = output::print(&banner.render(paper)) {
        // Whoever started us does not listen; the clients may.
        tracing::warn!("cannot print where the server is: {err}");
    }
    if let (Tier::Native, Privilege::User) = (tier, privilege) {
        tracing::warn!("without root the memory and processors of sandboxes are not limited");
    }
    tracing::info!(
        server.address = %address,
        server.tier = %config.tier,
        server.network = network,
        "listening on {address}"
    );

    // Sandboxes end with the signal, and streams out of them with the
    // sandboxes: an open stream would hold up the server.
    let ending = tracker.spawn(house.end_on(stop.clone(), GRACE));
    // What was under way before goes on, by calls to this server among others:
    // they wait in the listener until it serves.
    house.take_up().await;
    http_kit::serve(listener, house.router(), stop.token, GRACE).await?;
    ending.await?;

    store.close().await;
    tracker.close();
    tracker.wait().await;
    tracing::info!("stopped");
    Ok(())
}
