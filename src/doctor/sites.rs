//! Checks whether each site answers, and how far the local clock is from theirs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::{DATE, USER_AGENT};
use tokio::task::JoinSet;

use super::database::DatabaseFindings;
use super::report::Report;
use crate::config::Config;
use crate::routing::{BaseUrl, OutboundProxy};
use crate::store::inspect::SiteAddress;
use crate::time::{from_http_date, now_ms};
use crate::upstream::{Client, ClientOptions, roots_from_pem};

/// The time limit for a site's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of sites that are asked at once.
const SITES_AT_ONCE: usize = 16;
/// The clock difference, in seconds, from which logins and tokens may suffer.
const DOUBTFUL_SECONDS: i64 = 30;
const WRONG_SECONDS: i64 = 300;

/// The answer of one site.
struct Answered {
    status: u16,
    took: Duration,
    /// How far its clock is ahead of the local one, in seconds.
    ahead: Option<i64>,
}

/// Sends a request to every site, several at once, and reports the results in the order of the sites.
pub(super) fn examine(report: &mut Report, config: &Config, found: DatabaseFindings) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report.failed("sites", format!("cannot start the async runtime: {error}")),
    };
    let client = match client(config) {
        Ok(client) => Arc::new(client),
        Err(why) => return report.failed("SSL_CERT_FILE", why),
    };
    let system_proxy = found.system_proxy.or_else(|| config.system_proxy_url.clone());
    let names: Vec<String> = found.sites.iter().map(|site| format!("site {}", site.name)).collect();
    let answers = runtime.block_on(ask_all(&client, found.sites, system_proxy.as_deref()));
    // A thread that resolves a name may still be waiting.
    runtime.shutdown_background();
    let mut closest: Option<i64> = None;
    for (name, answer) in names.iter().zip(answers) {
        match answer {
            Ok(Answered { status, took, ahead }) => {
                if let Some(ahead) = ahead {
                    let is_closer = closest.is_none_or(|closest| ahead.abs() < closest.abs());
                    closest = if is_closer { Some(ahead) } else { closest };
                }
                let text = format!("answers with {status} after {} ms", took.as_millis());
                if status >= 500 { report.doubtful(name, text) } else { report.fine(name, text) }
            }
            Err(why) => report.failed(name, why),
        }
    }
    clock(report, closest);
}

/// Reports the difference to the site whose clock is closest to the local one, because a site's clock may be wrong too.
fn clock(report: &mut Report, ahead: Option<i64>) {
    const CHECK: &str = "clock";
    let Some(ahead) = ahead else { return report.fine(CHECK, "no site sent its time".to_owned()) };
    let side = if ahead > 0 { "behind" } else { "ahead of" };
    let text = format!("{} s {side} the clock of the closest site", ahead.abs());
    match ahead.abs() {
        0..DOUBTFUL_SECONDS => report.fine(CHECK, text),
        DOUBTFUL_SECONDS..WRONG_SECONDS => report.doubtful(CHECK, text),
        _ => report.failed(CHECK, text),
    }
}

fn client(config: &Config) -> Result<Client, String> {
    let extra_roots = match &config.extra_roots_file {
        None => Vec::new(),
        Some(path) => std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|pem| roots_from_pem(&pem))
            .map_err(|why| format!("{}: {why}", path.display()))?,
    };
    Ok(Client::new(ClientOptions { extra_roots, ..ClientOptions::default() }))
}

async fn ask_all(
    client: &Arc<Client>,
    sites: Vec<SiteAddress>,
    system_proxy: Option<&str>,
) -> Vec<Result<Answered, String>> {
    let mut answers: Vec<_> = sites.iter().map(|_| Err("was not asked".to_owned())).collect();
    let mut asking = JoinSet::new();
    let mut waiting = sites.into_iter().enumerate();
    loop {
        while asking.len() < SITES_AT_ONCE
            && let Some((number, site)) = waiting.next()
        {
            let client = client.clone();
            let proxy = way(&site, system_proxy);
            asking.spawn(async move { (number, ask(&client, &site, proxy).await) });
        }
        match asking.join_next().await {
            None => return answers,
            Some(Ok((number, answer))) => answers[number] = answer,
            Some(Err(_)) => {}
        }
    }
}

/// Returns the outbound proxy of a site, as requests to it use it.
fn way(site: &SiteAddress, system_proxy: Option<&str>) -> Option<String> {
    let own = site.proxy.as_ref().map(|proxy| proxy.expose().to_owned());
    own.or_else(|| system_proxy.filter(|_| site.use_system_proxy).map(str::to_owned))
}

async fn ask(client: &Client, site: &SiteAddress, proxy: Option<String>) -> Result<Answered, String> {
    let proxy = proxy.as_deref().map(OutboundProxy::parse).transpose()?.map(Arc::new);
    let base = BaseUrl::parse(&site.url, proxy)?;
    // Without the query, which may hold a key.
    let path = if base.path.is_empty() { "/" } else { &base.path };
    let agent = concat!("switchyard/", env!("CARGO_PKG_VERSION"));
    let request = hyper::Request::get(path).header(USER_AGENT, agent).body(Bytes::new());
    let request = request.map_err(|error| error.to_string())?;
    let began = Instant::now();
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, client.send(&base.origin, request)).await;
    let answer = answer.map_err(|_| format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))?;
    let head = answer.map_err(|error| error.to_string())?.head;
    let date = head.headers.get(&DATE).and_then(|date| std::str::from_utf8(date).ok());
    let ahead = date.and_then(from_http_date).map(|theirs| (theirs - now_ms()).div_euclid(1000));
    Ok(Answered { status: head.status.as_u16(), took: began.elapsed(), ahead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_minutes_off_is_a_failure() {
        let failed = |ahead| {
            let mut report = Report::default();
            clock(&mut report, ahead);
            (report.troubles(), report.has_failure())
        };
        assert_eq!([failed(None), failed(Some(-29)), failed(Some(29))], [(0, false); 3]);
        assert_eq!([failed(Some(30)), failed(Some(-299))], [(1, false); 2]);
        assert_eq!([failed(Some(300)), failed(Some(-4000))], [(1, true); 2]);
    }
}
