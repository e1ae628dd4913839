//! Parses the head of an answer, and writes the head of a request.

use std::fmt;
use std::mem::MaybeUninit;
use std::time::Duration;

use hyper::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use hyper::http::{Method, StatusCode, Version};

use super::framing::{Chunked, Framing};
use super::headers::AnswerHeaders;
use crate::routing::{Origin, OutboundProxy};
use crate::upstream::request::Request;

/// The longest head of an answer, in bytes.
pub const MAX_HEAD: usize = 64 * 1024;
/// The most headers of an answer.
const MAX_HEADERS: usize = 128;

/// The parsed head of an answer.
#[derive(Debug)]
pub struct AnswerHead {
    pub status: StatusCode,
    pub version: Version,
    pub headers: AnswerHeaders,
    pub framing: Framing,
    /// Whether the upstream will take another request on the connection.
    pub keep_alive: bool,
    /// How long the upstream waits for the next request, where it says so.
    pub idle_limit: Option<Duration>,
}

/// Why bytes are not the head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadError(String);

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses the head that `input` begins with, and returns it with its length in bytes; `None` while it is incomplete.
pub fn parse_answer(input: &[u8]) -> Result<Option<(AnswerHead, usize)>, HeadError> {
    parse(input, false)
}

/// Parses the head of the answer to a HEAD request, which has no body, whatever its head says.
pub fn parse_answer_to_head(input: &[u8]) -> Result<Option<(AnswerHead, usize)>, HeadError> {
    parse(input, true)
}

fn parse(input: &[u8], has_no_body: bool) -> Result<Option<(AnswerHead, usize)>, HeadError> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut answer, input, &mut headers)
        .map_err(|error| HeadError(error.to_string()))?;
    let length = match parsed {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if input.len() < MAX_HEAD => return Ok(None),
        httparse::Status::Partial => {
            return Err(HeadError(format!("its head is longer than {MAX_HEAD} bytes")));
        }
    };
    let status = StatusCode::from_u16(answer.code.unwrap_or_default())
        .map_err(|_| HeadError("its status code is invalid".to_owned()))?;
    let version = if answer.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let stated = ConnectionHeaders::by(answer.headers)?;
    let headers = AnswerHeaders::new(input, answer.headers);
    let framing = framing(status, version, &stated, has_no_body)?;
    let keep_alive = !matches!(framing, Framing::UntilClose)
        && match version {
            Version::HTTP_10 => stated.keep_alive,
            // An answer with both a length and a coding is read one way here and may be read another way elsewhere.
            _ => !stated.close && (stated.coding.is_none() || stated.length.is_none()),
        };
    let idle_limit = stated.idle_limit;
    Ok(Some((AnswerHead { status, version, headers, framing, keep_alive, idle_limit }, length)))
}

/// What the headers state about the connection and the body on it.
#[derive(Debug, Default)]
struct ConnectionHeaders {
    close: bool,
    keep_alive: bool,
    idle_limit: Option<Duration>,
    length: Option<u64>,
    coding: Option<Coding>,
}

/// The last transfer coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Chunked,
    Other,
}

impl ConnectionHeaders {
    fn by(headers: &[httparse::Header<'_>]) -> Result<Self, HeadError> {
        let mut stated = Self::default();
        for header in headers {
            stated.take(header.name, header.value)?;
        }
        Ok(stated)
    }

    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), HeadError> {
        let is = |known: HeaderName| name.eq_ignore_ascii_case(known.as_str());
        let list = || value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        if is(CONTENT_LENGTH) {
            for value in list() {
                let length =
                    digits(value).filter(|length| self.length.is_none_or(|stated| stated == *length));
                let length = length
                    .ok_or_else(|| HeadError("its content-length is not a single number".to_owned()))?;
                self.length = Some(length);
            }
        } else if is(TRANSFER_ENCODING) {
            let is_chunked = list().next_back().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
            self.coding = Some(if is_chunked { Coding::Chunked } else { Coding::Other });
        } else if is(CONNECTION) {
            self.close |= list().any(|option| option.eq_ignore_ascii_case(b"close"));
            self.keep_alive |= list().any(|option| option.eq_ignore_ascii_case(b"keep-alive"));
        } else if name.eq_ignore_ascii_case("keep-alive") {
            // A convention of servers (RFC 2068, 19.7.1.1): `timeout=5, max=100`.
            let seconds = list().filter_map(|option| option.strip_prefix(b"timeout=")).find_map(digits);
            self.idle_limit = seconds.map(Duration::from_secs);
        }
        Ok(())
    }
}

