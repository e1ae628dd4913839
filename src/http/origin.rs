//! Which page a browser's request comes from, judged by its headers (RFC 9110 §7.2, RFC 6454, Fetch Metadata).
//!
//! A page of any site may send requests to a service on the reader's own machine. If its host name is resolved to another
//! address after the page was loaded (DNS rebinding), they even count as same-origin. Neither can hide its name: the
//! browser sets `Host` and `Origin`.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns whether a request addresses this machine by one of its own names, and not on behalf of a page from elsewhere.
pub fn is_of_this_machine(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_own_host = text(header::HOST).is_none_or(is_own_name);
    let is_own_page = match text(header::ORIGIN) {
        Some(origin) => origin.split_once("://").is_some_and(|(_, host)| is_own_name(host)),
        // Links and images are requested without an origin.
        None => text(SEC_FETCH_SITE).is_none_or(|site| !site.eq_ignore_ascii_case("cross-site")),
    };
    is_own_host && is_own_page
}

/// Returns whether an origin is the one that the request is sent to.
pub(super) fn is_own(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let origin = origin.as_bytes();
    let authority = memchr::memmem::find(origin, b"://").map(|at| &origin[at + 3..]);
    authority.is_some() && authority.zip(host).is_some_and(|(own, host)| own.eq_ignore_ascii_case(host))
}

/// Accepts `localhost`, names below it, and loopback addresses, with any port.
fn is_own_name(authority: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((address, port)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let port = port.strip_prefix(':').unwrap_or(port);
        return is_port(port)
            && address
                .parse::<Ipv6Addr>()
                .is_ok_and(|address| IpAddr::V6(address).to_canonical().is_loopback());
    }
    let (name, port) = authority.split_once(':').unwrap_or((authority, ""));
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_address = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_port(port) && (is_address || name == "localhost" || name.ends_with(".localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let named = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(named).collect()
    }

    #[test]
    fn this_machine_has_few_names() {
        for (name, expected) in [
            ("localhost", true),
            ("LocalHost:4000", true),
            ("localhost.", true),
            ("app.localhost:1", true),
            ("127.0.0.1:4000", true),
            ("127.9.9.9", true),
            ("[::1]:4000", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("", false),
            ("null", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("notlocalhost", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1:80@evil.example", false),
            ("localhost:x", false),
            ("192.168.0.1", false),
            ("[2001:db8::1]", false),
            ("[::1].evil.example", false),
        ] {
            assert_eq!(is_own_name(name), expected, "{name}");
        }
    }

    #[test]
    fn a_page_from_elsewhere_is_told_by_its_headers() {
        for (given, expected) in [
            (&[][..], true),
            (&[("host", "127.0.0.1:4000")], true),
            (&[("host", "127.0.0.1:4000"), ("origin", "http://localhost:3000")], true),
            (&[("host", "127.0.0.1:4000"), ("origin", "https://evil.example")], false),
            (&[("host", "127.0.0.1:4000"), ("origin", "null")], false),
            (&[("host", "evil.example:4000"), ("origin", "http://evil.example:4000")], false),
            (&[("host", "evil.example:4000")], false),
            (&[("host", "localhost"), ("sec-fetch-site", "cross-site")], false),
            (&[("host", "localhost"), ("sec-fetch-site", "same-origin")], true),
            (
                &[("host", "localhost"), ("origin", "http://127.0.0.1"), ("sec-fetch-site", "cross-site")],
                true,
            ),
        ] {
            assert_eq!(is_of_this_machine(&headers(given)), expected, "{given:?}");
        }
    }

    #[test]
    fn an_origin_is_its_own_by_name_and_port() {
        for (origin, host, expected) in [
            ("https://gate.example", "gate.example", true),
            ("http://Gate.example:4000", "gate.example:4000", true),
            ("http://gate.example", "gate.example:4000", false),
            ("https://evil.example", "gate.example", false),
            ("null", "null", false),
        ] {
            let given = headers(&[("host", host)]);
            assert_eq!(is_own(&HeaderValue::from_static(origin), &given), expected, "{origin} {host}");
        }
    }
}
