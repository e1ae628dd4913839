//! Management calls: read a whole answer, within limits.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION, USER_AGENT};
use hyper::http::uri::PathAndQuery;
use hyper::http::{Method, Request, Response, StatusCode, Uri};

use super::client::{Answer, Client};
use super::error::FetchError;
use crate::routing::{BaseUrl, Origin};

const MAX_REDIRECTS: usize = 3;
const OWN_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("switchyard/", env!("CARGO_PKG_VERSION")));

/// The path of the page that an answer comes from after redirects; an extension of that answer.
#[derive(Clone)]
pub struct RedirectedTo(pub String);

/// The limits of a management call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// The time limit for everything: connecting, redirects, the last byte of the body.
    pub timeout: Duration,
    /// The limit for the decoded body, in bytes.
    pub max_bytes: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(15), max_bytes: 1024 * 1024 }
    }
}

impl Client {
    /// Sends `request` (its address is a path, as [`BaseUrl::join`] gives it) to the site at `base` and reads the whole
    /// answer, decoded. Any status is an answer. Follows up to three redirects, on the same host and port only (or from
    /// http to https of the same host), so that no credential goes elsewhere; the answer then has the extension
    /// [`RedirectedTo`]. A POST stays a POST unless a 303 asks for a GET: turning it into a GET after a 301 or 302, as
    /// browsers do, would read where something was to be done.
    pub async fn fetch(
        &self,
        base: &BaseUrl,
        request: Request<Bytes>,
        limits: FetchLimits,
    ) -> Result<Response<Bytes>, FetchError> {
        let following = Box::pin(self.follow(base, request, limits.max_bytes));
        let answer = tokio::time::timeout(limits.timeout, following).await;
        answer.unwrap_or(Err(FetchError::Timeout(limits.timeout)))
    }

    /// Does what [`Client::fetch`] does, but returns a redirect like any other answer: for a POST that must arrive as
    /// one.
    pub async fn fetch_without_redirects(
        &self,
        base: &BaseUrl,
        request: Request<Bytes>,
        limits: FetchLimits,
    ) -> Result<Response<Bytes>, FetchError> {
        let begun = self.fetch_beginning(base, request, limits).await?;
        whole(begun, limits.max_bytes)
    }

    /// Does what [`Client::fetch_without_redirects`] does, but returns the beginning of an answer that is longer than the
    /// limit, and whether it is all of it.
    pub async fn fetch_beginning(
        &self,
        base: &BaseUrl,
        mut request: Request<Bytes>,
        limits: FetchLimits,
    ) -> Result<(Response<Bytes>, bool), FetchError> {
        set_default_headers(&mut request);
        let begun = async { read(self.send(&base.origin, request).await?, limits.max_bytes).await };
        let answer = tokio::time::timeout(limits.timeout, Box::pin(begun)).await;
        answer.unwrap_or(Err(FetchError::Timeout(limits.timeout)))
    }

    async fn follow(
        &self,
        base: &BaseUrl,
        mut request: Request<Bytes>,
        max_bytes: usize,
    ) -> Result<Response<Bytes>, FetchError> {
        let mut base = Cow::Borrowed(base);
        set_default_headers(&mut request);
        for redirects in 0..=MAX_REDIRECTS {
            let answer = self.send(&base.origin, request.clone()).await?;
            let Some(location) = redirect_target(&answer) else {
                let mut answer = collect(answer, max_bytes).await?;
                if redirects > 0 {
                    answer.extensions_mut().insert(RedirectedTo(request.uri().path().to_owned()));
                }
                return Ok(answer);
            };
            let (path, secure) = resolve(&base, request.uri(), &location)?;
            if let Some(secure) = secure {
                base = Cow::Owned(secure);
            }
            if answer.head.status == StatusCode::SEE_OTHER {
                *request.method_mut() = Method::GET;
                *request.body_mut() = Bytes::new();
                request.headers_mut().remove(CONTENT_TYPE);
            }
            *request.uri_mut() = Uri::from(path);
        }
        Err(FetchError::Redirect(format!("more than {MAX_REDIRECTS} redirects")))
    }
}

