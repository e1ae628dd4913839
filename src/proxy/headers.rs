//! Which headers cross the gateway.
//!
//! Towards the upstream an allow-list applies: headers that identify the client's software and its session, and
//! those that the dialect itself defines. Credentials of the caller, addresses, cookies and anything about
//! the connection never cross. Towards the client another allow-list applies: limits, timings, ids.

use std::cell::OnceCell;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::dialect::Dialect;
use crate::dialect::errors::MAX_RETRY_AFTER;
use crate::dialect::messages::API_VERSION;
use crate::mask::Mask;
use crate::platform::Profile;
use crate::request_id::RequestId;
use crate::routing::{Account, Channel, CredentialHeaders};
use crate::upstream::{AnswerHeaders, RequestHeaders};

use super::betas;

/// The user agent for clients that name none.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("switchyard/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
pub const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const X_UPSTREAM_REQUEST_ID: HeaderName = HeaderName::from_static("x-upstream-request-id");
const ANTHROPIC_VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("anthropic-version"), HeaderValue::from_static(API_VERSION));

/// What a client's request contributes to the headers of its upstream requests.
pub struct ClientHeaders<'a> {
    pub dialect: Dialect,
    pub headers: &'a HeaderMap,
    /// The operator's user agent, which replaces the client's where the platform allows it and the site's own headers name
    /// none.
    pub agent: Option<&'a HeaderValue>,
}

/// Builds the headers of one upstream request: first the client's, then ours, which replace them. Headers that a dialect
/// defines cross only where the upstream speaks that dialect too.
pub fn upstream(
    client: &ClientHeaders<'_>,
    dialect: Dialect,
    stream: bool,
    account: &Account,
    credential: &CredentialHeaders,
) -> RequestHeaders {
    let site = &account.site;
    let profile = site.platform.profile();
    let shared = if client.dialect == dialect { dialect } else { Dialect::Chat };
    let mut out = forwarded(client.headers, &site.custom_headers, |name| crosses(shared, profile, name));
    let names_agent = || site.custom_headers.iter().any(|(name, _)| name == header::USER_AGENT);
    if let Some(agent) = client.agent.filter(|_| profile.has_header_defaults && !names_agent()) {
        out.set(header::USER_AGENT, agent.clone());
    }
    out.set(header::CONTENT_TYPE, JSON);
    if stream {
        out.set(header::ACCEPT, EVENT_STREAM);
    } else if profile.streams_responses_only {
        // These platforms stream to any client that would accept a stream.
        out.set(header::ACCEPT, JSON);
    } else if dialect == Dialect::Audio {
        out.set_default(header::ACCEPT, ANYTHING);
    } else {
        out.set_default(header::ACCEPT, JSON);
    }
    match dialect {
        Dialect::Messages => {
            out.set_default(ANTHROPIC_VERSION.0, ANTHROPIC_VERSION.1);
            let form = profile.messages_credential(account.oauth);
            if form.has_key() {
                out.set(X_API_KEY, credential.key.clone());
            }
            if form.has_bearer() {
                out.set(header::AUTHORIZATION, credential.bearer.clone());
            }
        }
        Dialect::Gemini if profile.code_assist.is_none() => out.set(X_GOOG_API_KEY, credential.key.clone()),
        _ => out.set(header::AUTHORIZATION, credential.bearer.clone()),
    }
    out
}

/// Builds the headers of a request without a body for a resource of an upstream, in no dialect. `accept` is the
/// default for clients that name none.
pub fn of_resource(
    client: &HeaderMap,
    custom: &[(HeaderName, HeaderValue)],
    credential: &CredentialHeaders,
    accept: &'static str,
) -> RequestHeaders {
    let mut out = forwarded(client, custom, always_crosses);
    out.set_default(header::ACCEPT, HeaderValue::from_static(accept));
    out.set(header::AUTHORIZATION, credential.bearer.clone());
    out
}

/// Adds the version and the betas with which a client of the messages API asks for a resource.
pub fn as_messages(out: &mut RequestHeaders, client: &HeaderMap) {
    for name in [&ANTHROPIC_VERSION.0, &betas::HEADER] {
        if let Some(value) = client.get(name) {
            out.set(name.clone(), value.clone());
        }
    }
    out.set_default(ANTHROPIC_VERSION.0, ANTHROPIC_VERSION.1);
}

