//! Removes secrets from texts: when an upstream repeats a secret that it was sent, it goes no further.
//!
//! A secret is searched for as it is and in base64, each in any escaped form ([`Form`]). The time is linear in the length of
//! the text, for each of these.

mod form;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use hyper::header::{HeaderName, HeaderValue};

use self::form::Form;
pub use self::form::MIN_SECRET;

/// The text that replaces a secret.
pub const HIDDEN: &str = "[redacted]";
/// Minimum length of a part of a header's value that counts as a secret of its own.
const MIN_PART: usize = 8;
/// The marks that readers of errors append to a text that they have cut.
const CUT: [&str; 2] = ["...(truncated)", "…"];

/// The secrets that one request carries.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// The texts of each secret, the longest first.
    forms: Vec<Form>,
}

// === impl Mask ===

impl Mask {
    /// Builds a mask of one secret.
    pub fn of(secret: &str) -> Self {
        let mut mask = Self::default();
        mask.add(secret);
        mask
    }

    /// Adds all secrets of another mask.
    pub fn add_all(&mut self, other: &Self) {
        let new: Vec<Form> = other.forms.iter().filter(|form| !self.forms.contains(form)).cloned().collect();
        self.forms.extend(new);
        self.sort();
    }

    pub fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < MIN_SECRET {
            return;
        }
        for text in [
            secret.to_owned(),
            STANDARD.encode(secret),
            STANDARD_NO_PAD.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
        ] {
            let form = Form::new(text);
            if !self.forms.contains(&form) {
                self.forms.push(form);
            }
        }
        self.sort();
    }

    fn sort(&mut self) {
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.text().len()));
    }

    /// Adds a header that an operator configured for a site. Its value may be a credential after a scheme word, a pair
    /// of name and password, or a cookie among others. Headers that only describe the request are not secret.
    pub fn add_header(&mut self, name: &HeaderName, value: &HeaderValue) {
        let Ok(value) = value.to_str() else { return };
        if is_public(name) {
            return;
        }
        self.add(value);
        for part in value.split([' ', ';', ',', '=']).filter(|part| part.len() >= MIN_PART) {
            self.add(part);
        }
        let basic = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
        let pair = basic.and_then(|(_, pair)| String::from_utf8(STANDARD.decode(pair.trim()).ok()?).ok());
        if let Some((name, password)) = pair.as_deref().and_then(|pair| pair.split_once(':')) {
            self.add_pair(name, password);
        }
    }

    /// Adds a name and a password, as sent to an outbound proxy. The name alone is no secret.
    pub fn add_pair(&mut self, name: &str, password: &str) {
        self.add(&format!("{name}:{password}"));
        self.add(password);
    }

    /// Adds the values of a cookie header, which sites quote without their names.
    pub fn add_cookies(&mut self, line: &str) {
        let values = line.split(';').filter_map(|pair| pair.split_once('='));
        values.filter(|(_, value)| value.trim().len() >= MIN_PART).for_each(|(_, value)| self.add(value));
    }

    /// Adds the values of an address's query: some upstreams expect their key there.
    pub fn add_query(&mut self, query: &str) {
        for value in query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value) {
            if value.len() >= MIN_PART {
                self.add(value);
                self.add(&percent_encoding::percent_decode_str(value).decode_utf8_lossy());
            }
        }
    }

    /// Whether these bytes contain a secret.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| form.find(bytes).is_some())
    }

    /// Whether a name contains a secret. A secret as short as `ollama` is a word there, which people enter as a key
    /// where none is required.
    pub fn is_in_name(&self, name: &str) -> bool {
        self.forms.iter().any(|form| form.text().len() >= MIN_PART && form.find(name.as_bytes()).is_some())
    }

    /// Hides the secrets in a name, except those that [`Self::is_in_name`] takes for words.
    pub fn hide_in_name(&self, name: &mut String) {
        if self.is_in_name(name) {
            self.hide(name);
        }
    }

    /// Returns the text without the secrets, and without the beginning of one where the text was cut.
    pub fn hide_in<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for form in &self.forms {
            if let Some(replaced) = form.replace(&text, HIDDEN) {
                text = Cow::Owned(replaced);
            }
        }
        let cut = CUT.into_iter().find_map(|mark| Some((text.strip_suffix(mark)?, mark)));
        if let Some((begun, mark)) = cut
            && let torn @ 1.. = self.torn(begun)
        {
            let whole = &begun[..begun.len() - torn];
            text = Cow::Owned(format!("{whole}{HIDDEN}{mark}"));
        }
        text
    }

    /// Hides the secrets like [`Self::hide_in`], in place.
    pub fn hide(&self, text: &mut String) {
        if let Cow::Owned(hidden) = self.hide_in(text) {
            *text = hidden;
        }
    }

    /// Returns the number of bytes at the end of a text that are the beginning of a secret.
    fn torn(&self, text: &str) -> usize {
        self.forms.iter().map(|form| form.torn(text.as_bytes())).max().unwrap_or(0)
    }

    /// Returns the length of the longest spelling of a secret, in bytes.
    pub fn longest(&self) -> usize {
        self.forms.iter().map(Form::longest).max().unwrap_or(0)
    }
}

