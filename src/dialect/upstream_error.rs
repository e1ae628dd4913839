//! Reads the error that an upstream answers with.
//!
//! ```text
//! JSON   error.message, error as text, message, detail    else type/code; and what OpenRouter's provider said
//! HTML   Cloudflare's code and reason                     else title, else first h1, else its text
//! event  its data, as one of these
//! other  the text itself, cut at 400 characters
//! ```

use super::sse::{self, Scanner};
use super::tree::Node;
use crate::byte_order_mark;
use std::borrow::Cow;
use std::time::Duration;

/// The part of an error body that is read, in bytes.
const MAX_BODY: usize = 64 * 1024;
/// The longest plain text shown, in characters.
const MAX_TEXT: usize = 400;
/// The longest message of an error object, in characters. An API wrote it on purpose: validation errors name what they
/// want.
pub const MAX_MESSAGE: usize = 2000;
/// The longest name (`type`, `code`, `param`) kept, in characters.
pub const MAX_NAME: usize = 128;
/// The longest wait that an upstream is believed to ask for.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30 * 86_400);
/// The end of a text that was cut.
pub const CUT: &str = "...(truncated)";

/// Causes of `google.api.ErrorReason` that are about a key, its project or its billing.
const OF_KEY: [&str; 18] = [
    "API_KEY_INVALID",
    "API_KEY_SERVICE_BLOCKED",
    "API_KEY_HTTP_REFERRER_BLOCKED",
    "API_KEY_IP_ADDRESS_BLOCKED",
    "API_KEY_ANDROID_APP_BLOCKED",
    "API_KEY_IOS_APP_BLOCKED",
    "ACCESS_TOKEN_EXPIRED",
    "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
    "ACCESS_TOKEN_TYPE_UNSUPPORTED",
    "ACCOUNT_STATE_INVALID",
    "BILLING_DISABLED",
    "CONSUMER_INVALID",
    "CONSUMER_SUSPENDED",
    "CREDENTIALS_MISSING",
    "GCP_SUSPENDED",
    "SERVICE_DISABLED",
    "USER_BLOCKED_BY_ADMIN",
    "USER_PROJECT_DENIED",
];

/// OpenRouter's message for whatever its provider answers, which stands beside it.
const OF_PROVIDER: &str = "Provider returned error";

/// An upstream's error, fit to be shown to a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamError {
    /// The message: never empty, bounded, one line, without addresses or keys.
    pub message: String,
    /// `error.type`
    pub kind: Option<String>,
    /// `error.code`
    pub code: Option<String>,
    /// `error.param`
    pub param: Option<String>,
    /// Whether Google's details name our key, its project or its billing as the cause; its code says only that the
    /// request is bad.
    pub is_about_our_key: bool,
    /// Whether the gateway states the error, because the upstream's answer cannot be used or does not say what failed.
    pub is_ours: bool,
    /// The time until a retry makes sense, when the body states it.
    pub retry_after: Option<Duration>,
}

impl UpstreamError {
    /// The kind of our own error for a stream that broke without an error from the upstream.
    pub const BROKEN_STREAM: &str = "stream_error";

