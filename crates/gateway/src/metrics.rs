//! `/metrics`: the three series of seed 004 under their names, and ours.

use axum::{
    extract::State,
    http::{HeaderName, header::CONTENT_TYPE},
};
use http_kit::{Caller, Exposition};

use crate::{Gateway, described::Refused};

/// Numbers for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "server",
    responses(
        (
            status = 200,
            description = "The text format of Prometheus.",
            body = String,
            content_type = "text/plain",
        ),
        Refused,
    ),
)]
pub(crate) async fn scrape(
    State(gateway): State<Gateway>,
    _: Caller,
) -> ([(HeaderName, &'static str); 1], String) {
    // Nothing is enumerated: every number is a counter already.
    let tally = gateway.sandboxes.tally();
    let mut text = Exposition::default();
    text.counter("coppice_commands_started_total", "Commands started.", tally.started());
    text.counters(
        "coppice_commands_finished_total",
        "Commands finished, each in exactly one status.",
        "status",
        tally.finished(),
    );
    text.gauge("coppice_commands_active", "Commands running now.", tally.active());
    text.counter(
        "mayfly_commands_out_of_memory_total",
        "Commands killed because memory ran out.",
        tally.out_of_memory(),
    );
    text.gauge("mayfly_sandboxes_active", "Sandboxes living now.", gateway.sandboxes.count());
    text.gauge("mayfly_pool_ready", "Sandboxes waiting to be claimed.", gateway.sandboxes.pooled());
    text.counter("mayfly_sandboxes_created_total", "Sandboxes made.", tally.sandboxes_created());
    text.counters(
        "mayfly_sandboxes_ended_total",
        "Sandboxes ended, by why.",
        "reason",
        tally.sandboxes_ended(),
    );
    text.histogram(
        "mayfly_sandbox_start_seconds",
        "From the request to a sandbox that answers.",
        &gateway.starts,
    );
    text.counters(
        "mayfly_http_requests_total",
        "Requests answered, by class of status.",
        "class",
        gateway.requests.by_class(),
    );
    text.gauge(
        "mayfly_uptime_seconds",
        "Since the server began.",
        gateway.began.elapsed().as_secs(),
    );
    (gateway.more_metrics)(&mut text);
    ([(CONTENT_TYPE, Exposition::CONTENT_TYPE)], text.finish())
}
