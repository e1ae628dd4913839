//! A handler's input: the parsed head, the caller's addresses, and a body that is read on demand.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use tokio::task::block_in_place;

use super::bearer::LastToken;
use super::body::{self, RequestBody};
use super::body_error::BodyError;
use super::timer::ReusableTimer;
use super::upgrade::Upgrade;
use crate::byte_order_mark;
use crate::ids::{ChannelId, Id};
use crate::limits::{BodyOwner, HeldMemory};
use crate::request_id::RequestId;

/// A body longer than this, in bytes, is parsed outside the thread's async work, so that other connections go on.
const LONG: usize = 1024 * 1024;
/// The longest body that is parsed into a tree regardless of its contents, in bytes: the tree takes up to sixteen times as
/// much.
const MAX_TREE: usize = 2 * 1024 * 1024;
/// The most names and values of a longer body. Its tree takes about a hundred bytes for each, besides the texts.
const MAX_VALUES: usize = 200_000;

/// One request after routing: a single pointer, because it moves through every layer to its handler.
pub struct Request(Box<Parts>);

/// Marks a request that came over no connection: an operator tries out the proxy from the admin API.
#[derive(Clone, Copy, Debug)]
pub struct Internal {
    /// The only channel that may answer.
    pub forced_channel: Option<ChannelId>,
}

/// The contents of a [`Request`].
pub struct Parts {
    pub method: Method,
    /// The target as sent; its path is not decoded.
    pub uri: Uri,
    pub params: Params,
    pub query: Query,
    pub headers: HeaderMap,
    /// The socket's peer.
    pub peer: SocketAddr,
    /// The client's address according to trusted proxies, else the peer's; an IPv4-mapped one as IPv4.
    pub client_ip: IpAddr,
    pub id: RequestId,
    pub body: RequestBody,
    /// The longest body held whole, in bytes.
    pub body_limit: usize,
    /// The body's part of the memory that all bodies share; `None` if it needs none.
    pub memory: Option<HeldMemory>,
    /// Set when the service itself makes the request.
    pub internal: Option<Internal>,
    /// The connection's timer for its handler's waits, one at a time.
    pub timer: ReusableTimer,
    /// The connection's timer for the first output, which runs beside the handler's waits.
    pub first_output_timer: ReusableTimer,
    /// The last token sent over the connection, for the check of the caller.
    pub last_token: LastToken,
    /// Set when the request asks for another protocol.
    pub upgrade: Option<Upgrade>,
}

impl Request {
    /// Reads the whole body, at most as long as the configured limit.
    pub async fn bytes(&mut self) -> Result<Bytes, BodyError> {
        let Parts { body, headers, body_limit, memory, .. } = &mut *self.0;
        body::collect(body, headers, *body_limit, memory.as_mut()).await
    }

    /// Waits for the whole body, at most as long as the configured limit; it is read afterwards without waiting.
    pub async fn read_ahead(&mut self) -> Result<(), BodyError> {
        let bytes = self.bytes().await?;
        self.0.body = RequestBody::Own((!bytes.is_empty()).then_some(bytes));
        Ok(())
    }

    /// Counts what the body takes as this owner's. To be called before anything of it is read.
    pub fn belongs_to(&mut self, owner: BodyOwner) {
        let Parts { body, memory, .. } = &mut *self.0;
        if let Some(memory) = memory {
            memory.assign_to(owner);
            body.count_in(memory);
        }
    }

    /// Limits the bytes on the wire of a compressed body that is read in pieces.
    pub fn bound_pieces(&mut self, bytes: usize) {
        self.body.bound(bytes);
    }

    /// Returns the next piece of the body, for readers that do not keep it whole; `None` at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, BodyError> {
        body::next_data(&mut self.body).await
    }

    /// Reads the body as a JSON object; an absent body is `{}`. A body over 2 MiB may be long because of its texts, but not
    /// because of many values.
    ///
    /// # Errors
    /// Fails as [`BodyError`] says: too long, too many values, a media type other than JSON, broken JSON, anything but an
    /// object.
    pub async fn json_object(&mut self) -> Result<Map<String, Value>, BodyError> {
        let bytes = self.json_bytes().await?;
        let read = || {
            if bytes.len() > MAX_TREE && has_more_values(&bytes, MAX_VALUES) {
                Err(BodyError::TooManyValues { most: MAX_VALUES })
            } else {
                object(&bytes)
            }
        };
        // Other tasks need this thread meanwhile.
        if bytes.len() > LONG { block_in_place(read) } else { read() }
    }

    /// Reads the whole body, which must be JSON according to its headers, without a byte order mark; empty when there is
    /// none.
    ///
    /// # Errors
    /// Fails as [`BodyError`] says: too long, a media type other than JSON.
    pub async fn json_bytes(&mut self) -> Result<Bytes, BodyError> {
        let bytes = self.bytes().await?;
        if !bytes.is_empty() {
            self.expect_json()?;
        }
        Ok(if bytes.starts_with(byte_order_mark::BYTES) {
            bytes.slice(byte_order_mark::BYTES.len()..)
        } else {
            bytes
        })
    }

    /// Refuses a body whose headers do not say that it is JSON.
    pub fn expect_json(&self) -> Result<(), BodyError> {
        if let Some(found) = self.headers.get(CONTENT_TYPE) {
            let found = found.to_str().unwrap_or_default();
            let essence = found.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            if essence != "application/json" && !essence.ends_with("+json") {
                return Err(BodyError::MediaType(found.chars().take(100).collect()));
            }
        } else {
            return Err(BodyError::MediaType("none".to_owned()));
        }
        Ok(())
    }
}