/// Returns the framing of a body (RFC 9112 §6.3). A transfer coding takes precedence over a length beside it.
fn framing(
    status: StatusCode,
    version: Version,
    stated: &ConnectionHeaders,
    has_no_body: bool,
) -> Result<Framing, HeadError> {
    if has_no_body
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    {
        return Ok(Framing::Length(0));
    }
    match stated.coding {
        Some(_) if version == Version::HTTP_10 => Err(HeadError("a transfer coding in HTTP/1.0".to_owned())),
        Some(Coding::Chunked) => Ok(Framing::Chunked(Chunked::default())),
        Some(Coding::Other) => Ok(Framing::UntilClose),
        None => Ok(stated.length.map_or(Framing::UntilClose, Framing::Length)),
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// Writes the head of a request to `origin`. `Host`, framing and `Accept-Encoding` are written here and `Connection` is
/// left out, whatever the request says of them. Where a proxy forwards the request, the whole address and the proxy's
/// login are written, too.
pub fn write_request(out: &mut Vec<u8>, request: &Request, origin: &Origin, length: u64) {
    let path = request.target.as_str();
    // An address may have a query and no path.
    let slash = if path.starts_with('/') { "" } else { "/" };
    let (method, host) = (request.method.as_str(), origin.authority.as_str());
    let forwarder = origin.forwarder();
    let (scheme, authority) = if forwarder.is_some() { ("http://", host) } else { ("", "") };
    let line = [method, " ", scheme, authority, slash, path, " HTTP/1.1\r\nhost: ", host];
    for part in line.into_iter().chain(["\r\naccept-encoding: identity\r\n"]) {
        out.extend_from_slice(part.as_bytes());
    }
    let login = forwarder.and_then(OutboundProxy::authorization);
    if let Some(login) = &login {
        out.extend_from_slice(format!("proxy-authorization: {login}\r\n").as_bytes());
    }
    for (name, value) in request.headers.iter() {
        if [HOST, ACCEPT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name)
            || login.is_some() && name == PROXY_AUTHORIZATION
        {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    if length > 0 || matches!(request.method, Method::POST | Method::PUT | Method::PATCH) {
        out.extend_from_slice(b"content-length: ");
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Option<(AnswerHead, usize)>, HeadError> {
        parse_answer(text.as_bytes())
    }

    fn head(text: &str) -> AnswerHead {
        let (head, length) = parse(text).expect("a head").expect("a whole head");
        assert_eq!(length, text.len(), "{text}");
        head
    }

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nset-cookie: a\r\nX-Empty:\r\nset-cookie:  b \r\nX-Last:\r\n\r\n";
        for cut in 0..text.len() {
            assert!(parse(&text[..cut]).expect("a beginning").is_none(), "{cut}");
        }
        let (head, length) = parse(&format!("{text}ok")).expect("a head").expect("a whole head");
        assert_eq!((head.status, head.version, length), (StatusCode::OK, Version::HTTP_11, text.len()));
        let all: Vec<_> =
            head.headers.iter().map(|(name, value)| (String::from_utf8_lossy(name), value)).collect();
        let wanted: [(&str, &[u8]); 5] = [
            ("Content-Length", b"2"),
            ("set-cookie", b"a"),
            ("X-Empty", b""),
            ("set-cookie", b"b"),
            ("X-Last", b""),
        ];
        assert_eq!(all, wanted.map(|(name, value)| (name.into(), value)));
        assert!(head.keep_alive);
    }

    #[test]
    fn the_body_is_framed_as_the_head_says() {
        let framing = |text: &str| format!("{:?}", head(&format!("HTTP/1.1 {text}\r\n\r\n")).framing);
        let chunked = format!("{:?}", Framing::Chunked(Chunked::default()));
        for (text, wanted) in [
            ("200 OK\r\ncontent-length: 3", "Length(3)"),
            ("200\r\ncontent-length: 3, 3\r\ncontent-length: 3", "Length(3)"),
            ("200 OK", "UntilClose"),
            ("200 OK\r\ntransfer-encoding: gzip", "UntilClose"),
            ("200 OK\r\ntransfer-encoding: Chunked", &chunked),
            ("200 OK\r\ntransfer-encoding: gzip, chunked\r\ncontent-length: 3", &chunked),
            ("200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding:chunked ", &chunked),
            ("204 No Content\r\ncontent-length: 3", "Length(0)"),
            ("304 Not Modified\r\ntransfer-encoding: chunked", "Length(0)"),
            ("100 Continue", "Length(0)"),
        ] {
            assert_eq!(framing(text), wanted, "{text}");
        }
        let to_head = parse_answer_to_head(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n");
        assert!(to_head.expect("a head").expect("a whole head").0.framing.is_ended());
    }

    #[test]
    fn a_connection_is_kept_where_the_head_allows_it() {
        for (text, keeps) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 0", true),
            ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 0", false),
            ("HTTP/1.1 200 OK", false),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked", false),
            ("HTTP/1.0 200 OK\r\ncontent-length: 0", false),
            ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: Keep-Alive", true),
        ] {
            assert_eq!(head(&format!("{text}\r\n\r\n")).keep_alive, keeps, "{text}");
        }
    }

    #[test]
    fn an_upstream_says_how_long_it_waits_for_another_request() {
        for (value, seconds) in [
            ("timeout=5", Some(5)),
            ("max=100, timeout=75", Some(75)),
            ("timeout=0", Some(0)),
            ("timeout=", None),
            ("timeout=-1", None),
            ("max=100", None),
            ("", None),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nKeep-Alive: {value}\r\n\r\n");
            assert_eq!(head(&text).idle_limit, seconds.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(MAX_HEAD));
        for text in [
            "SSH-2.0",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 099 x\r\n\r\n",
            "HTTP/1.1 20 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: \0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            &many,
            &long,
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_request_is_written_with_our_framing() {
        let written = |request: hyper::http::Request<()>, length| {
            let mut out = Vec::new();
            let origin = Origin::new(false, "upstream", 81, None);
            write_request(&mut out, &request.into(), &origin, length);
            String::from_utf8(out).expect("text")
        };
        let build = hyper::http::Request::builder;
        let request = build()
            .method("POST")
            .uri("http://elsewhere/v1/x?y=1")
            .header("X-One", "1")
            .header("host", "elsewhere")
            .header("connection", "close")
            .header("accept-encoding", "br")
            .header("content-length", "9")
            .header("transfer-encoding", "gzip")
            .body(())
            .expect("a request");
        let start =
            "POST /v1/x?y=1 HTTP/1.1\r\nhost: upstream:81\r\naccept-encoding: identity\r\nx-one: 1\r\n";
        for (length, end) in [(23, "content-length: 23\r\n\r\n"), (0, "content-length: 0\r\n\r\n")] {
            assert_eq!(written(request.clone(), length), format!("{start}{end}"));
        }
        for (uri, target) in
            [("/", "/"), ("http://site", "/"), ("http://site?x=1", "/?x=1"), ("/a?x", "/a?x")]
        {
            let request = build().uri(uri).body(()).expect("a request");
            let wanted =
                format!("GET {target} HTTP/1.1\r\nhost: upstream:81\r\naccept-encoding: identity\r\n\r\n");
            assert_eq!(written(request, 0), wanted);
        }
    }

    #[test]
    fn a_proxy_that_passes_requests_on_gets_the_whole_address_and_its_login() {
        let head = |proxy: &str| {
            let proxy = OutboundProxy::parse(proxy).expect("a proxy");
            let request = hyper::http::Request::get("/v1/models?x=1").header("proxy-authorization", "theirs");
            let origin = Origin::new(false, "upstream", 81, Some(Arc::new(proxy)));
            let mut out = Vec::new();
            write_request(&mut out, &request.body(()).expect("a request").into(), &origin, 0);
            String::from_utf8(out).expect("text")
        };
        let start = "GET http://upstream:81/v1/models?x=1 HTTP/1.1\r\nhost: upstream:81\r\naccept-encoding: identity\r\n";
        let login = "proxy-authorization: Basic YWRhOnA=\r\n\r\n";
        assert_eq!(head("http://ada:p@proxy:3128"), format!("{start}{login}"));
        assert_eq!(head("https://ada:p@proxy"), format!("{start}{login}"));
        assert_eq!(head("http://proxy:3128"), format!("{start}proxy-authorization: theirs\r\n\r\n"));
        assert!(head("socks5://ada:p@proxy").starts_with("GET /v1/models?x=1 HTTP/1.1\r\n"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(text in "(HTTP/1\\.[01] [0-9]{3} ?\r\n)?([a-z-]{0,9}:[ -~]{0,9}\r\n){0,4}(\r\n)?[ -~]{0,9}") {
            let _ = parse(&text);
        }
    }
}