    /// Creates an error that the gateway states itself.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_ours: true, ..Self::default() }
    }

    /// Creates the error for an upstream's error in a stream that has no message.
    pub fn without_message() -> Self {
        Self::new("Upstream reported an error in the stream")
    }

    /// Returns the `error.code` of a failed response, a closed set in the SDKs: the upstream's code if it is spelled
    /// like one of them, else the nearest of them.
    pub fn response_code(&self) -> &str {
        let is_word = |code: &&str| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        match (self.code.as_deref().filter(is_word), self.kind.as_deref()) {
            (Some(code), _) => code,
            (None, Some("rate_limit_error" | "RESOURCE_EXHAUSTED")) => "rate_limit_exceeded",
            _ => "server_error",
        }
    }

    /// Reads an error object (or text) as it stands in a body or in a stream's event: `error` itself or its container.
    /// `None` when it has no message, type or code.
    pub fn of(value: &Node<'_>) -> Option<Self> {
        // Some Google surfaces wrap the body in an array.
        let root = value.items().first().unwrap_or(value);
        let error = root.get("error").filter(|error| is_error(error)).unwrap_or(root);
        let mut stated = Self::stated(error, root)?;
        if let Some(raw) = error.path(&["metadata", "raw"]).filter(|_| stated.message == OF_PROVIDER) {
            let words = provider_words(raw);
            if !words.is_empty() {
                stated.message = clean(&format!("{OF_PROVIDER}: {words}"), MAX_MESSAGE);
            }
        }
        Some(stated)
    }

    /// Reads an error object and the object that holds it.
    fn stated<'n, 'a>(error: &'n Node<'a>, root: &'n Node<'a>) -> Option<Self> {
        let named = |key: &str| name(error.get(key)).or_else(|| name(root.get(key)));
        let kind = name(error.get("type")).filter(|kind| kind != "error");
        let kind = kind.or_else(|| name(error.get("status").filter(|status| status.is_string())));
        let code = named("code");
        let places =
            [(error, "message"), (root, "message"), (error, "detail"), (root, "detail"), (root, "msg")];
        let places = places.into_iter().filter_map(|(holder, key)| holder.get(key));
        // MiniMax's own form, with status 200.
        let told =
            root.get("base_resp").filter(|told| told.get("status_code").and_then(Node::f64) != Some(0.0));
        let of_minimax = told.and_then(|told| told.get("status_msg"));
        let message = std::iter::once(error)
            .chain(places)
            .chain(of_minimax)
            .filter_map(Node::str)
            .map(|text| clean(&text, MAX_MESSAGE))
            .find(|text| !text.is_empty());
        // Some put a framework's description of the request there, as an object.
        let structured = || {
            let holder = [error, root].into_iter().filter_map(|holder| holder.get("message"));
            let mut said = holder.filter(|said| !said.members().is_empty() || !said.items().is_empty());
            Some(clean(said.next()?.raw(), MAX_MESSAGE))
        };
        let message = message.or_else(structured).or_else(|| match (&kind, &code) {
            (Some(kind), Some(code)) => Some(format!("{kind}/{code}")),
            (one, other) => one.as_ref().or(other.as_ref()).cloned(),
        })?;
        let mut details = error.items_at("details").iter();
        let is_about_our_key = details.any(|detail| OF_KEY.contains(&&*detail.str_at("reason")));
        let retry_after = retry_after(error, root);
        let param = named("param");
        Some(Self { message, kind, code, param, is_about_our_key, is_ours: false, retry_after })
    }

    /// Returns the names by which the upstream's program identifies the error: its type, its code, and a cause about
    /// our key.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let cause = self.is_about_our_key.then_some(OF_KEY[0]);
        [self.kind.as_deref(), self.code.as_deref(), cause].into_iter().flatten()
    }

    /// Applies `hide`, which removes secrets from a text, to the message and every name of the error.
    pub fn hide(&mut self, hide: impl FnMut(&mut String)) {
        let fields = [&mut self.kind, &mut self.code, &mut self.param];
        fields.into_iter().flatten().chain([&mut self.message]).for_each(hide);
    }
}

/// Whether the value of an `error` member states an error: `null`, `""` and `{}` do not, nor does an object that
/// contains only these and zeros.
pub(super) fn is_error(value: &Node<'_>) -> bool {
    let is_text = |value: &Node<'_>| value.text().is_some_and(|text| !text.is_blank());
    let says = |value: &Node<'_>| match value.raw().as_bytes() {
        [b'n' | b'f', ..] => false,
        [b'"', ..] => is_text(value),
        [b'{', ..] => !value.members().is_empty(),
        [b'[' | b't', ..] => true,
        _ => value.f64() != Some(0.0),
    };
    is_text(value) || value.members().iter().any(|(_, value)| says(value))
}

