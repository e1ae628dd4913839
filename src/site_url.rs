//! Addresses of sites and of their data-plane endpoints.
//!
//! ```text
//! as typed                       canonical (detection looks at it)   persisted (stored, compared, returned)
//! " Api.Example.com/v1/ "        https://api.example.com/v1          https://api.example.com
//! https://a.example/api/v1/?k=1  https://a.example/api/v1            https://a.example/api/v1
//! ```
//!
//! Only `http` and `https` with a host are accepted, without a user name or password: an address that the gateway
//! cannot call, or would call without a part of it, is refused at the edge. Host names must be ASCII; an international
//! name is written in its `xn--` form.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum length of a stored address, in characters.
const MAX_CHARS: usize = 500;

/// Paths that belong to the protocol, not to the site: the platform adapters append them themselves.
const PROTOCOL_PATHS: [&str; 7] = [
    "/v1",
    "/v1beta",
    "/v1/models",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models",
];

/// The address of a site: scheme, host, a port if it is not the scheme's default, and a path without trailing slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteUrl {
    origin: String,
    host: String,
    port: Option<u16>,
    path: String,
}

/// The reason why an address was refused, for the person who typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(pub &'static str);

// === impl SiteUrl ===

impl SiteUrl {
    /// Reads the address of a site; `https://` is assumed if no scheme is given.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        if split_scheme(text).is_some() {
            Self::parse_absolute(text)
        } else {
            Self::parse_absolute(&format!("https://{text}"))
        }
    }

    /// Reads the address of an endpoint, which must name its scheme.
    pub fn parse_absolute(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(UrlError("contains blanks, control characters or a backslash"));
        }
        let (scheme, rest) = split_scheme(text).ok_or(UrlError("has no scheme"))?;
        let (scheme, own_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => ("http", 80),
            "https" => ("https", 443),
            _ => return Err(UrlError("has a scheme other than http and https")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (host, port) = split_authority(authority)?;
        let host = normal_host(host)?;
        let port = port.filter(|&port| port != own_port);
        let path = normal_path(tail.split(['?', '#']).next().unwrap_or_default());
        let origin = match port {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        };
        if origin.len() + path.len() > MAX_CHARS {
            return Err(UrlError("is longer than 500 characters"));
        }
        Ok(Self { origin, host, port, path })
    }

    /// Returns the host in lower case; an IPv6 address keeps its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port if it is not the scheme's default.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the path without trailing slashes: empty for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the address with its whole path.
    pub fn canonical(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// Returns the address as stored, compared and shown: without a path that belongs to the protocol.
    pub fn persisted(&self) -> String {
        if PROTOCOL_PATHS.contains(&self.path.as_str()) { self.origin.clone() } else { self.canonical() }
    }
}

/// Checks an address that only a browser opens; browsers accept hosts in any script.
pub fn check_page(address: &str) -> Result<(), UrlError> {
    let as_ascii = |c: char| if c.is_alphanumeric() && !c.is_ascii() { 'x' } else { c };
    let address: String = address.chars().map(as_ascii).collect();
    SiteUrl::parse_absolute(&address).map(drop)
}

/// Returns the address without the user name and password before its host; `None` if it has none.
pub fn without_user_info(address: &str) -> Option<String> {
    let (_, rest) = split_scheme(address).unwrap_or(("", address));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user_info, _) = authority.rsplit_once('@')?;
    let scheme = &address[..address.len() - rest.len()];
    Some(format!("{scheme}{}", &rest[user_info.len() + 1..]))
}

/// Splits `https://host/path` into scheme and rest if the text begins with a scheme; a `://` further on, as in a query,
/// does not count.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme.then_some((scheme, rest))
}

fn split_authority(address: &str) -> Result<(&str, Option<u16>), UrlError> {
    if address.contains('@') {
        return Err(UrlError(
            "carries a user name or password: a site's credentials belong to its accounts, a proxy's to proxyUrl",
        ));
    }
    let after_host = if address.starts_with('[') {
        address.find(']').map(|at| at + 1).ok_or(UrlError("has a bracket that is not closed"))?
    } else {
        address.find(':').unwrap_or(address.len())
    };
    let (host, port) = address.split_at(after_host);
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        None => return Err(UrlError("has text after its host")),
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => Some(
            digits.parse().ok().filter(|&port| port != 0).ok_or(UrlError("has a port outside 1..65535"))?,
        ),
        Some(_) => return Err(UrlError("has a port that is not a number")),
    };
    Ok((host, port))
}

fn normal_host(host: &str) -> Result<String, UrlError> {
    if host.is_empty() {
        return Err(UrlError("has no host"));
    }
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = address.parse().map_err(|_| UrlError("has an invalid IPv6 address"))?;
        return Ok(format!("[{address}]"));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let labels_are_sound = name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    });
    if !name.is_ascii() {
        return Err(UrlError("has a host name that is not ASCII: write it in its xn-- form"));
    }
    if !labels_are_sound || name.len() > 253 {
        return Err(UrlError("has an invalid host name"));
    }
    // A last label of digits can only be an IPv4 address; resolvers would interpret `10.1` in their own ways.
    let is_numeric = name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    if is_numeric && name.parse::<Ipv4Addr>().is_err() {
        return Err(UrlError("has an invalid IPv4 address"));
    }
    Ok(name)
}

