//! `GET /metrics`: the state of the process in the Prometheus text form, version 0.0.4.
//!
//! Names follow the conventions at <https://prometheus.io/docs/practices/naming/>: base units,
//! `_total` for what only grows, `process_` for what every exporter calls so.

use std::fmt::{Display, Write};
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use super::errors::Result;
use crate::admin::Admin;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::time;

/// `GET /metrics`
pub async fn get(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let mut page = Page::default();
    traffic(&mut page, &admin.core);
    upstreams(&mut page, &admin.core);
    process(&mut page, &admin.core);
    let mut response = http::text(StatusCode::OK, page.text);
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
        "Requests that are with an upstream.",
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
        "Log rows given up because the writer lagged.",
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
        cooling += u64::from(channel.live.is_cooling(now));
    }
    page.gauge("switchyard_channels", "Channels of all routes.", channels);
    page.gauge("switchyard_channels_cooling", "Channels left alone after a failure.", cooling);
    let idle = core.client.idle_connections();
    page.gauge(
        "switchyard_upstream_connections_idle",
        "Upstream connections kept for the next request.",
        idle,
    );
}

fn process(page: &mut Page, core: &Core) {
    page.family("switchyard_build_info", "gauge", "The version that runs.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let uptime = (time::now_ms() - core.started).max(0) as f64 / 1000.0;
    page.gauge("switchyard_uptime_seconds", "Time since the start.", uptime);
    let start = core.started as f64 / 1000.0;
    page.gauge("process_start_time_seconds", "Start time, seconds since the epoch.", start);
    if let Some(bytes) = resident_bytes() {
        page.gauge("process_resident_memory_bytes", "Resident memory.", bytes);
    }
}

/// The resident memory of this process; `None` where there is no `/proc`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The text form, family by family.
#[derive(Default)]
struct Page {
    text: String,
    /// The family that samples are added to.
    family: &'static str,
}

impl Page {
    fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(&[], value);
    }

    fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(&[], value);
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Label values are this program's own words, so they need no escaping.
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let family = self.family;
        self.write(format_args!("{family}{labels} {value}\n"));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a String cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_the_text_form() {
        let mut page = Page::default();
        page.family("a_total", "counter", "How many a.");
        page.sample(&[("kind", "x"), ("status", "2xx")], 3);
        page.gauge("b_seconds", "Time of b.", 1.5);
        assert_eq!(
            page.text,
            "# HELP a_total How many a.\n# TYPE a_total counter\na_total{kind=\"x\",status=\"2xx\"} 3\n\
             # HELP b_seconds Time of b.\n# TYPE b_seconds gauge\nb_seconds 1.5\n"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn resident_memory_is_known_on_linux() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