/// Reads an error body as an upstream sent it; the message is the detail without the status.
pub fn read(status: u16, body: &[u8]) -> UpstreamError {
    let body = &body[..body.len().min(MAX_BODY)];
    let text = String::from_utf8_lossy(body);
    let text = unframed(text.trim_start_matches(byte_order_mark::CHAR));
    if let Some(error) = Node::parse(&text).ok().and_then(|value| UpstreamError::of(&value)) {
        return error;
    }
    let detail = if looks_like_html(&text) { html_detail(status, &text) } else { clean(&text, MAX_TEXT) };
    if detail.is_empty() {
        return UpstreamError::new(format!("Upstream returned HTTP {status}"));
    }
    UpstreamError { is_ours: false, ..UpstreamError::new(detail) }
}

/// Returns the data of the first event, where an error has the form of a stream.
fn unframed(text: &str) -> Cow<'_, str> {
    if !["data:", "event:"].iter().any(|field| text.trim_start().starts_with(field)) {
        return Cow::Borrowed(text);
    }
    let mut first = None;
    let mut scanner = Scanner::new(MAX_BODY);
    let mut take = |event: sse::Event<'_>| {
        first.get_or_insert_with(|| sse::text(event.data).into_owned());
    };
    scanner.feed(text.as_bytes(), &mut take);
    scanner.finish(&mut take);
    first.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns the text for the log and the judges: `[upstream:<path>] Upstream returned HTTP <status>: <detail>`.
pub fn upstream_text(path: &str, status: u16, detail: &str) -> String {
    let prefix = format!("[upstream:{path}] Upstream returned HTTP {status}");
    // The detail of an empty body is that sentence already.
    if detail.is_empty() || prefix.ends_with(detail) { prefix } else { format!("{prefix}: {detail}") }
}

// === JSON ===

/// Returns the words of a provider's error, which OpenRouter passes on as text, as a page or as an object.
fn provider_words(raw: &Node<'_>) -> String {
    let text = raw.str().unwrap_or(Cow::Borrowed(raw.raw()));
    if looks_like_html(&text) {
        return html_detail(502, &text);
    }
    let parsed = Node::parse(&text).ok();
    let stated = parsed.as_ref().and_then(|root| {
        let error = root.get("error").filter(|error| is_error(error)).unwrap_or(root);
        UpstreamError::stated(error, root)
    });
    stated.map_or_else(|| clean(&text, MAX_TEXT), |error| error.message)
}

fn name(value: Option<&Node<'_>>) -> Option<String> {
    let value = value.filter(|value| value.is_string() || value.is_number())?;
    let text = clean(value.str().as_deref().unwrap_or(value.raw()), MAX_NAME);
    (!text.is_empty()).then_some(text)
}

/// Reads the wait from `retry_after` or `resets_in_seconds` in seconds, `retry_after_ms`, or Google's
/// `details[].retryDelay: "12s"`; at most 30 days.
fn retry_after(error: &Node<'_>, root: &Node<'_>) -> Option<Duration> {
    let at = |holder: &Node<'_>, key: &str| holder.get(key).and_then(Node::f64);
    let number = |key: &str| at(error, key).or_else(|| at(root, key));
    let mut details = error.items_at("details").iter();
    let delay = details.find_map(|detail| detail.str_at("retryDelay").strip_suffix('s')?.parse().ok());
    let seconds = number("retry_after")
        .or_else(|| number("resets_in_seconds"))
        .or_else(|| number("retry_after_ms").map(|ms| ms / 1000.0))
        .or(delay)?;
    let seconds = seconds.min(MAX_RETRY_AFTER.as_secs_f64());
    Duration::try_from_secs_f64(seconds).ok().filter(|wait| !wait.is_zero())
}

// === HTML ===

/// The beginnings of pages, and of pieces of one.
const TAGS: [&str; 12] = [
    "<!doctype html",
    "<!--",
    "<html",
    "<head",
    "<body",
    "<title",
    "<h1",
    "<h2",
    "<p>",
    "<pre",
    "<div",
    "<center",
];

/// Whether a body is an HTML page.
pub(super) fn looks_like_html(text: &str) -> bool {
    let start = text.trim_start_matches(byte_order_mark::CHAR).trim_start();
    let start = start.get(..start.len().min(15)).unwrap_or_default().to_ascii_lowercase();
    TAGS.iter().any(|tag| start.starts_with(tag))
}

