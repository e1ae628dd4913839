//! Detects which platform answers at an address.
//!
//! ```text
//! asked at once, within one deadline      what it proves, the first that does wins
//! the page at /, for its title            a platform that no other is titled like
//! own pages of some platforms             such a platform, where they outrank a status
//! /api/status                             a member of the new-api family, by the keys of `data`
//! own pages                               the other platforms with some
//!                                         one-api, by a status without a name; then the title again
//! ```
//!
//! A platform's profile says what proves it. No credential is sent, and nothing from another host counts: redirects
//! there are not followed. Host names and official addresses are up to the caller.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::http::{Request, Response, Uri};
use regex_lite::Regex;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::reply;
use crate::platform::{Address, OwnPages, PageAnswer, Platform, Title};
use crate::routing::BaseUrl;
use crate::upstream::{Client, FetchLimits};

/// The time limit for all the evidence together.
const DEADLINE: Duration = Duration::from_secs(8);
const PROBE: FetchLimits = FetchLimits { timeout: Duration::from_secs(5), max_bytes: 1024 * 1024 };
/// The pause before the page is asked for again.
const TITLE_PAUSE: Duration = Duration::from_millis(50);

/// Detects the platform of the site at `base`; `None` when nothing tells it within eight seconds. Every request goes
/// through the proxy of `base`.
pub async fn detect(client: &Client, base: &BaseUrl) -> Option<Platform> {
    let deadline = Instant::now() + DEADLINE;
    let base = base.clone().without(&all_data_paths());
    let (title, status, proven) = tokio::join!(
        timeout_at(deadline, title(client, &base)),
        timeout_at(deadline, status(client, &base)),
        by_own_pages(client, &base, deadline),
    );
    let title = title.ok().flatten();
    let titled = |counts: fn(&Title) -> bool| title.as_ref().and_then(|title| by_title(title, counts));
    let status = status.ok().flatten();
    titled(|own| own.is_proof)
        .or(proven.strong)
        .or_else(|| status.as_ref().and_then(by_status))
        .or(proven.weak)
        // The oldest of the family tells only that all is well.
        .or_else(|| status.is_some().then_some(Platform::OneApi))
        .or_else(|| titled(|own| !own.is_proof))
}

/// Returns the path endings of all platforms, the longest first.
fn all_data_paths() -> Vec<&'static str> {
    let mut paths: Vec<_> =
        Platform::ALL.iter().flat_map(|platform| platform.profile().data_paths).copied().collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
    paths
}

/// Returns the first platform that a page's title names, among those whose titles count.
fn by_title(title: &str, counts: impl Fn(&Title) -> bool) -> Option<Platform> {
    Platform::ALL.into_iter().find(|platform| {
        platform.profile().title.as_ref().is_some_and(|own| {
            counts(own) && Regex::new(&format!("(?i){}", own.pattern)).is_ok_and(|name| name.is_match(title))
        })
    })
}

/// Returns the platform that the keys of a status' `data` show: every fork of the family also sends a name, often its
/// own.
fn by_status(data: &Value) -> Option<Platform> {
    let is_own = |platform: &Platform| platform.profile().status.is_some_and(|is_own| is_own(data));
    let has_name = || data.get("system_name").is_some_and(Value::is_string).then_some(Platform::NewApi);
    Platform::ALL.into_iter().find(is_own).or_else(has_name)
}

/// The platforms that pages of their own prove.
#[derive(Default)]
struct ProvenPlatforms {
    /// One whose proof outranks a status.
    strong: Option<Platform>,
    weak: Option<Platform>,
}

