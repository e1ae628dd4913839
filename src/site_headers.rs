//! The custom headers of a site that go with every request to it (`customHeaders`), in the form in which they are
//! stored: the JSON text of an object, names lower-cased and sorted, no blanks.

use std::collections::BTreeMap;
use std::fmt;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

/// Maximum number of headers: enough for any real set, far below what a request head may hold.
const MAX_HEADERS: usize = 64;
const MOST_BYTES: usize = 16 * 1024;

/// Headers that frame the message; only the gateway sets them.
const FRAMING: [&str; 8] =
    ["host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"];

/// The reason why headers are refused: a sentence for people, without a value.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault(String);

/// Reads headers from the text of an object; `None` if there are none.
///
/// # Errors
/// Fails as [`canonical`] does.
pub fn of_text(text: &str) -> Result<Option<String>, Fault> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(headers)) => canonical(&headers),
        _ => Err(Fault::shape()),
    }
}

/// Returns the stored text of these headers; `None` if there are none.
///
/// # Errors
/// Fails if one of them cannot be sent, is given twice or may not be set by an operator, or if they are too many or too
/// long.
pub fn canonical(headers: &Map<String, Value>) -> Result<Option<String>, Fault> {
    let mut sound = BTreeMap::new();
    for (name, value) in headers {
        let (header, value) = one(name, value)?;
        if sound.insert(header.as_str().to_owned(), value).is_some() {
            return Err(Fault::of(name, "is given twice"));
        }
    }
    if sound.len() > MAX_HEADERS {
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

/// Checks one header and returns its name and value.
///
/// # Errors
/// Fails if it cannot be sent, or if the gateway sets it itself.
pub fn one<'v>(name: &str, value: &'v Value) -> Result<(HeaderName, &'v str), Fault> {
    let refuse = |why| Fault::of(name, why);
    let header = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| refuse("has an invalid name"))?;
    let value = value.as_str().ok_or_else(|| refuse("must have a string value"))?;
    HeaderValue::from_str(value).map_err(|_| refuse("has characters that a header cannot carry"))?;
    if FRAMING.contains(&header.as_str()) {
        Err(refuse("is set by the gateway itself"))
    } else {
        Ok((header, value))
    }
}

impl Fault {
    pub fn shape() -> Self {
        Self("Expected JSON object whose values are all strings.".to_owned())
    }

    pub fn of(name: &str, why: &str) -> Self {
        Self(format!("Header \"{name}\" {why}."))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