/// Returns the subject of an HTML page: Cloudflare's code and reason, else its title, else its first heading, else its text.
pub(super) fn html_detail(status: u16, page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    let title = element(page, &lower, "title");
    if lower.contains("cloudflare") {
        return cloudflare(status, title.as_deref(), &lower);
    }
    let has_code = || lower.contains("<script") || lower.contains("<style");
    let text = || (!has_code()).then(|| clean(&without_tags(page), MAX_TEXT));
    title.or_else(|| element(page, &lower, "h1")).or_else(text).unwrap_or_default()
}

fn cloudflare(status: u16, title: Option<&str>, lower: &str) -> String {
    // "example.com | 522: Connection timed out"
    let titled = title.and_then(|title| {
        let title = title.rsplit('|').next().unwrap_or(title).trim();
        let (code, reason) = title.split_once(':')?;
        Some((code.trim().parse::<u16>().ok()?, reason.trim()))
    });
    if let Some((code, reason)) = titled.filter(|(_, reason)| !reason.is_empty()) {
        return format!("Cloudflare {code}: {reason}");
    }
    let named = lower.split_once("error code").and_then(|(_, rest)| {
        let digits = rest.trim_start_matches([':', ' ']);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse::<u16>().ok()
    });
    let code = named.unwrap_or(status);
    let reason = if status >= 500 { "origin host error" } else { "request blocked" };
    format!("Cloudflare {code}: {reason}")
}

/// Returns the text of the first element of this name. `lower` is `page` in lower case, byte for byte.
fn element(page: &str, lower: &str, name: &str) -> Option<String> {
    let start = lower.find(&format!("<{name}"))?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find(&format!("</{name}"))?;
    let text = clean(&without_tags(&page[start..end]), MAX_TEXT);
    (!text.is_empty()).then_some(text)
}

fn without_tags(page: &str) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    for c in page.chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => in_tag = false,
            _ if !in_tag => text.push(c),
            _ => {}
        }
    }
    text
}

// === cleaning ===

/// Reduces a text to one line of at most `limit` characters, without addresses or keys.
fn clean(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        // The text is cut below; this only bounds the work.
        if out.len() > limit * 4 + 4 {
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&without_secrets(word));
    }
    match out.char_indices().nth(limit) {
        Some((end, _)) => {
            out.truncate(end);
            out.push_str(CUT);
            out
        }
        None => out,
    }
}

/// Removes the addresses and keys from a line, and keeps its blanks.
pub fn without_addresses(line: &str) -> String {
    let is_blank = |c: char| c.is_whitespace() || c.is_control();
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest.find(is_blank).unwrap_or(rest.len());
        let end = word + rest[word..].find(|c: char| !is_blank(c)).unwrap_or(rest.len() - word);
        out.push_str(&without_secrets(&rest[..word]));
        out.push_str(&rest[word..end]);
        rest = &rest[end..];
    }
    out
}

