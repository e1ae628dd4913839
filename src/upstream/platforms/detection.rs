//! Which platform answers at an address.
//!
//! ```text
//! asked at once, within one deadline      what it proves, the first that does wins
//! the page at /, for its title            anyrouter, done-hub, one-hub, veloera, sub2api
//! /v0/management/openai-compatibility     cliproxyapi, by headers of its own
//! /api/status                             veloera, done-hub, one-hub, new-api, one-api, by the keys of `data`
//! /api/v1/settings/public, …              sub2api
//!                                         one-api, by a status without a name; then the title again
//! ```
//!
//! Nothing is sent along, and nothing from another host counts: redirects there are not followed. Host
//! names and official addresses are the caller's to know.

use std::time::Duration;

use bytes::Bytes;
use hyper::http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::http::{Request, Response, Uri};
use regex_lite::Regex;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::reply;
use crate::routing::{BaseUrl, Platform};
use crate::upstream::{Client, FetchLimits};

/// For all the evidence together.
const DEADLINE: Duration = Duration::from_secs(8);
const PROBE: FetchLimits = FetchLimits { timeout: Duration::from_secs(5), max_bytes: 1024 * 1024 };
/// Before the page is asked for again.
const TITLE_PAUSE: Duration = Duration::from_millis(50);

const CPA_HEADERS: [&str; 3] = ["x-cpa-version", "x-cpa-commit", "x-cpa-build-date"];

/// Asks the site at `base` what it is; `None` when it tells nothing within eight seconds. Of `base` the
/// proxy is used too: every request of a detection goes through it.
pub async fn detect(client: &Client, base: &BaseUrl) -> Option<Platform> {
    let deadline = Instant::now() + DEADLINE;
    let base = base.clone().without(Platform::Sub2Api.data_paths());
    let (title, is_cpa, status, is_sub2api) = tokio::join!(
        timeout_at(deadline, title(client, &base)),
        timeout_at(deadline, is_cliproxyapi(client, &base)),
        timeout_at(deadline, status(client, &base)),
        timeout_at(deadline, is_sub2api(client, &base)),
    );
    let title = title.ok().flatten().and_then(|title| of_title(&title));
    let (status, is_cpa) = (status.ok().flatten(), is_cpa.unwrap_or(false));
    match title {
        Some(platform) if !matches!(platform, Platform::NewApi | Platform::OneApi) => Some(platform),
        _ if is_cpa => Some(Platform::CliProxyApi),
        hint => status
            .as_ref()
            .and_then(of_status)
            .or_else(|| is_sub2api.unwrap_or(false).then_some(Platform::Sub2Api))
            .or_else(|| status.is_some().then_some(Platform::OneApi))
            .or(hint),
    }
}

/// What a page's title names; whole words in any case.
fn of_title(title: &str) -> Option<Platform> {
    const NAMES: [(&str, Platform); 7] = [
        (r"\bany[-_ ]?router\b", Platform::AnyRouter),
        (r"\bdone[-_ ]?hub\b", Platform::DoneHub),
        (r"\bone[-_ ]?hub\b", Platform::OneHub),
        (r"\bveloera\b", Platform::Veloera),
        (r"\bsub2api\b", Platform::Sub2Api),
        (r"\b(new|vo|super|rix|neo)[-_ ]?api\b|\bwong ?公益站", Platform::NewApi),
        (r"\bone[-_ ]?api\b", Platform::OneApi),
    ];
    let named = NAMES
        .iter()
        .find(|(name, _)| Regex::new(&format!("(?i){name}")).is_ok_and(|name| name.is_match(title)));
    named.map(|&(_, platform)| platform)
}

/// What the keys of a status' `data` show: every fork of the family also sends a name, often its own.
fn of_status(data: &Value) -> Option<Platform> {
    let has = |names: &[&str]| names.iter().any(|name| data.get(name).is_some());
    let says_veloera = ["system_name", "version"].iter().any(|name| {
        data.get(name).and_then(Value::as_str).is_some_and(|text| text.to_lowercase().contains("veloera"))
    });
    if says_veloera || has(&["check_in_enabled"]) {
        return Some(Platform::Veloera);
    }
    if has(&["PaymentUSDRate"]) && has(&["linuxDo_oauth", "invite_code_register", "builtin_chat_enabled"]) {
        return Some(Platform::DoneHub);
    }
    if has(&["PaymentUSDRate", "EnableSafe"]) {
        return Some(Platform::OneHub);
    }
    if has(&["checkin_enabled", "quota_display_type", "self_use_mode_enabled", "enable_drawing", "setup"]) {
        return Some(Platform::NewApi);
    }
    if has(&["oidc_well_known"]) || (has(&["quota_per_unit"]) && has(&["chat_link"])) {
        return Some(Platform::OneApi);
    }
    data.get("system_name").is_some_and(Value::is_string).then_some(Platform::NewApi)
}