/// Returns the platforms that pages of their own prove before `deadline`.
async fn by_own_pages(client: &Client, base: &BaseUrl, deadline: Instant) -> ProvenPlatforms {
    type Asked<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
    let mut open: Vec<(Platform, &OwnPages, Asked<'_>)> = Vec::new();
    for platform in Platform::ALL {
        if let Some(own) = &platform.profile().own_pages {
            let asked =
                async move { timeout_at(deadline, has_own_page(client, base, own)).await.unwrap_or(false) };
            open.push((platform, own, Box::pin(asked)));
        }
    }
    let mut proven = ProvenPlatforms::default();
    poll_fn(|context| {
        open.retain_mut(|(platform, own, asked)| match asked.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(is_it) => {
                let found = if own.outrank_status { &mut proven.strong } else { &mut proven.weak };
                if is_it {
                    found.get_or_insert(*platform);
                }
                false
            }
        });
        if open.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    proven
}

/// Whether one of these pages answers as only its platform does.
async fn has_own_page(client: &Client, base: &BaseUrl, own: &OwnPages) -> bool {
    let address = Address { host: &base.origin.host, port: Some(base.origin.port), path: &base.path };
    if (own.is_known)(&address) {
        return true;
    }
    for page in own.pages {
        let Some(answer) = get(client, base, page.path).await else { continue };
        let json = reply::json(answer.body()).ok();
        let answer =
            PageAnswer { status: answer.status().as_u16(), headers: answer.headers(), json: json.as_ref() };
        if (page.is_own)(&answer) {
            return true;
        }
    }
    false
}

async fn title(client: &Client, base: &BaseUrl) -> Option<String> {
    let mut root = base.clone();
    root.path.clear();
    root.query = None;
    // A page without a title, or of a server in trouble, may be another one a moment later.
    let is_final =
        |page: &Response<Bytes>| !page.status().is_server_error() && reply::title(page.body()).is_some();
    let page = match page(client, &root).await.filter(is_final) {
        Some(page) => page,
        None => {
            sleep(TITLE_PAUSE).await;
            page(client, &root).await?
        }
    };
    reply::title(page.body())
}

/// Reads the page at the root, whatever its status, if it is HTML.
async fn page(client: &Client, root: &BaseUrl) -> Option<Response<Bytes>> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = Uri::from(root.join("/"));
    let html = HeaderValue::from_static("text/html,application/xhtml+xml;q=0.9");
    request.headers_mut().insert(ACCEPT, html);
    let answer = client.fetch(root, request, PROBE).await.ok()?;
    let kind = answer.headers().get(CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase();
    kind.contains("html").then_some(answer)
}

/// Returns the `data` of a status whose `success` is `true`.
async fn status(client: &Client, base: &BaseUrl) -> Option<Value> {
    let answer = get(client, base, "/api/status").await.filter(|answer| answer.status().is_success())?;
    let mut status = reply::json(answer.body()).ok()?;
    (status.get("success") == Some(&Value::Bool(true)))
        .then(|| status.get_mut("data").map(Value::take).unwrap_or_default())
}

async fn get(client: &Client, base: &BaseUrl, path: &str) -> Option<Response<Bytes>> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = Uri::from(base.join(path));
    match client.fetch(base, request, PROBE).await {
        Ok(answer) => Some(answer),
        Err(error) => {
            log::debug!("{}{path} does not show its platform: {error}", base.origin);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_title_names_its_platform_in_whole_words() {
        for (title, platform) in [
            ("Any Router", Some(Platform::AnyRouter)),
            ("AnyRouter - console", Some(Platform::AnyRouter)),
            ("Done Hub", Some(Platform::DoneHub)),
            ("One-Hub", Some(Platform::OneHub)),
            ("my veloera site", Some(Platform::Veloera)),
            ("Sub2API - AI", Some(Platform::Sub2Api)),
            ("New API", Some(Platform::NewApi)),
            ("VO-API", Some(Platform::NewApi)),
            ("super-api", Some(Platform::NewApi)),
            ("Rix-Api", Some(Platform::NewApi)),
            ("neo-api", Some(Platform::NewApi)),
            ("WONG 公益站", Some(Platform::NewApi)),
            ("One API", Some(Platform::OneApi)),
            ("one_api", Some(Platform::OneApi)),
            ("oneapi", Some(Platform::OneApi)),
            ("Stone Hub", None),
            ("Renew apiary", None),
            ("Sign in", None),
        ] {
            let found = by_title(title, |own| own.is_proof).or_else(|| by_title(title, |own| !own.is_proof));
            assert_eq!(found, platform, "{title}");
        }
    }

    #[test]
    fn the_keys_of_a_status_tell_the_forks_apart() {
        for (data, platform) in [
            (json!({"system_name": "My Veloera"}), Some(Platform::Veloera)),
            (json!({"system_name": "x", "version": "veloera-0.4"}), Some(Platform::Veloera)),
            (json!({"system_name": "x", "check_in_enabled": false, "setup": true}), Some(Platform::Veloera)),
            (json!({"PaymentUSDRate": 7.3, "linuxDo_oauth": false}), Some(Platform::DoneHub)),
            (json!({"PaymentUSDRate": 7.3, "invite_code_register": false}), Some(Platform::DoneHub)),
            (json!({"PaymentUSDRate": 7.3, "builtin_chat_enabled": true}), Some(Platform::DoneHub)),
            (json!({"PaymentUSDRate": 7.3, "oidc_auth": false}), Some(Platform::OneHub)),
            (json!({"EnableSafe": false, "system_name": "x"}), Some(Platform::OneHub)),
            (json!({"system_name": "x", "checkin_enabled": true}), Some(Platform::NewApi)),
            (
                json!({"quota_display_type": "USD", "chat_link": "", "quota_per_unit": 1}),
                Some(Platform::NewApi),
            ),
            (json!({"self_use_mode_enabled": false}), Some(Platform::NewApi)),
            (json!({"enable_drawing": false}), Some(Platform::NewApi)),
            (json!({"setup": true}), Some(Platform::NewApi)),
            (json!({"system_name": "One API", "oidc_well_known": ""}), Some(Platform::OneApi)),
            (json!({"system_name": "x", "quota_per_unit": 1, "chat_link": ""}), Some(Platform::OneApi)),
            (json!({"system_name": "x"}), Some(Platform::NewApi)),
            (json!({"version": "v0.3"}), None),
            (Value::Null, None),
        ] {
            assert_eq!(by_status(&data), platform, "{data}");
        }
    }
}