/// Parses a body as a JSON object; an absent body is `{}`. The tree takes up to sixteen times the body's length.
pub fn object(body: &[u8]) -> Result<Map<String, Value>, BodyError> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(BodyError::NotAnObject),
        Err(error) => Err(BodyError::NotJson(error.to_string())),
    }
}

/// Returns whether JSON text has more than `most` names and values, counting its commas, colons and opening brackets.
fn has_more_values(body: &[u8], most: usize) -> bool {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for &byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b':' | b'[' if !is_text => {
                count += 1;
                if count > most {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

impl From<Parts> for Request {
    fn from(parts: Parts) -> Self {
        Self(Box::new(parts))
    }
}

impl Deref for Request {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl DerefMut for Request {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

/// The path parameters of the matched route, decoded.
#[derive(Debug, Default)]
pub struct Params(pub(super) Vec<(&'static str, String)>);

impl Params {
    /// Returns the text of a parameter; empty when the route has none of that name.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// Returns a strictly positive integer id, else the message for the client.
    pub fn id<I: Id>(&self, name: &str) -> Result<I, String> {
        let text = self.get(name);
        let digits = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<i64>() {
            Ok(id) if digits && id > 0 => Ok(I::new(id)),
            _ => Err(format!("Invalid {name}. Expected positive integer.")),
        }
    }
}

/// The query string, decoded on look-up: `+` means a blank, and the first of equal names counts.
#[derive(Debug, Default)]
pub struct Query(pub(super) String);

impl Query {
    pub fn new(raw: &str) -> Self {
        Self(raw.to_owned())
    }

    pub fn get(&self, name: &str) -> Option<String> {
        self.pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }

    /// Returns whether a switch is on: `1`, `true` or `yes`.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value.as_str(), "1" | "true" | "yes"))
    }

    /// Reads `limit`, the number of entries on a page, which is at most `max`.
    pub fn limit(&self, max: i64) -> Result<Option<i64>, String> {
        match self.get("limit").map(|text| text.parse()) {
            None => Ok(None),
            Some(Ok(limit)) if (1..=max).contains(&limit) => Ok(Some(limit)),
            Some(_) => Err(format!("limit must be a number from 1 to {max}")),
        }
    }

    /// Returns the query as sent, without the question mark.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Returns every name with its value, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.0.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_form(name), decode_form(value))
        })
    }
}

fn decode_form(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
    } else {
        percent_decode_str(text).decode_utf8_lossy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SiteId;

    #[test]
    fn ids_in_paths_are_strict() {
        let params = |text: &str| Params(vec![("id", text.to_owned())]);
        assert_eq!(params("12").id("id"), Ok(SiteId::new(12)));
        for text in ["12abc", "NaN", "0", "-1", "+1", "1.0", "", "99999999999999999999"] {
            assert!(params(text).id::<SiteId>("id").is_err(), "{text}");
        }
    }

    #[test]
    fn queries_are_decoded_and_the_first_of_equal_names_counts() {
        let query = Query::new("key=a%2Bb&name=two+words&key=second&flag");
        assert_eq!(query.get("key").as_deref(), Some("a+b"));
        assert_eq!(query.get("name").as_deref(), Some("two words"));
        assert_eq!(query.get("flag").as_deref(), Some(""));
        assert_eq!(query.get("absent"), None);
        let switches = Query::new("a=1&b=true&c=yes&d=0&e=&f=TRUE");
        let on: Vec<&str> =
            ["a", "b", "c", "d", "e", "f", "g"].into_iter().filter(|name| switches.is_on(name)).collect();
        assert_eq!(on, ["a", "b", "c"]);
    }
}