async fn title(client: &Client, base: &BaseUrl) -> Option<String> {
    let mut root = base.clone();
    root.path.clear();
    root.query = None;
    let page = match page(client, &root).await {
        Some(page) => page,
        None => {
            sleep(TITLE_PAUSE).await;
            page(client, &root).await?
        }
    };
    reply::title(&page)
}

/// The root's page: whatever its status, but HTML.
async fn page(client: &Client, root: &BaseUrl) -> Option<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = Uri::from(root.join("/"));
    let html = HeaderValue::from_static("text/html,application/xhtml+xml;q=0.9");
    request.headers_mut().insert(ACCEPT, html);
    let answer = client.fetch(root, request, PROBE).await.ok()?;
    let kind = answer.headers().get(CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase();
    kind.contains("html").then(|| answer.into_body())
}

/// The `data` of a status that says `success`, and means it.
async fn status(client: &Client, base: &BaseUrl) -> Option<Value> {
    let answer = get(client, base, "/api/status").await.filter(|answer| answer.status().is_success())?;
    let mut status = reply::json(answer.body()).ok()?;
    (status.get("success") == Some(&Value::Bool(true)))
        .then(|| status.get_mut("data").map(Value::take).unwrap_or_default())
}

async fn is_cliproxyapi(client: &Client, base: &BaseUrl) -> bool {
    if base.origin.port == 8317 || base.origin.host.contains("cliproxy") || base.path.contains("cliproxy") {
        return true;
    }
    let Some(answer) = get(client, base, "/v0/management/openai-compatibility").await else { return false };
    let is_signed = CPA_HEADERS.iter().any(|name| answer.headers().contains_key(*name));
    match answer.status().as_u16() {
        200 if !is_signed => {
            let body = reply::json(answer.body()).ok();
            body.is_some_and(|body| body.get("openai-compatibility").is_some())
        }
        200 | 401 | 403 => is_signed,
        _ => false,
    }
}

/// Its public settings, or the way it refuses those who show nothing.
async fn is_sub2api(client: &Client, base: &BaseUrl) -> bool {
    if let Some(answer) = get(client, base, "/api/v1/settings/public").await {
        let settings = reply::json(answer.body()).ok();
        let has = |name| settings.as_ref().is_some_and(|s| s.pointer(name).is_some_and(Value::is_string));
        if settings.as_ref().is_some_and(|s| s.get("code") == Some(&Value::from(0))) && has("/data/site_name")
        {
            return true;
        }
    }
    for path in ["/api/v1/auth/me", "/v1/models"] {
        let Some(answer) = get(client, base, path).await else { continue };
        let said = reply::json(answer.body()).ok();
        if said.as_ref().is_some_and(speaks_sub2api) {
            return true;
        }
    }
    false
}

fn speaks_sub2api(said: &Value) -> bool {
    let code = said.get("code");
    let message = said.get("message").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    matches!(code.and_then(Value::as_str), Some("UNAUTHORIZED" | "API_KEY_REQUIRED"))
        || message.contains("authorization header is required")
        || message.contains("api key is required")
        || (code == Some(&Value::from(0)) && said.get("data").is_some())
}

async fn get(client: &Client, base: &BaseUrl, path: &str) -> Option<Response<Bytes>> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = Uri::from(base.join(path));
    match client.fetch(base, request, PROBE).await {
        Ok(answer) => Some(answer),
        Err(error) => {
            log::debug!("{}{path} tells nothing of its platform: {error}", base.origin);
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
            assert_eq!(of_title(title), platform, "{title}");
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
            assert_eq!(of_status(&data), platform, "{data}");
        }
    }

    #[test]
    fn only_its_own_words_are_sub2apis() {
        for (said, it_is) in [
            (json!({"code": "UNAUTHORIZED", "message": "Authorization header is required"}), true),
            (json!({"code": "API_KEY_REQUIRED"}), true),
            (json!({"message": "API key is required in Authorization header"}), true),
            (json!({"code": 0, "data": {}}), true),
            (json!({"code": 0}), false),
            (json!({"error": "unauthorized"}), false),
            (json!({"code": 401, "message": "unauthorized"}), false),
        ] {
            assert_eq!(speaks_sub2api(&said), it_is, "{said}");
        }
    }
}