/// Whether the header's values are names of formats and versions, which are no secrets.
pub fn is_public(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "accept"
            | "accept-encoding"
            | "accept-language"
            | "anthropic-beta"
            | "anthropic-version"
            | "cache-control"
            | "content-type"
            | "openai-beta"
    )
}

/// Masks a secret to show it: an empty text stays empty, up to 8 characters become `****`, longer ones keep the first 4
/// and the last 4 around `****`.
pub fn of_secret(secret: &str) -> String {
    let count = secret.chars().count();
    match count {
        0 => String::new(),
        1..=8 => "****".to_owned(),
        _ => {
            let head: String = secret.chars().take(4).collect();
            let tail: String = secret.chars().skip(count - 4).collect();
            format!("{head}****{tail}")
        }
    }
}

/// Masks the password of a proxy address. Without a password the user name may be the key, and is masked too.
pub fn of_proxy_url(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://") else { return Cow::Borrowed(url) };
    let Some((user, host)) = rest.rsplit_once('@') else { return Cow::Borrowed(url) };
    match user.split_once(':') {
        Some((name, password)) if !password.is_empty() => {
            Cow::Owned(format!("{scheme}://{name}:****@{host}"))
        }
        _ => Cow::Owned(format!("{scheme}://****@{host}")),
    }
}

/// Masks the parts of a notification target that may be a key: anyone who knows the path of a webhook can use it.
pub fn of_target(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://") else { return Cow::Owned(of_secret(url)) };
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(host_end);
    let (user, host) = match authority.rsplit_once('@') {
        Some((_, host)) => ("****@", host),
        None => ("", authority),
    };
    match target {
        "" | "/" if user.is_empty() => Cow::Borrowed(url),
        "" | "/" => Cow::Owned(format!("{scheme}://{user}{host}{target}")),
        _ => Cow::Owned(format!("{scheme}://{user}{host}/****")),
    }
}

/// Whether a value has the form that [`of_secret`] gives a secret.
pub fn is_of_secret(value: &str) -> bool {
    value.contains("****") && of_secret(value) == value
}

/// Whether an address has the form that [`of_proxy_url`] gives one with a password.
pub fn is_of_proxy_url(url: &str) -> bool {
    url.contains("****@") && of_proxy_url(url) == url
}

