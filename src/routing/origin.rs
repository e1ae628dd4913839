//! Where connections go: upstream base addresses, their origins, and outbound proxies.
//!
//! [`Origin`] is the key of the connection pool: two requests may share a connection exactly when their origins are equal,
//! and the proxy is part of that. Addresses are parsed strictly, because a reading that differs from the operator's would
//! send credentials elsewhere: no user information, no blanks or backslashes, host names only in ASCII (operators write the
//! punycode form themselves).

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv6Addr;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::http::uri::PathAndQuery;
use percent_encoding::{
    AsciiSet, CONTROLS, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode,
};

use crate::mask::Mask;

/// Characters that must be percent-encoded in a request target; [`is_unsafe`] is the quick test for them.
const UNSAFE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Characters that must be percent-encoded in a path segment (RFC 3986 §3.3), and `;`, after which some servers read
/// parameters.
const NOT_IN_SEGMENT: &AsciiSet = &UNSAFE.add(b'%').add(b'/').add(b'?').add(b'[').add(b']').add(b';');

/// Characters that must be percent-encoded in a text that may be anything: all but the unreserved ones (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a text as one value of a query or a form, or as one segment of a path, where it must not be `.` or `..`.
pub fn encode_component(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

/// Encodes a name as the last segments of a path. Only its slashes keep their meaning; everything between them is data.
///
/// # Errors
/// Fails on a part that would change the path: `.`, `..` or an empty one.
pub fn path_segments(name: &str) -> Result<String, String> {
    if let Some(part) = name.split('/').find(|part| matches!(*part, "" | "." | "..")) {
        return Err(format!("a name in a path must not have an empty part, `.` or `..`: it has `{part}`"));
    }
    let encoded: Vec<String> =
        name.split('/').map(|part| utf8_percent_encode(part, NOT_IN_SEGMENT).to_string()).collect();
    Ok(encoded.join("/"))
}

/// The other end of a connection, and the proxy on the way to it.
#[derive(Clone, Debug)]
pub struct Origin {
    pub tls: bool,
    /// The host in lower case; an IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
    pub proxy: Option<Arc<OutboundProxy>>,
    /// The `Host` header: with the port only if it is not the scheme's default.
    pub authority: String,
    /// A hash of TLS, proxy, host and port, computed once: the pool looks up origins on every request.
    hash: u64,
}

/// The protocol spoken with an outbound proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyScheme {
    Http,
    Https,
    /// Host names are resolved locally.
    Socks4,
    /// Host names are resolved by the proxy.
    Socks4a,
    /// Host names are resolved locally.
    Socks5,
    /// Host names are resolved by the proxy; also the meaning of `socks://`.
    Socks5h,
}

/// A proxy between us and an upstream.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OutboundProxy {
    pub scheme: ProxyScheme,
    /// The host in lower case; an IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
    /// User name and password, decoded.
    pub credentials: Option<(String, String)>,
}

