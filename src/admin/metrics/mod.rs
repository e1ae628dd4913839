//! `GET /metrics`: the state of the process in the Prometheus text form, version 0.0.4.
//!
//! Names follow the conventions at <https://prometheus.io/docs/practices/naming/>: base units, `_total` for counters,
//! and `process_` for the metrics that every exporter has.

mod channels;
mod page;
pub mod schema;

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use super::errors::{AdminError, Result};
use crate::admin::Admin;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::routing::cooling_until;
use crate::time;
use page::Page;

/// `GET /metrics`
pub async fn get(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let core = admin.core.clone();
    // Thousands of series are megabytes of text; requests in flight must not wait for them.
    let text = tokio::task::spawn_blocking(move || {
        let mut page = Page::default();
        traffic(&mut page, &core);
        upstreams(&mut page, &core);
        channels::write(&mut page, &core);
        process(&mut page, &core);
        page.text
    });
    let text = text.await.map_err(|error| AdminError::internal("writing the metrics", error))?;
    let mut response = http::text(StatusCode::OK, text);
    let media_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    Ok(response)
}

fn traffic(page: &mut Page, core: &Core) {
    let metrics = &core.metrics;
    page.family("switchyard_requests_total", "counter", "Requests answered, by surface and status class.");
    for (surface, class, count) in metrics.requests() {
        page.sample(&[("surface", surface.name()), ("status", class)], count);
    }
    page.gauge(
        "switchyard_requests_in_flight",
        "Requests in progress at an upstream.",
        metrics.in_flight.get(),
    );
    page.gauge("switchyard_streams_in_flight", "Answers being streamed.", metrics.streams.get());
    page.gauge("switchyard_websockets_open", "WebSockets that clients hold open.", metrics.sockets.get());
    page.family("switchyard_tokens_total", "counter", "Tokens, as upstreams report them.");
    page.sample(&[("kind", "prompt")], metrics.prompt_tokens.get());
    page.sample(&[("kind", "completion")], metrics.completion_tokens.get());
    let (received, sent) = (metrics.received_bytes.get(), metrics.sent_bytes.get());
    page.counter("switchyard_received_bytes_total", "Bytes of request bodies read from clients.", received);
    page.counter("switchyard_sent_bytes_total", "Bytes of response bodies sent to clients.", sent);
    let telemetry = core.store.telemetry();
    let (dropped, waiting) = (telemetry.dropped(), telemetry.waiting());
    page.counter(
        "switchyard_log_rows_dropped_total",
        "Log rows dropped because the writer could not keep up.",
        dropped,
    );
    page.gauge("switchyard_log_rows_waiting", "Log rows waiting for the writer.", waiting);
}

fn upstreams(page: &mut Page, core: &Core) {
    let metrics = &core.metrics;
    let (attempts, failures) = (metrics.attempts.get(), metrics.attempt_failures.get());
    page.counter(
        "switchyard_upstream_attempts_total",
        "Requests sent to upstreams, retries included.",
        attempts,
    );
    page.counter("switchyard_upstream_attempt_failures_total", "Attempts that failed.", failures);
    let now = time::now_ms();
    let snapshot = core.snapshot.load();
    let (mut channels, mut cooling) = (0u64, 0u64);
    for channel in snapshot.channels() {
        channels += 1;
        cooling += u64::from(cooling_until(channel, now).is_some());
    }
    page.gauge("switchyard_channels", "Channels of all routes.", channels);
    page.gauge("switchyard_channels_cooling", "Channels that are cooling down after a failure.", cooling);
    let idle = core.client.idle_connections();
    page.gauge(
        "switchyard_upstream_connections_idle",
        "Idle upstream connections kept for later requests.",
        idle,
    );
}

fn process(page: &mut Page, core: &Core) {
    page.family("switchyard_build_info", "gauge", "The version that runs.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("switchyard_instance_info", "gauge", "Each process that serves from the same database.");
    let instances = core.all_instances();
    for one in &instances {
        page.sample(&[("id", &one.id), ("name", &one.name), ("version", &one.version)], 1);
    }
    page.gauge(
        "switchyard_instances",
        "Number of processes that serve from the same database.",
        instances.len() as u64,
    );
    let uptime = (time::now_ms() - core.started).max(0) as f64 / 1000.0;
    page.gauge("switchyard_uptime_seconds", "Time since the start.", uptime);
    let start = core.started as f64 / 1000.0;
    page.gauge("process_start_time_seconds", "Start time, seconds since the epoch.", start);
    if let Some(bytes) = resident_bytes() {
        page.gauge("process_resident_memory_bytes", "Resident memory.", bytes);
    }
}

/// Returns the resident memory of this process in bytes; `None` where there is no `/proc`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn resident_memory_is_known_on_linux() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