/// Removes the address or key from a word.
fn without_secrets(word: &str) -> Cow<'_, str> {
    if let Some(at) = word.find("://") {
        let scheme = word[..at].rfind(|c: char| !c.is_ascii_alphanumeric() && !"+.-".contains(c));
        let start =
            scheme.map_or(0, |before| before + word[before..].chars().next().map_or(1, char::len_utf8));
        let end = word[at + 3..]
            .find(['"', '\'', ')', '>', ']', ',', ';', '`'])
            .map_or(word.len(), |end| at + 3 + end);
        return format!("{}[address]{}", &word[..start], without_secrets(&word[end..])).into();
    }
    let key = word.find("sk-").filter(|&at| !word[..at].ends_with(|c: char| c.is_ascii_alphanumeric()));
    if let Some(at) = key {
        let rest = &word[at..];
        let inside = |c: char| c.is_ascii_alphanumeric() || "-_*.".contains(c);
        let end = rest.find(|c: char| !inside(c)).unwrap_or(rest.len());
        if end >= 11 {
            return format!("{}[key]{}", &word[..at], &rest[end..]).into();
        }
    }
    word.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(status: u16, body: &str) -> String {
        read(status, body.as_bytes()).message
    }

    #[test]
    fn the_detail_is_found_in_every_kind_of_body() {
        for (status, body, wanted) in [
            (400, r#"{"error":{"message":" Too\n long ","type":"t"}}"#, "Too long"),
            (400, r#"{"message":"root"}"#, "root"),
            (400, r#"{"error":{"message":"cut \ud83d","code":"c"}}"#, "cut \u{fffd}"),
            (400, r#"{"error":"plain"}"#, "plain"),
            (422, r#"{"detail":"missing field"}"#, "missing field"),
            (400, r#"[{"error":{"code":400,"message":"wrapped","status":"INVALID_ARGUMENT"}}]"#, "wrapped"),
            (400, r#"{"error":{"type":"t","code":"c"}}"#, "t/c"),
            (400, r#"{"error":{"code":7}}"#, "7"),
            (500, "", "Upstream returned HTTP 500"),
            (500, "  \n", "Upstream returned HTTP 500"),
            (500, "upstream  \n went away", "upstream went away"),
            (502, "<html><head><title>502 Bad\nGateway</title></head>", "502 Bad Gateway"),
            (500, "<!DOCTYPE html><body><h1 class=x>Oh <b>no</b></h1>", "Oh no"),
            (
                522,
                "<html><title>a.example | 522: Connection timed out</title>cloudflare",
                "Cloudflare 522: Connection timed out",
            ),
            (
                403,
                "<html><title>Denied</title>Cloudflare Error code 1020",
                "Cloudflare 1020: request blocked",
            ),
            (520, "<html>cloudflare", "Cloudflare 520: origin host error"),
            (400, "<pre>Cannot POST /v1/<b>x</b></pre>", "Cannot POST /v1/x"),
            (400, "<html><style>a{}</style>", "Upstream returned HTTP 400"),
            (400, "\u{feff}{\"error\":{\"message\":\"marked\"}}", "marked"),
            (400, "data: {\"error\":{\"message\":\"told\"}}\n\n", "told"),
            (400, "event: error\r\ndata: {\"message\":\"told\"}\r\n\r\ndata: [DONE]\r\n\r\n", "told"),
            (400, "event: error\ndata: in words", "in words"),
            (200, "{}", "{}"),
            (
                200,
                r#"{"choices":null,"base_resp":{"status_code":1008,"status_msg":"no balance"}}"#,
                "no balance",
            ),
        ] {
            assert_eq!(message(status, body), wanted, "{body}");
        }
    }

    #[test]
    fn the_words_of_openrouters_provider_are_kept() {
        let told = |message: &str, raw: &str| {
            let body =
                r#"{"error":{"message":"MESSAGE","code":400,"metadata":{"provider_name":"P","raw":RAW}}}"#;
            read(400, body.replace("MESSAGE", message).replace("RAW", raw).as_bytes()).message
        };
        for (raw, wanted) in [
            (
                r#""{\"error\":{\"message\":\"prompt is too long\"}}""#,
                "Provider returned error: prompt is too long",
            ),
            (
                r#"{"type":"error","error":{"message":"no such tool"}}"#,
                "Provider returned error: no such tool",
            ),
            (r#""upstream  connect error""#, "Provider returned error: upstream connect error"),
            (r#""<html><title>502 Bad Gateway</title></html>""#, "Provider returned error: 502 Bad Gateway"),
            (r#""""#, "Provider returned error"),
            ("null", "Provider returned error"),
        ] {
            assert_eq!(told("Provider returned error", raw), wanted, "{raw}");
        }
        assert_eq!(told("No endpoints found", r#""x""#), "No endpoints found");
    }

    #[test]
    fn the_names_and_the_hint_are_kept() {
        let body = br#"{"error":{"message":"m","type":"t","code":"context_length_exceeded","param":"messages","retry_after":1.5}}"#;
        let error = read(400, body);
        assert_eq!(error.kind.as_deref(), Some("t"));
        assert_eq!(error.code.as_deref(), Some("context_length_exceeded"));
        assert_eq!(error.param.as_deref(), Some("messages"));
        assert_eq!(error.retry_after, Some(Duration::from_millis(1500)));

        let body = br#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
        assert_eq!(read(529, body).kind.as_deref(), Some("overloaded_error"));
        let body = br#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"12s"}]}}"#;
        let error = read(429, body);
        assert_eq!((error.code.as_deref(), error.kind.as_deref()), (Some("429"), Some("RESOURCE_EXHAUSTED")));
        assert_eq!(error.retry_after, Some(Duration::from_secs(12)));
        let body = br#"{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":[{},{"reason":"API_KEY_INVALID"}]}}"#;
        let error = read(400, body);
        assert_eq!(error.names().collect::<Vec<_>>(), ["INVALID_ARGUMENT", "400", "API_KEY_INVALID"]);
    }

    #[test]
    fn an_error_that_says_nothing_is_none() {
        for (value, wanted) in [
            ("null", false),
            (r#"" ""#, false),
            ("{}", false),
            (r#"{"message":"","type":null,"code":0}"#, false),
            (r#"{"message":"","code":500}"#, true),
            (r#"{"message":"m"}"#, true),
            (r#""m""#, true),
        ] {
            assert_eq!(is_error(&Node::parse(value).unwrap()), wanted, "{value}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let cut = message(500, &"é".repeat(500));
        assert_eq!(cut, "é".repeat(400) + "...(truncated)");
        assert_eq!(message(500, &"é".repeat(400)), "é".repeat(400));
    }

    #[test]
    fn a_failed_response_has_a_code_of_its_kind() {
        for (error, wanted) in [
            (
                r#"{"type":"invalid_request_error","code":"context_length_exceeded"}"#,
                "context_length_exceeded",
            ),
            (r#"{"type":"rate_limit_error"}"#, "rate_limit_exceeded"),
            (r#"{"code":429,"status":"RESOURCE_EXHAUSTED"}"#, "rate_limit_exceeded"),
            (r#"{"type":"overloaded_error"}"#, "server_error"),
            (r#"{"code":503,"status":"UNAVAILABLE"}"#, "server_error"),
        ] {
            let read = UpstreamError::of(&Node::parse(error).unwrap()).unwrap();
            assert_eq!(read.response_code(), wanted, "{error}");
        }
        assert_eq!(UpstreamError::new("gone").response_code(), "server_error");
    }

    #[test]
    fn addresses_and_keys_are_left_out() {
        for (body, wanted) in [
            ("dial https://u:p@host.example:8/v1?key=1 failed", "dial [address] failed"),
            ("Post \"http://10.0.0.1/v1\": refused", "Post \"[address]\": refused"),
            ("bad key sk-abcdefgh1234.", "bad key [key]"),
            ("bad key 'sk-abcd***6789'", "bad key '[key]'"),
            ("a risk-averse sk-1 task", "a risk-averse sk-1 task"),
        ] {
            assert_eq!(message(500, body), wanted);
        }
        let mut error = UpstreamError::new("no such user tok-9");
        error.code = Some("tok-9".into());
        error.hide(|text| *text = text.replace("tok-9", "…"));
        assert_eq!(error.message, "no such user …");
        assert_eq!(error.code.as_deref(), Some("…"));
    }

    #[test]
    fn the_log_text_names_path_and_status() {
        assert_eq!(
            upstream_text("/v1/messages", 400, "m"),
            "[upstream:/v1/messages] Upstream returned HTTP 400: m"
        );
        let empty = read(500, b"").message;
        assert_eq!(upstream_text("/v1/x", 500, &empty), "[upstream:/v1/x] Upstream returned HTTP 500");
    }

    proptest! {
        #[test]
        fn any_body_gives_a_short_clean_line(status in 100u16..600, body in "(<[a-z1/]*>|cloudflare|error code|[\"{}:|]|sk-|://|\\PC|\n){0,60}") {
            let message = message(status, &body);
            prop_assert!(!message.is_empty() && message.chars().count() <= MAX_TEXT + 14);
            prop_assert!(!message.contains('\n'));
        }

        #[test]
        fn any_bytes_are_read(body in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(!read(500, &body).message.is_empty());
        }
    }
}