/// An upstream's base address, ready to be joined with a path.
#[derive(Clone)]
pub struct BaseUrl {
    pub origin: Arc<Origin>,
    /// Empty, or with a leading and without a trailing slash.
    pub path: String,
    /// Appended to every joined target. It may hold a key, so it is kept out of `Debug`.
    pub query: Option<String>,
    /// Whether the path ends in `/v1`, `/v4`, `/v1beta`, …: joining another `/v1` would double the version.
    names_version: bool,
    /// The targets joined so far, by path: all requests join the same few.
    joined: [OnceLock<(&'static str, PathAndQuery)>; JOINED],
}

/// The number of targets that an address remembers; a site is asked in two or three dialects.
const JOINED: usize = 4;

/// The end of the path of Google's interface that is compatible with OpenAI's.
const COMPATIBLE: &str = "/openai";

// === impl Origin ===

impl Origin {
    pub fn new(tls: bool, host: &str, port: u16, proxy: Option<Arc<OutboundProxy>>) -> Self {
        let host = host.to_ascii_lowercase();
        let mut hasher = DefaultHasher::new();
        (tls, &host, port, &proxy).hash(&mut hasher);
        let shown = Bracketed(&host);
        let authority = if port == default_port(tls) { shown.to_string() } else { format!("{shown}:{port}") };
        Self { tls, port, proxy, authority, hash: hasher.finish(), host }
    }

    /// Returns the proxy that forwards each request instead of tunnelling it, if there is one: unencrypted requests through
    /// an HTTP proxy need no tunnel, and many proxies allow tunnels to port 443 only.
    pub fn forwarder(&self) -> Option<&OutboundProxy> {
        let speaks_http =
            |proxy: &&OutboundProxy| matches!(proxy.scheme, ProxyScheme::Http | ProxyScheme::Https);
        self.proxy.as_deref().filter(speaks_http).filter(|_| !self.tls)
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.port == other.port
            && self.tls == other.tls
            && self.host == other.host
            && self.proxy == other.proxy
    }
}

impl Eq for Origin {}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

// === impl OutboundProxy ===

impl OutboundProxy {
    /// Returns the value of `Proxy-Authorization` (RFC 7617).
    pub fn authorization(&self) -> Option<String> {
        let (user, password) = self.credentials.as_ref()?;
        Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
    }

    /// Parses `scheme://[user[:password]@]host[:port]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = split_scheme(text)?;
        let (scheme, default_port) = match scheme.as_str() {
            "http" => (ProxyScheme::Http, 80),
            "https" => (ProxyScheme::Https, 443),
            "socks4" => (ProxyScheme::Socks4, 1080),
            "socks4a" => (ProxyScheme::Socks4a, 1080),
            "socks5" => (ProxyScheme::Socks5, 1080),
            "socks5h" | "socks" => (ProxyScheme::Socks5h, 1080),
            _ => {
                return Err(
                    "the scheme must be http, https, socks, socks4, socks4a, socks5 or socks5h".to_owned()
                );
            }
        };
        let authority = rest.trim_end_matches('/');
        if authority.contains(['/', '?', '#']) {
            return Err(
                "a proxy address must not have a path, a query or a fragment after its port".to_owned()
            );
        }
        let (credentials, authority) = match authority.rsplit_once('@') {
            Some((user_info, authority)) => (Some(user_info), authority),
            None => (None, authority),
        };
        let (host, port) = split_authority(authority)?;
        let credentials = credentials
            .filter(|user_info| !user_info.is_empty())
            .map(|user_info| {
                let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
                Ok::<_, String>((decoded(user)?, decoded(password)?))
            })
            .transpose()?;
        let is_socks4 = matches!(scheme, ProxyScheme::Socks4 | ProxyScheme::Socks4a);
        if is_socks4 && credentials.is_some() {
            return Err("SOCKS4 has no password: use socks5 for a user name and password".to_owned());
        }
        let is_short = |(user, password): &(String, String)| user.len() <= 255 && password.len() <= 255;
        if matches!(scheme, ProxyScheme::Socks5 | ProxyScheme::Socks5h)
            && !credentials.as_ref().is_none_or(is_short)
        {
            return Err("the user name or password is longer than the 255 bytes of SOCKS5".to_owned());
        }
        Ok(Self { scheme, host, port: port.unwrap_or(default_port), credentials })
    }
}

impl fmt::Debug for OutboundProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.credentials.is_some() { "…@" } else { "" };
        write!(f, "{:?}://{user}{}:{}", self.scheme, Bracketed(&self.host), self.port)
    }
}

// === impl BaseUrl ===

impl BaseUrl {
    /// Adds the secrets that a request to this address carries besides its credential and headers.
    pub fn add_secrets(&self, mask: &mut Mask) {
        let proxy = self.origin.proxy.as_ref().and_then(|proxy| proxy.credentials.as_ref());
        if let Some((name, password)) = proxy {
            mask.add_pair(name, password);
        }
        mask.add_query(self.query.as_deref().unwrap_or_default());
    }