/// Whether an address has the form that [`of_target`] gives one with a path.
pub fn is_of_target(url: &str) -> bool {
    url.contains("****") && of_target(url) == url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(mask: &Mask, text: &str) -> String {
        mask.hide_in(text).into_owned()
    }

    #[test]
    fn a_secret_is_hidden_in_every_form() {
        let mut mask = Mask::default();
        mask.add("Hush/Hush+\"1");
        for text in [
            "Hush/Hush+\"1",
            "Hush/Hush+\\\"1",
            "Hush%2FHush%2B%221",
            "Hush%2fHush+&quot;1",
            "SHVzaC9IdXNoKyIx",
        ] {
            assert_eq!(shown(&mask, &format!("a {text} b")), "a [redacted] b", "{text}");
            assert!(mask.is_in(text.as_bytes()));
        }
        assert_eq!(shown(&mask, "Hush"), "Hush");
    }

    #[test]
    fn a_mask_takes_over_what_another_one_hides() {
        let mut mask = Mask::of("0123456789");
        mask.add_all(&Mask::of("abcdefghijkl"));
        assert_eq!(shown(&mask, "0123456789 abcdefghijkl abc"), format!("{HIDDEN} {HIDDEN} abc"));
        assert_eq!(mask.longest(), Mask::of("0123456789").longest());
    }

    #[test]
    fn a_header_is_a_secret_in_whole_and_in_part() {
        let mask = |name: &'static str, value: &'static str| {
            let mut mask = Mask::default();
            mask.add_header(&HeaderName::from_static(name), &HeaderValue::from_static(value));
            mask
        };
        for (name, value, text, expected) in [
            ("x-gate", "open sesame", "no open sesame here", "no [redacted] here"),
            ("x-auth", "Token 0123456789", "no 0123456789 here", "no [redacted] here"),
            ("x-auth", "Basic bmFtZTpwYXNzd29yZA==", "no password here", "no [redacted] here"),
            ("x-auth", "Basic bmFtZTpwYXNzd29yZA==", "no name:password", "no [redacted]"),
            ("cookie", "a=b; session=0123456789", "0123456789?", "[redacted]?"),
            ("content-type", "application/json", "only application/json", "only application/json"),
            ("x-n", "1", "1 of 1", "1 of 1"),
        ] {
            assert_eq!(shown(&mask(name, value), text), expected, "{name}: {value}");
        }
    }

    #[test]
    fn the_credentials_of_a_proxy_and_of_an_address_are_secrets() {
        let mut mask = Mask::default();
        mask.add_pair("ada", "love/lace");
        mask.add_query("key=abc%2Fdefgh&v=1");
        for text in ["love/lace", "ada:love/lace", "YWRhOmxvdmUvbGFjZQ==", "abc%2Fdefgh", "abc/defgh"] {
            assert_eq!(shown(&mask, text), HIDDEN, "{text}");
        }
        assert_eq!(shown(&mask, "ada v=1"), "ada v=1");
    }

    #[test]
    fn a_secret_that_a_cut_has_torn_is_not_shown_in_part() {
        let mut mask = Mask::default();
        mask.add("0123456789");
        for (length, mark) in (4..10).zip(CUT.into_iter().cycle()) {
            let text = format!("key {}{mark}", &"0123456789"[..length]);
            assert_eq!(shown(&mask, &text), format!("key {HIDDEN}{mark}"), "{length}");
        }
        assert_eq!(shown(&mask, "key 012345"), "key 012345", "nothing was cut");
    }

    #[test]
    fn the_mask_of_any_secret_is_known_by_its_form() {
        for (value, expected) in [
            ("****", true),
            ("sk-a****ghij", true),
            ("ключ****вери", true),
            ("sk-ab****ghij", false),
            ("a****", false),
            ("*****", false),
            ("a secret", false),
            ("", false),
        ] {
            assert_eq!(is_of_secret(value), expected, "{value}");
        }
        for (url, is_proxy, is_target) in [
            ("http://u:****@p.example", true, false),
            ("http://****@p.example", true, true),
            ("http://u:secret@p.example/****", false, false),
            ("https://h.example/****", false, true),
            ("https://h.example/T/****", false, false),
            ("abcd****wxyz", false, true),
        ] {
            assert_eq!((is_of_proxy_url(url), is_of_target(url)), (is_proxy, is_target), "{url}");
        }
    }
}
