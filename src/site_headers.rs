//! The headers of a site's own that go with every request to it (`customHeaders`), in the one form in which they are stored:
//! the JSON text of an object, names lower-cased and sorted, no blanks.

use std::collections::BTreeMap;
use std::fmt;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

/// Enough for any real set of headers, far below what a request head may hold.
const MOST: usize = 64;
const MOST_BYTES: usize = 16 * 1024;

/// Headers that frame the message; the gateway alone decides them.
const FRAMING: [&str; 8] =
    ["host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"];

/// Why headers are not taken: a sentence for people, without a value.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault(String);

/// Reads the text of an object; `None` where it has no headers.
///
/// # Errors
/// As [`canonical`].
pub fn of_text(text: &str) -> Result<Option<String>, Fault> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(headers)) => canonical(&headers),
        _ => Err(Fault::shape()),
    }
}

/// The stored text of these headers; `None` where there are none.
///
/// # Errors
/// When one of them cannot be sent, comes twice or is not an operator's to set, or when they are too many.
pub fn canonical(headers: &Map<String, Value>) -> Result<Option<String>, Fault> {
    let mut sound = BTreeMap::new();
    for (name, value) in headers {
        let (header, value) = one(name, value)?;
        if sound.insert(header.as_str().to_owned(), value).is_some() {
            return Err(Fault::of(name, "is given twice"));
        }
    }
    if sound.len() > MOST {
        return Err(Fault("Expected at most 64 headers.".to_owned()));
    }
    if sound.is_empty() {
        return Ok(None);
    }
    // A map of texts to texts always serialises.
    let text = serde_json::to_string(&sound).map_err(|_| Fault::shape())?;
    if text.len() > MOST_BYTES {
        return Err(Fault("Expected at most 16 KiB of headers.".to_owned()));
    }
    Ok(Some(text))
}

/// A header that can be sent.
///
/// # Errors
/// When it cannot be, or the gateway sets it itself.
pub fn one<'v>(name: &str, value: &'v Value) -> Result<(HeaderName, &'v str), Fault> {
    let refuse = |why| Fault::of(name, why);
    let header = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| refuse("has an invalid name"))?;
    let value = value.as_str().ok_or_else(|| refuse("must have a string value"))?;
    HeaderValue::from_str(value).map_err(|_| refuse("has characters that a header cannot carry"))?;
    match FRAMING.contains(&header.as_str()) {
        true => Err(refuse("is set by the gateway itself")),
        false => Ok((header, value)),
    }
}

impl Fault {
    pub fn shape() -> Self {
        Self("Expected JSON object whose values are all strings.".to_owned())
    }

    fn of(name: &str, why: &str) -> Self {
        Self(format!("Header \"{name}\" {why}."))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
