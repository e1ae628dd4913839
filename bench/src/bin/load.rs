//! `load PORT [options]`: the load generator alone, for profiling one target by hand.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use switchyard_bench::load::{Load, quantile, run};
use switchyard_bench::payload::{
    CLIENT_KEY, FLUSHED_MODEL, MODEL, PACED_MODEL, bound_chat_request, chat_request, completion, stream,
};
use switchyard_bench::process;
use switchyard_bench::wire::request;

const USAGE: &str = "\
usage: load PORT [--connections 16] [--seconds 3] [--body 1024] [--stream burst|flushed|paced] [--key KEY] [--bound yes] [--pid PID]
  --body   bytes of the request
  --key    the bearer that the target wants (default: the bench's client key)
  --bound  requests of one conversation, which stays on its channel
  --pid    the process whose CPU time and memory are measured, with its children";

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let load =
        options(std::env::args().skip(1)).map_err(|wrong| io::Error::other(format!("{wrong}\n{USAGE}")))?;
    let (watch, idle) = (load.watch, load.watch.map(process::memory));
    let outcome = run(load).await;

    println!("{} exchanges in {:.2?}: {:.0}/s", outcome.completed(), outcome.window, outcome.rate());
    for (name, values) in [
        ("first byte", &outcome.first_bytes),
        ("first delta", &outcome.first_deltas),
        ("whole", &outcome.totals),
    ] {
        if let (Some(p50), Some(p99)) = (quantile(values, 0.5), quantile(values, 0.99)) {
            println!("{name:11} p50 {:8.1} us, p99 {:8.1} us", p50 * 1e6, p99 * 1e6);
        }
    }
    if let Some(cpu) = outcome.cpu_each() {
        println!("CPU each    {:.1} us", cpu * 1e6);
    }
    if let (Some(idle), Some(after)) = (idle, watch.map(process::memory)) {
        let [before, now, peak] = [idle.resident, after.resident, after.peak].map(|bytes| bytes as f64 / 1e6);
        println!("resident    {before:.1} MB before, {now:.1} MB after, {peak:.1} MB at most");
    }
    match outcome.first_fault {
        Some(first) => Err(io::Error::other(format!("{} faults, the first: {first}", outcome.faults))),
        None => Ok(()),
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Load, String> {
    fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
        value.parse().map_err(|_| format!("{name}: {value:?} is not a number that fits"))
    }
    let port = number("PORT", &arguments.next().unwrap_or_default())?;
    let (mut connections, mut seconds, mut body, mut watch) = (16, 3.0, 1 << 10, None);
    let (mut key, mut streaming, mut bound) = (CLIENT_KEY.to_owned(), None, false);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--connections" => connections = number(&name, &value)?,
            "--seconds" => seconds = number::<f64>(&name, &value)?,
            "--body" => body = number(&name, &value)?,
            "--pid" => watch = Some(number(&name, &value)?),
            "--key" => key = value,
            "--bound" => bound = value == "yes",
            "--stream" if value == "burst" => streaming = Some(MODEL),
            "--stream" if value == "flushed" => streaming = Some(FLUSHED_MODEL),
            "--stream" if value == "paced" => streaming = Some(PACED_MODEL),
            _ => return Err(format!("{name} {value} is not known")),
        }
    }
    let chat_request = if bound { bound_chat_request } else { chat_request };
    let asked = chat_request(streaming.unwrap_or(MODEL), streaming.is_some(), body);
    Ok(Load {
        port,
        request: Bytes::from(request("POST", "/v1/chat/completions", &key, &asked)),
        expected: if streaming.is_some() { stream() } else { completion() },
        connections,
        spread: Duration::ZERO,
        warm_up: Duration::from_millis(300),
        window: Duration::try_from_secs_f64(seconds).map_err(|wrong| format!("--seconds: {wrong}"))?,
        watch,
    })
}
