//! Hides credentials, in whatever form, in the texts that are reported and stored about a request. In a debug trace:
//!
//! - Headers pass by an allow-list: the value of any other header is hidden.
//! - Texts lose every secret that the gateway knows of this call, also percent-encoded and in base64. They lose the values of
//!   members with the name of a credential, and words that look like keys.
//! - Texts longer than the operator asked for are cut at a character boundary, after all that.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::credential_names;
use crate::mask::{HIDDEN, MIN_SECRET, Mask, is_public};
use crate::routing::{Channel, Site};

/// The secrets of one call.
#[derive(Default)]
pub(in crate::proxy) struct Secrets {
    mask: Mask,
}

/// Builds the mask of all secrets in a request to this channel, and of the client's own credential. For use when something
/// went wrong: every form of every secret is computed.
pub(in crate::proxy) fn sent(channel: &Channel, presented: Option<&HeaderValue>) -> Mask {
    let mut mask = channel.account.site.secrets().clone();
    if let Some(credential) = &channel.credential {
        mask.add(credential.secret().expose());
    }
    if let Some(token) = presented.and_then(|value| value.to_str().ok()) {
        mask.add(token.rsplit(' ').next().unwrap_or_default());
    }
    mask
}

impl Secrets {
    pub(in crate::proxy) fn add(&mut self, secret: &str) {
        self.mask.add(secret);
    }

    pub(super) fn add_site(&mut self, site: &Site) {
        self.mask.add_all(site.secrets());
    }

    /// Redacts a text for people, such as an error.
    pub(in crate::proxy) fn text(&self, text: &str) -> String {
        without_keys(&self.mask.hide_in(text))
    }

    /// Redacts a header map and writes it as JSON text.
    pub(in crate::proxy) fn headers(&self, headers: &HeaderMap) -> String {
        let mut shown = Map::new();
        for name in headers.keys() {
            let values = headers.get_all(name).iter().map(|value| {
                let text = String::from_utf8_lossy(value.as_bytes());
                if is_shown(name) { self.text(&text) } else { HIDDEN.to_owned() }
            });
            let values: Vec<String> = values.collect();
            let value = if values.len() == 1 { json!(values[0]) } else { json!(values) };
            shown.insert(name.as_str().to_owned(), value);
        }
        Value::Object(shown).to_string()
    }

    /// Returns how many bytes of a body must be examined to show `most` bytes of it.
    pub(in crate::proxy) fn window(&self, most: usize) -> usize {
        most.saturating_add(self.mask.longest()).saturating_add(MIN_SECRET)
    }

    /// Redacts a body of `total` bytes, of which `begun` are here, as JSON text of at most about `most` bytes. A JSON
    /// body stays as it is, any other becomes a JSON string.
    pub(in crate::proxy) fn body(&self, begun: &[u8], total: usize, most: usize) -> String {
        let window = self.window(most);
        let looked_at = &begun[..begun.len().min(window)];
        let text = String::from_utf8_lossy(looked_at);
        let mut text = without_keys(&without_named(&self.mask.hide_in(&text)));
        let is_whole = looked_at.len() == total;
        if !is_whole {
            // A secret cut in two is not found, so the end goes too.
            cut(&mut text, most.min(looked_at.len().saturating_sub(self.mask.longest())));
        }
        if is_whole && text.len() <= most {
            let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            return if is_json { text } else { json!(text).to_string() };
        }
        cut(&mut text, most);
        let stored = text.len();
        json!({ "__truncated": true, "preview": text, "originalBytes": total, "storedBytes": stored })
            .to_string()
    }
}