/// Returns the client's headers that cross and the site's custom headers, without any credential.
fn forwarded(
    client: &HeaderMap,
    custom: &[(HeaderName, HeaderValue)],
    crosses: impl Fn(&HeaderName) -> bool,
) -> RequestHeaders {
    let mut out = RequestHeaders::with_capacity(8);
    let connection =
        ConnectionHeaders::of(client.get_all(header::CONNECTION).iter().map(HeaderValue::as_bytes));
    for (name, value) in client {
        if crosses(name)
            && !connection.names(name.as_str().as_bytes())
            && !value.as_bytes().trim_ascii().is_empty()
        {
            out.set_default(name.clone(), value.clone());
        }
    }
    // What a client says about its own request wins; how it introduces itself is up to the site.
    for (name, value) in custom {
        let is_given = out.get(name).is_some();
        if is_given && *name == betas::HEADER {
            let betas = betas::listed(value.to_str().unwrap_or_default()).map(str::to_owned);
            betas::add(&mut out, None, &betas.collect::<Vec<_>>());
        } else if !is_given || always_crosses(name) {
            out.set(name.clone(), value.clone());
        }
    }
    out.set_default(header::USER_AGENT, USER_AGENT);
    // A site's custom headers may not add a second credential beside ours; the client's are never forwarded.
    if !custom.is_empty() {
        for name in [header::AUTHORIZATION, X_API_KEY, X_GOOG_API_KEY] {
            out.remove(&name);
        }
    }
    out
}

/// Whether a client's header goes on to the upstream for every operation that [`crosses`] does not restrict further.
fn always_crosses(name: &HeaderName) -> bool {
    matches!(name.as_str(), "user-agent" | "accept" | "accept-language")
}

/// Whether a client's header goes on to the upstream.
fn crosses(dialect: Dialect, profile: &Profile, name: &HeaderName) -> bool {
    // Sent by every client and decided elsewhere: the common case leaves first.
    if matches!(
        name.as_str(),
        "host" | "content-length" | "authorization" | "content-type" | "connection" | "accept-encoding"
    ) {
        return false;
    }
    if matches!(dialect, Dialect::Completions | Dialect::Embeddings | Dialect::Images) {
        return name == header::USER_AGENT;
    }
    if always_crosses(name) {
        return true;
    }
    let name = name.as_str();
    if dialect == Dialect::Audio {
        return false;
    }
    if matches!(
        name,
        "conversation-id"
            | "conversation_id"
            | "openai-beta"
            | "originator"
            | "session-id"
            | "session_id"
            | "x-codex-beta-features"
            | "x-codex-turn-metadata"
            | "x-codex-turn-state"
    ) {
        return true;
    }
    // These select an account, which the caller may not choose.
    if matches!(name, "openai-organization" | "openai-project" | "chatgpt-account-id") {
        return false;
    }
    let has = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match dialect {
        Dialect::Messages => has(&["anthropic-", "x-claude-", "x-stainless-"]) || name == "x-app",
        Dialect::Responses => {
            has(&["openai-", "x-openai-", "x-stainless-", "chatgpt-"]) || profile.own_headers.contains(&name)
        }
        _ => false,
    }
}

/// The headers that a message's `Connection` names: they belong to that connection, and go no further
/// (RFC 9110 §7.6.1).
struct ConnectionHeaders<'a>(Vec<&'a [u8]>);

impl<'a> ConnectionHeaders<'a> {
    fn of(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let options = values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        // The usual options name no header; without other options nothing is allocated.
        let is_name = |option: &&[u8]| {
            !option.is_empty()
                && [b"keep-alive".as_slice(), b"close"].iter().all(|word| !option.eq_ignore_ascii_case(word))
        };
        Self(options.filter(is_name).collect())
    }

    fn names(&self, header: &[u8]) -> bool {
        self.0.iter().any(|named| named.eq_ignore_ascii_case(header))
    }
}

/// A check whether a header of an answer repeats a secret of its request. Mostly no value is as long as the credential,
/// and then the forms of the credential are not computed.
pub struct SecretCheck<'a> {
    channel: &'a Channel,
    credential: OnceCell<Mask>,
}

impl<'a> SecretCheck<'a> {
    pub fn of(channel: &'a Channel) -> Self {
        Self { channel, credential: OnceCell::new() }
    }

    pub fn repeats(&self, value: &[u8]) -> bool {
        let credential = || {
            let secret = self.channel.credential.as_ref()?.secret().expose();
            let may_stand_there = value.len() >= secret.trim().len();
            may_stand_there.then(|| self.credential.get_or_init(|| Mask::of(secret)))
        };
        self.channel.account.site.secrets().is_in(value) || credential().is_some_and(|mask| mask.is_in(value))
    }
}

/// Whether a `Retry-After` is a date, or seconds of at most thirty days.
fn is_believable_wait(value: &[u8]) -> bool {
    let text = std::str::from_utf8(value).unwrap_or_default().trim();
    let most = MAX_RETRY_AFTER.as_secs_f64();
    let is_date = text.starts_with(|letter: char| letter.is_ascii_uppercase()) && text.contains(':');
    is_date || text.parse().is_ok_and(|seconds: f64| (0.0..=most).contains(&seconds))
}