/// Sets `User-Agent` and `Accept` where the request has none.
fn set_default_headers(request: &mut Request<Bytes>) {
    request.headers_mut().entry(USER_AGENT).or_insert(OWN_USER_AGENT);
    request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
}

async fn collect(answer: Answer, max_bytes: usize) -> Result<Response<Bytes>, FetchError> {
    whole(read(answer, max_bytes).await?, max_bytes)
}

/// Returns the answer if all of it was read.
fn whole(
    (answer, is_whole): (Response<Bytes>, bool),
    max_bytes: usize,
) -> Result<Response<Bytes>, FetchError> {
    if is_whole { Ok(answer) } else { Err(FetchError::TooLarge(max_bytes)) }
}

/// Reads an answer up to the limit; also returns whether that is all of it.
async fn read(answer: Answer, max_bytes: usize) -> Result<(Response<Bytes>, bool), FetchError> {
    let Answer { head, mut body } = answer;
    let mut bytes = BytesMut::new();
    let mut is_whole = true;
    while is_whole && let Some(data) = body.data().await {
        let data = data?;
        let room = max_bytes - bytes.len();
        is_whole = data.len() <= room;
        bytes.extend_from_slice(&data[..data.len().min(room)]);
    }
    let mut response = Response::new(bytes.freeze());
    (*response.status_mut(), *response.headers_mut()) = (head.status, head.headers.to_map());
    Ok((response, is_whole))
}

/// Returns the target of a redirect; `None` for any other answer, and for a redirect without a target.
pub fn redirect_target(answer: &Answer) -> Option<String> {
    if !matches!(answer.head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = std::str::from_utf8(answer.head.headers.get(&LOCATION)?).ok()?;
    Some(location.split('#').next().unwrap_or_default().to_owned())
}

/// Returns the absolute address of a redirect's target; `path` is that of the request.
pub fn absolute_target(origin: &Origin, path: &str, location: &str) -> String {
    match location.chars().next() {
        _ if location.starts_with("http://") || location.starts_with("https://") => location.to_owned(),
        _ if location.starts_with("//") => {
            format!("{}:{location}", if origin.tls { "https" } else { "http" })
        }
        Some('/') => format!("{origin}{location}"),
        Some('?') => format!("{origin}{path}{location}"),
        _ => {
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{origin}{directory}/{location}")
        }
    }
}

/// Returns the next path, and the next base if that is the same host by https.
fn resolve(
    base: &BaseUrl,
    current: &Uri,
    location: &str,
) -> Result<(PathAndQuery, Option<BaseUrl>), FetchError> {
    let refused = |reason: &str| FetchError::Redirect(format!("redirected {reason}"));
    let unusable = || refused("to an address that cannot be used");
    let absolute = absolute_target(&base.origin, current.path(), location);
    let target: Uri = absolute.parse().map_err(|_| unusable())?;
    let host = target.host().ok_or_else(unusable)?;
    let tls = target.scheme_str() == Some("https");
    let port = target.port_u16().unwrap_or(if tls { 443 } else { 80 });
    let path = target.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let origin = &base.origin;
    let bare = |host: &str| host.trim_matches(['[', ']']).to_ascii_lowercase();
    if bare(host) != bare(&origin.host) {
        return Err(refused(&format!("to another host, {host}, which is not followed")));
    }
    if (tls, port) == (origin.tls, origin.port) {
        return Ok((path, None));
    }
    if tls && port == 443 && origin.port == 80 {
        let secure =
            BaseUrl::parse(&format!("https://{host}"), origin.proxy.clone()).map_err(|_| unusable())?;
        return Ok((path, Some(secure)));
    }
    Err(refused(&format!("to another port, {host}:{port}, which is not followed")))
}