/// Normalises a path: resolves dot segments, percent-encodes characters that a request line cannot carry, and drops
/// trailing slashes.
fn normal_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut out = String::with_capacity(path.len());
    for segment in segments {
        out.push('/');
        for byte in segment.bytes() {
            if byte.is_ascii_graphic()
                && !matches!(byte, b'"' | b'<' | b'>' | b'`' | b'{' | b'}' | b'|' | b'^')
            {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}"); // writing to a String cannot fail
            }
        }
    }
    out.truncate(out.trim_end_matches('/').len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_url_is_stored_in_one_form() {
        for (typed, canonical, persisted) in [
            (" Api.Example.com/v1/ ", "https://api.example.com/v1", "https://api.example.com"),
            (
                "https://p.example.com/api/v1/models",
                "https://p.example.com/api/v1/models",
                "https://p.example.com/api/v1/models",
            ),
            (
                "relay.example.com/v1/chat/completions?x=1",
                "https://relay.example.com/v1/chat/completions",
                "https://relay.example.com",
            ),
            (
                "relay.example.com/v1?next=https://x.example/",
                "https://relay.example.com/v1",
                "https://relay.example.com",
            ),
            (
                "https://chatgpt.com/backend-api/codex/",
                "https://chatgpt.com/backend-api/codex",
                "https://chatgpt.com/backend-api/codex",
            ),
            ("https://h.example/anthropic", "https://h.example/anthropic", "https://h.example/anthropic"),
            (
                "https://h.example/v1beta/openai",
                "https://h.example/v1beta/openai",
                "https://h.example/v1beta/openai",
            ),
            ("https://h.example/v1beta/models/", "https://h.example/v1beta/models", "https://h.example"),
            ("https://h.example/V1", "https://h.example/V1", "https://h.example/V1"),
            ("HTTPS://H.example:443//#top", "https://h.example", "https://h.example"),
            ("h.example/@me", "https://h.example/@me", "https://h.example/@me"),
            ("http://127.0.0.1:8317/", "http://127.0.0.1:8317", "http://127.0.0.1:8317"),
            ("http://h.example:80/a/../b", "http://h.example/b", "http://h.example/b"),
            ("http://h.example:443", "http://h.example:443", "http://h.example:443"),
            ("http://[::0001]:8080/v1", "http://[::1]:8080/v1", "http://[::1]:8080"),
            ("localhost:4000", "https://localhost:4000", "https://localhost:4000"),
            (
                "https://h.example/größe",
                "https://h.example/gr%C3%B6%C3%9Fe",
                "https://h.example/gr%C3%B6%C3%9Fe",
            ),
        ] {
            let url = SiteUrl::parse(typed).unwrap_or_else(|error| panic!("{typed}: {error:?}"));
            assert_eq!(url.canonical(), canonical, "{typed}");
            assert_eq!(url.persisted(), persisted, "{typed}");
            assert_eq!(
                SiteUrl::parse(&url.persisted()).map(|again| again.persisted()),
                Ok(url.persisted()),
                "{typed}"
            );
        }
    }

    #[test]
    fn an_address_loses_its_user_name_and_password() {
        for (address, without) in [
            ("https://u:p@h.example/v1?key=k#f", Some("https://h.example/v1?key=k#f")),
            ("ftp://u@p@h.example", Some("ftp://h.example")),
            ("u:p@h.example", Some("h.example")),
            ("https://@h.example", Some("https://h.example")),
            ("https://h.example/@me", None),
            ("h.example?next=https://u:p@x.example", None),
            ("", None),
        ] {
            assert_eq!(without_user_info(address).as_deref(), without, "{address}");
        }
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for typed in [
            "",
            "   ",
            "https://",
            "https:///x",
            "ftp://h.example",
            "not a url",
            "mailto:a",
            "https://h.example:0",
            "https://h.example:99999",
            "https://h.example:x",
            "https://h.example:/",
            "https://[::1",
            "https://[::1]x",
            "https://10.1",
            "https://a..b",
            "https://h\u{e4}user.example",
            "https://%61.example",
            "https://h.example/\u{7}",
            "https://h.example\\x",
            "//h.example",
            "http://user:pw@h.example/",
            "user@h.example",
            "https://@h.example",
        ] {
            assert!(SiteUrl::parse(typed).is_err(), "{typed}");
        }
        assert!(SiteUrl::parse(&format!("https://h.example/{}", "a".repeat(500))).is_err());
        assert!(SiteUrl::parse_absolute("h.example").is_err());
        let international = SiteUrl::parse("https://h\u{e4}user.example").expect_err("no ASCII").0;
        assert!(international.contains("xn--"), "{international}");
    }
}