    /// Parses an `http` or `https` address. The error says what to change in it.
    pub fn parse(url: &str, proxy: Option<Arc<OutboundProxy>>) -> Result<Self, String> {
        let (scheme, rest) = split_scheme(url)?;
        let tls = match scheme.as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("the address must begin with http:// or https://".to_owned()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("the address must not carry a user name or password".to_owned());
        }
        let (host, port) = split_authority(authority)?;
        let port = port.unwrap_or(default_port(tls));
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query).filter(|query| !query.is_empty())),
            None => (target, None),
        };
        let path = path.trim_end_matches('/');
        for part in [path, query.unwrap_or_default()] {
            if let Some(odd) = part.chars().find(|c| u8::try_from(*c).is_ok_and(is_unsafe) || !c.is_ascii()) {
                return Err(format!("{odd:?} in the address must be percent-encoded"));
            }
        }
        let origin = Origin::new(tls, &host, port, proxy);
        if !origin.authority.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the host name is not usable".to_owned());
        }
        Ok(Self {
            origin: Arc::new(origin),
            path: path.to_owned(),
            query: query.map(str::to_owned),
            names_version: names_version(path),
            joined: Default::default(),
        })
    }

    /// Returns the address as text that [`parse`](Self::parse) accepts. It may hold a key.
    pub fn url(&self) -> String {
        let query = self.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{}{query}", self.origin, self.path)
    }

    /// Removes the first of these endings that the path has.
    pub fn without(self, endings: &[&str]) -> Self {
        match endings.iter().find_map(|ending| self.path.strip_suffix(ending)) {
            Some(path) => Self {
                path: path.to_owned(),
                names_version: names_version(path),
                joined: Default::default(),
                ..self
            },
            None => self,
        }
    }

    /// Returns the address of Google's own interface, where this one (`…/v1beta/openai`) is that of the compatible one.
    pub fn native(&self) -> Cow<'_, Self> {
        if self.path.ends_with(COMPATIBLE) {
            Cow::Owned(self.clone().without(&[COMPATIBLE]))
        } else {
            Cow::Borrowed(self)
        }
    }

    /// Does what [`join`](Self::join) does, for one of the few paths that requests are sent to; remembers the target.
    pub fn join_known(&self, path: &'static str) -> PathAndQuery {
        let join = || match self.join(path) {
            // Static bytes are shared without a reference count.
            target if target.as_str() == path => PathAndQuery::from_static(path),
            target => target,
        };
        let mut joined = self.joined.iter().map(|slot| slot.get_or_init(|| (path, join())));
        joined.find(|(known, _)| *known == path).map_or_else(join, |(_, target)| target.clone())
    }

    /// Returns whether the path ends in an API version.
    pub fn names_version(&self) -> bool {
        self.names_version
    }

    /// Returns whether this address's own path takes the place of gemini's `/v1beta` before `rest`.
    fn keeps_version(&self, rest: &str) -> bool {
        self.path.ends_with("/v1beta")
            || (self.names_version && (rest.starts_with("/models") || rest.starts_with("/tunedModels")))
    }

    /// Builds the target for a path such as `/v1/chat/completions`: after the base's own path, without doubling a version
    /// that the base ends in, with the base's query at the end.
    pub fn join(&self, path: &str) -> PathAndQuery {
        // Google's OpenAI surface has a version in front of `/openai`.
        let path =
            path.strip_prefix("/v1beta/openai").filter(|_| self.path.contains("/openai")).unwrap_or(path);
        // A Gemini address that ends in a version keeps that version, too.
        let path = path.strip_prefix("/v1beta").filter(|rest| self.keeps_version(rest)).unwrap_or(path);
        let path = match path.strip_prefix("/v1") {
            Some(rest) if self.names_version && (rest.is_empty() || rest.starts_with(['/', '?'])) => rest,
            _ => path,
        };
        let mut target = String::with_capacity(
            self.path.len() + path.len() + self.query.as_ref().map_or(1, |query| query.len() + 1),
        );
        target.push_str(&self.path);
        if target.is_empty() && !path.starts_with('/') {
            target.push('/');
        }
        target.push_str(path);
        if let Some(query) = &self.query {
            target.push(if path.contains('?') { '&' } else { '?' });
            target.push_str(query);
        }
        if target.bytes().any(is_unsafe) {
            target = utf8_percent_encode(&target, UNSAFE).to_string();
        }
        PathAndQuery::try_from(target).expect("an absolute path without unsafe bytes is a request target")
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)?;
        if self.query.is_some() { f.write_str("?…") } else { Ok(()) }
    }
}

fn is_unsafe(byte: u8) -> bool {
    !byte.is_ascii_graphic() || br##""#<>\^`{|}"##.contains(&byte)
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

fn split_scheme(text: &str) -> Result<(String, &str), String> {
    let (scheme, rest) =
        text.trim().split_once("://").ok_or("the address must begin with a scheme such as https://")?;
    Ok((scheme.to_ascii_lowercase(), rest))
}

/// Splits an authority into its host (lower case, without brackets) and its port, if there is one.
fn split_authority(authority: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (literal, behind) = rest.split_once(']').ok_or("the IPv6 address lacks its closing bracket")?;
        let address: Ipv6Addr = literal.parse().map_err(|_| format!("`{literal}` is not an IPv6 address"))?;
        let port = match behind.strip_prefix(':') {
            Some(port) => port,
            None if behind.is_empty() => "",
            None => return Err("only a port may follow an IPv6 address".to_owned()),
        };
        (address.to_string(), port)
    } else {
        let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
        if port.contains(':') {
            return Err("an IPv6 address must be in brackets".to_owned());
        }
        (checked_name(host)?, port)
    };
    if port.is_empty() {
        return Ok((host, None));
    }
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((host, Some(number)))
        }
        _ => Err(format!("`{port}` is not a port")),
    }
}

fn checked_name(host: &str) -> Result<String, String> {
    if host.is_empty() {
        return Err("the address lacks a host".to_owned());
    }
    if !host.is_ascii() {
        return Err("write the host name in its ASCII form (xn--…)".to_owned());
    }
    if host.len() > 253 || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return Err(format!("`{host}` is not a host name"));
    }
    Ok(host.to_ascii_lowercase())
}

fn decoded(text: &str) -> Result<String, String> {
    let text =
        percent_decode_str(text).decode_utf8().map_err(|_| "the credentials are not UTF-8".to_owned())?;
    Ok(text.into_owned())
}

/// Returns whether the path ends in an API version such as `/v1`, `/v4`, `/v1.1`, `/v1beta`, `/v1alpha`.
fn names_version(path: &str) -> bool {
    let Some((_, last)) = path.rsplit_once('/') else {
        return false;
    };
    let Some(version) = last.strip_prefix('v') else {
        return false;
    };
    let number = ["beta", "alpha"].iter().find_map(|stage| version.strip_suffix(stage)).unwrap_or(version);
    number.split('.').all(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A host in its form within an address: IPv6 in brackets.
struct Bracketed<'a>(&'a str);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "[{}]", self.0) } else { f.write_str(self.0) }
    }
}

#[cfg(test)]
mod tests;