/// Writes the headers of an answer that are passed on to the client. A header that repeats a secret is left out.
pub fn downstream(upstream: &AnswerHeaders, repeats: impl Fn(&[u8]) -> bool, out: &mut HeaderMap) {
    let connection = ConnectionHeaders::of(upstream.get_all(&header::CONNECTION));
    for (name, value) in upstream.iter() {
        // Most other headers end here: the names that cross begin with these letters.
        if !matches!(name.first(), Some(b'X' | b'x' | b'R' | b'r' | b'O' | b'o' | b'A' | b'a')) {
            continue;
        }
        if connection.names(name) {
            continue;
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("retry-after") && !is_believable_wait(value) {
            continue;
        }
        let begins = |prefix: &str| {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        let name = if is("x-request-id") || is("request-id") {
            Ok(X_UPSTREAM_REQUEST_ID)
        } else if ["retry-after", "openai-processing-ms", "openai-poll-after-ms"].into_iter().any(is)
            || ["x-ratelimit-", "anthropic-ratelimit-", "x-codex-"].into_iter().any(begins)
        {
            HeaderName::from_bytes(name)
        } else {
            continue;
        };
        if repeats(value) {
            continue;
        }
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            out.insert(name, value);
        }
    }
}

/// Sets the headers of a streamed answer; they keep proxies in front of the gateway from holding it back.
pub fn event_stream(out: &mut HeaderMap) {
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    out.insert(header::CONNECTION, HeaderValue::from_static("keep-alive"));
    out.insert("x-accel-buffering", HeaderValue::from_static("no"));
}

/// Sets the `request-id` header, from which messages clients read their request id.
pub fn request_id(dialect: Dialect, id: RequestId, out: &mut HeaderMap) {
    if dialect == Dialect::Messages {
        out.insert("request-id", id.header_value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platform;

    #[test]
    fn what_is_named_in_connection_is_of_that_connection() {
        let named = |values: &[&'static str]| {
            let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
            let headers = ConnectionHeaders::of(values.into_iter());
            ["session_id", "originator", "keep-alive"].map(|name| headers.names(name.as_bytes()))
        };
        assert_eq!(named(&[]), [false; 3]);
        assert_eq!(named(&["keep-alive", "close,"]), [false; 3]);
        assert_eq!(named(&["keep-alive, Session_ID"]), [true, false, false]);
        assert_eq!(named(&["close", "x,originator , session_id"]), [true, true, false]);
    }

    #[test]
    fn a_clients_headers_win_over_the_sites_and_betas_add_up() {
        let header = |(name, value): (&str, &'static str)| {
            (HeaderName::try_from(name).expect("a name"), HeaderValue::from_static(value))
        };
        let client = [
            ("anthropic-beta", "a,b"),
            ("anthropic-version", "2023-06-01"),
            ("user-agent", "client/1"),
            ("session_id", "of-the-client"),
        ];
        let custom = [
            ("anthropic-beta", "site-beta, a"),
            ("anthropic-version", "2000-01-01"),
            ("user-agent", "site/1"),
            ("x-more", "1"),
        ];
        let client: HeaderMap = client.map(header).into_iter().collect();
        let out = forwarded(&client, &custom.map(header), |_| true);
        for (name, value) in [
            ("anthropic-beta", "a,b,site-beta"),
            ("anthropic-version", "2023-06-01"),
            ("user-agent", "site/1"),
            ("session_id", "of-the-client"),
            ("x-more", "1"),
        ] {
            let name = HeaderName::try_from(name).expect("a name");
            assert_eq!(out.get(&name).and_then(|value| value.to_str().ok()), Some(value), "{name}");
        }
    }

    #[test]
    fn only_the_listed_headers_cross() {
        let crosses =
            |dialect, name: &str| crosses(dialect, Platform::OpenAi.profile(), &name.parse().unwrap());
        for name in ["user-agent", "accept-language", "session_id", "openai-beta"] {
            assert!(crosses(Dialect::Chat, name), "{name}");
        }
        for name in [
            "authorization",
            "x-api-key",
            "x-goog-api-key",
            "cookie",
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "accept-encoding",
            "x-forwarded-for",
            "cf-connecting-ip",
            "x-switchyard-anything",
            "sec-websocket-key",
            "openai-organization",
            "openai-project",
            "chatgpt-account-id",
            "anthropic-beta",
            "x-unheard-of",
        ] {
            assert!(!crosses(Dialect::Chat, name), "{name}");
            if name != "anthropic-beta" {
                assert!(!crosses(Dialect::Responses, name), "{name}");
                assert!(!crosses(Dialect::Messages, name), "{name}");
            }
        }
        assert!(crosses(Dialect::Messages, "anthropic-beta"));
        assert!(crosses(Dialect::Messages, "x-stainless-lang"));
        assert!(crosses(Dialect::Responses, "openai-sentinel"));
        for name in ["session_id", "accept", "accept-language"] {
            assert!(!crosses(Dialect::Embeddings, name), "{name}");
        }
        assert!(crosses(Dialect::Embeddings, "user-agent"));
    }
}
