//! A request to an upstream.

use std::fmt;

use bytes::Bytes;
use hyper::http::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::http::{self, Method};

use super::repeat::WorkKind;

/// A request as it is sent; the connection knows to whom.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub target: PathAndQuery,
    pub headers: RequestHeaders,
    pub body: RequestBody,
    /// The kind of work, which decides whether the request may be sent once more.
    pub work: WorkKind,
}

impl Request {
    pub fn new(method: Method, target: PathAndQuery, body: RequestBody) -> Self {
        let work = WorkKind::of_method(&method);
        Self { method, target, headers: RequestHeaders::default(), body, work }
    }
}

/// Keeps the path and query of the address; the origin names the host.
impl<B: Into<RequestBody>> From<http::Request<B>> for Request {
    fn from(request: http::Request<B>) -> Self {
        let (head, body) = request.into_parts();
        let target = head.uri.into_parts().path_and_query;
        Self {
            work: WorkKind::of_method(&head.method),
            method: head.method,
            target: target.unwrap_or_else(|| PathAndQuery::from_static("/")),
            headers: head.headers.into(),
            body: body.into(),
        }
    }
}

/// The headers of a request, in the order in which they are sent. There are few, so that looking through them beats
/// hashing.
#[derive(Clone, Default)]
pub struct RequestHeaders(Vec<(HeaderName, HeaderValue)>);

impl RequestHeaders {
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    pub fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter()
    }

    pub fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// Sets the value of a header, in place of any it had.
    pub fn set(&mut self, name: HeaderName, value: HeaderValue) {
        if self.contains(&name) {
            self.remove(&name);
        }
        self.0.push((name, value));
    }

    /// Sets the value of a header unless it has one.
    pub fn set_default(&mut self, name: HeaderName, value: HeaderValue) {
        if !self.contains(&name) {
            self.0.push((name, value));
        }
    }

    pub fn remove(&mut self, name: &HeaderName) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Converts to a `HeaderMap`.
    pub fn to_map(&self) -> HeaderMap {
        self.iter().cloned().collect()
    }
}

impl From<HeaderMap> for RequestHeaders {
    fn from(map: HeaderMap) -> Self {
        Self(map.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

/// Shows no values: credentials are among them.
impl fmt::Debug for RequestHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// The body of a request: up to three pieces of bytes, sent one after the other without being copied together. A body
/// whose `model` value was replaced is the bytes before it, the new value, and the bytes after it. A clone costs three
/// reference counts.
#[derive(Clone, Default)]
pub struct RequestBody([Bytes; 3]);

impl RequestBody {
    pub fn empty() -> Self {
        Self::default()
    }

    pub fn pieces(&self) -> &[Bytes; 3] {
        &self.0
    }

    /// Returns the length in bytes.
    pub(super) fn length(&self) -> u64 {
        self.0.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl From<[Bytes; 3]> for RequestBody {
    fn from(pieces: [Bytes; 3]) -> Self {
        Self(pieces)
    }
}

impl From<(Bytes, Bytes, Bytes)> for RequestBody {
    fn from((first, second, third): (Bytes, Bytes, Bytes)) -> Self {
        Self([first, second, third])
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self([bytes, Bytes::new(), Bytes::new()])
    }
}

impl From<()> for RequestBody {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

/// Shows no bytes: they are somebody's conversation.
impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestBody({} bytes)", self.length())
    }
}