/// Returns a target with the values of its query hidden, except those that name a version or a form.
pub(in crate::proxy) fn target(base: &str, path_and_query: &str) -> String {
    let Some((path, query)) = path_and_query.split_once('?') else {
        return format!("{base}{path_and_query}");
    };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if !matches!(name, "beta" | "api-version" | "alt" | "stream" | "limit") => {
            format!("{name}={HIDDEN}")
        }
        _ => pair.to_owned(),
    });
    format!("{base}{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Whether a header describes the request, never the caller, and may be shown.
fn is_shown(name: &HeaderName) -> bool {
    if is_public(name) {
        return true;
    }
    let name = name.as_str();
    let prefixes = ["x-stainless-", "x-ratelimit-", "anthropic-ratelimit-"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
        || matches!(
            name,
            "cf-ray"
                | "connection"
                | "content-encoding"
                | "content-length"
                | "conversation-id"
                | "conversation_id"
                | "date"
                | "host"
                | "openai-model"
                | "openai-processing-ms"
                | "openai-version"
                | "originator"
                | "request-id"
                | "retry-after"
                | "server"
                | "session-id"
                | "session_id"
                | "transfer-encoding"
                | "user-agent"
                | "version"
                | "via"
                | "x-accel-buffering"
                | "x-app"
                | "x-claude-code-session-id"
                | "x-codex-beta-features"
                | "x-request-id"
                | "x-upstream-request-id"
        )
}

/// Hides the texts in members with the name of a credential. The JSON may be cut off, or stand in events.
fn without_named(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('"') {
        let (before, literal) = rest.split_at(open + 1);
        out.push_str(before);
        let end = end_of_literal(literal);
        let (name, behind) = literal.split_at(end);
        out.push_str(name);
        rest = behind;
        let Some(value) = value_behind(behind) else { continue };
        let (gap, value) = behind.split_at(behind.len() - value.len());
        let end = end_of_literal(value);
        if holds_credential(name.trim_end_matches('"'), &value[..end]) {
            out.push_str(gap);
            out.push_str(HIDDEN);
            out.push_str(if value[..end].ends_with('"') { "\"" } else { "" });
            rest = &value[end..];
        }
    }
    out.push_str(rest);
    out
}

/// Returns the end of a string literal, after its closing quote, given the text after the opening one; else the text's end.
fn end_of_literal(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the text after the opening quote of a member's string value; `None` when no such value follows.
fn value_behind(text: &str) -> Option<&str> {
    text.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')
}

/// Whether a member holds a credential. In lists of log probabilities a `token` is a piece of text, unless it looks like a
/// key.
fn holds_credential(name: &str, value: &str) -> bool {
    let is_text = name.eq_ignore_ascii_case("token") && (value.len() < 20 || value.contains(' '));
    !is_text && credential_names::is_member(name)
}

/// Hides words that look like keys of well-known services, and signed web tokens.
fn without_keys(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, word) = rest.split_at(start);
        out.push_str(before);
        let (word, behind) = word.split_at(word.find(|c| !is_part(c)).unwrap_or(word.len()));
        out.push_str(if looks_like_a_key(word) { HIDDEN } else { word });
        rest = behind;
    }
    out.push_str(rest);
    out
}

fn looks_like_a_key(word: &str) -> bool {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    (word.starts_with("sk-") && word.len() >= 20 && has_digit)
        || (word.starts_with("AIza") && word.len() >= 35)
        || (word.starts_with("eyJ") && word.len() >= 40 && word.matches('.').count() == 2)
}

/// Shortens to at most `most` bytes, at a character boundary.
fn cut(text: &mut String, most: usize) {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add("Hush/Hush+1");
        secrets
    }

    #[test]
    fn a_known_secret_is_hidden_in_every_form() {
        for text in ["Hush/Hush+1", "Hush%2FHush%2B1", "SHVzaC9IdXNoKzE=", "SHVzaC9IdXNoKzE"] {
            assert_eq!(secrets().text(&format!("a {text} b")), "a [redacted] b", "{text}");
        }
    }

    #[test]
    fn members_that_authenticate_lose_their_value() {
        for (text, expected) in [
            (r#"{"api_key":"a","b":1}"#, r#"{"api_key":"[redacted]","b":1}"#),
            (r#"{"Authorization" : "Bearer x"}"#, r#"{"Authorization" : "[redacted]"}"#),
            (r#"{"headers":{"X-Api-Key":"a\"b"},"c":2}"#, r#"{"headers":{"X-Api-Key":"[redacted]"},"c":2}"#),
            (r#"data: {"refreshToken":"cut of"#, r#"data: {"refreshToken":"[redacted]"#),
            (r#"{"max_tokens":5,"tokens":"x"}"#, r#"{"max_tokens":5,"tokens":"x"}"#),
            (r#"{"token":" the","logprob":-1}"#, r#"{"token":" the","logprob":-1}"#),
            (r#"{"token":"0123456789abcdefghij"}"#, r#"{"token":"[redacted]"}"#),
            (r#"{"password":null}"#, r#"{"password":null}"#),
            (r#"["password","x"]"#, r#"["password","x"]"#),
        ] {
            assert_eq!(without_named(text), expected);
        }
    }

    #[test]
    fn words_that_look_like_keys_are_hidden() {
        for (text, expected) in [
            ("key sk-abcdefghij0123456789, ok", "key [redacted], ok"),
            ("sk-learn and sk-the-quick-brown-fox-jumps", "sk-learn and sk-the-quick-brown-fox-jumps"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3", "[redacted]"),
            ("\u{fc}ber alles", "\u{fc}ber alles"),
        ] {
            assert_eq!(without_keys(text), expected);
        }
    }

    #[test]
    fn only_listed_headers_show_their_value() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer Hush/Hush+1"),
            ("x-api-key", "k"),
            ("cookie", "a=b"),
            ("x-own-secret", "s"),
            ("user-agent", "curl Hush/Hush+1"),
            ("content-type", "application/json"),
        ] {
            headers.insert(HeaderName::from_static(name), value.parse().expect("a value"));
        }
        headers.append("accept", "a/b".parse().expect("a value"));
        headers.append("accept", "c/d".parse().expect("a value"));
        let shown: Value = serde_json::from_str(&secrets().headers(&headers)).expect("JSON");
        let expected = json!({"authorization": HIDDEN, "x-api-key": HIDDEN, "cookie": HIDDEN,
            "x-own-secret": HIDDEN, "user-agent": "curl [redacted]", "content-type": "application/json",
            "accept": ["a/b", "c/d"]});
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_body_is_cut_at_a_character_and_says_so() {
        let text = "\u{e4}".repeat(600);
        let body: Value =
            serde_json::from_str(&secrets().body(text.as_bytes(), text.len(), 1001)).expect("JSON");
        assert_eq!(body["__truncated"], true);
        assert_eq!((&body["originalBytes"], &body["storedBytes"]), (&json!(1200), &json!(1000)));
        assert_eq!(body["preview"].as_str().map(str::len), Some(1000));
        assert_eq!(secrets().body(b"{\"a\":1}", 7, 1024), "{\"a\":1}");
        assert_eq!(secrets().body(b"data: x", 7, 1024), "\"data: x\"");
        // Only what is captured of a passing answer: its beginning, and its length.
        let begun: Value = serde_json::from_str(&secrets().body(b"data: x", 9000, 1024)).expect("JSON");
        assert_eq!(begun["originalBytes"], 9000);
    }

    #[test]
    fn a_secret_that_the_cut_tears_is_not_shown_in_part() {
        for pad in 1000..1040 {
            let text = format!("{}Hush/Hush+1 and more{}", "x".repeat(pad), "y".repeat(500));
            let shown = secrets().body(text.as_bytes(), text.len(), 1024);
            assert!(!shown.contains("Hush"), "{pad}: {shown}");
        }
    }

    #[test]
    fn a_target_hides_what_its_query_says() {
        assert_eq!(target("https://a", "/v1/x"), "https://a/v1/x");
        assert_eq!(
            target("https://a", "/v1/x?beta=true&k=1&flag"),
            "https://a/v1/x?beta=true&k=[redacted]&flag"
        );
    }
}
