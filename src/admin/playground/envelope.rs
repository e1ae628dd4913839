//! Reads the operator's description of a proxy request: method, path and body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Uri};
use serde_json::{Map, Value};

use super::error::PlaygroundError;
use crate::dialect::data_urls;
use crate::dialect::messages::API_VERSION;
use crate::ids::ChannelId;
use crate::json_number::MAX_EXACT;
use crate::proxy::internal::InternalRequest;
use crate::uuid;

type Result<T> = std::result::Result<T, PlaygroundError>;

/// The value of `stream` in the request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streamed {
    Never,
    Always,
    /// The value of the envelope's own `stream`.
    AsAsked,
}

/// The paths that may be requested; `{}` stands for any one segment.
const PATHS: &[&str] = &[
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/responses/compact",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/search",
    "/v1/models",
    "/v1/models/{}",
    "/v1/files",
    "/v1/files/{}",
    "/v1/files/{}/content",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/videos",
    "/v1/videos/{}",
    "/v1beta/models",
    "/v1beta/models/{}",
    "/gemini/{}/models",
    "/gemini/{}/models/{}",
];

/// Reads the envelope.
pub(super) fn read(fields: &Map<String, Value>, streamed: Streamed) -> Result<InternalRequest> {
    let target = target(text(fields, "path")?.unwrap_or_default())?;
    let method = match text(fields, "method")?.unwrap_or("POST").to_ascii_uppercase().as_str() {
        "POST" => Method::POST,
        "GET" => Method::GET,
        "DELETE" => Method::DELETE,
        _ => return Err(PlaygroundError::invalid("Invalid method. Expected POST, GET or DELETE.")),
    };
    let kind = text(fields, "requestKind")?.unwrap_or("json");
    if !matches!(kind, "json" | "multipart" | "empty") {
        return Err(PlaygroundError::invalid("Invalid requestKind. Expected json, multipart or empty."));
    }
    if method != Method::POST && kind != "empty" {
        return Err(PlaygroundError::invalid(format!(
            "A {method} request has no body: requestKind must be empty"
        )));
    }
    let raw = text(fields, "rawJsonText")?.filter(|raw| !raw.trim().is_empty());
    if flag(fields, "rawMode")? && raw.is_none() {
        return Err(PlaygroundError::invalid("rawMode needs rawJsonText"));
    }
    let stream = match streamed {
        Streamed::Never => false,
        Streamed::Always => true,
        Streamed::AsAsked => flag(fields, "stream")?,
    };
    let (content_type, body) = match kind {
        "empty" => (None, Bytes::new()),
        "multipart" => form(fields)?,
        _ => {
            // Gemini's path says whether it streams, and its upstreams refuse unknown members.
            let stream = (!is_gemini(&target)).then_some(stream);
            (Some("application/json".to_owned()), json_body(fields, raw, stream))
        }
    };
    Ok(internal_request(method, target, content_type, body, fields))
}

/// Builds the request with the headers that its path requires.
pub(super) fn internal_request(
    method: Method,
    target: Uri,
    content_type: Option<String>,
    body: Bytes,
    fields: &Map<String, Value>,
) -> InternalRequest {
    let mut headers = HeaderMap::new();
    if let Some(content_type) = content_type.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(CONTENT_TYPE, content_type);
    }
    if target.path().starts_with("/v1/messages") {
        headers.insert("anthropic-version", HeaderValue::from_static(API_VERSION));
    }
    InternalRequest { method, target, headers, body, forced_channel: forced_channel(fields) }
}

/// Reads the forced channel: a positive exact integer, as a number or text; anything else forces no channel.
fn forced_channel(fields: &Map<String, Value>) -> Option<ChannelId> {
    let id = match fields.get("forcedChannelId")? {
        Value::Number(number) => number.as_i64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (1..=MAX_EXACT).contains(&id).then(|| ChannelId::new(id))
}

/// Returns the path and query to request; if `text` is a whole address, the rest of it is ignored.
pub(super) fn target(text: &str) -> Result<Uri> {
    let is_plain = !text.contains(char::is_control);
    let text = text.trim();
    if text.is_empty() {
        return Err(PlaygroundError::invalid("Invalid path. Expected non-empty string."));
    }
    let refused = || {
        PlaygroundError::invalid(format!(
            "The path {text} cannot be tested here: use a path of the proxy, such as /v1/chat/completions"
        ))
    };
    if !is_plain {
        return Err(refused());
    }
    let scheme = text
        .split_once("://")
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"));
    let rest = match scheme {
        Some((_, address)) => address.find(['/', '?']).map_or("", |at| &address[at..]),
        None => text,
    };
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let path = format!("/{}", path.trim_start_matches('/'));
    if rest.contains(['\\', '#']) || rest.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refused());
    }
    let asked: Vec<&str> = path.split('/').skip(1).collect();
    let allowed = PATHS.iter().find_map(|known| spelled(known, &asked)).ok_or_else(refused)?;
    let whole = query.map_or(allowed.clone(), |query| format!("{allowed}?{query}"));
    whole.parse().map_err(|_| refused())
}

/// Returns the requested path in the spelling of the known one; `None` if it is another path.
fn spelled(known: &str, asked: &[&str]) -> Option<String> {
    let known: Vec<&str> = known.split('/').skip(1).collect();
    if known.len() != asked.len() {
        return None;
    }
    let mut path = String::new();
    for (known, asked) in known.iter().zip(asked) {
        let segment = match *known {
            "{}" if is_plain(asked) => *asked,
            literal if literal.eq_ignore_ascii_case(asked) => literal,
            _ => return None,
        };
        path.push('/');
        path.push_str(segment);
    }
    Some(path)
}

/// Whether a segment stays one segment, however it is decoded.
fn is_plain(segment: &str) -> bool {
    let lower = segment.to_ascii_lowercase();
    !segment.is_empty()
        && !segment.contains("..")
        && segment != "."
        && !["%2e", "%2f", "%5c"].iter().any(|encoded| lower.contains(encoded))
}

fn is_gemini(target: &Uri) -> bool {
    ["/v1beta/", "/gemini/"].iter().any(|family| target.path().starts_with(family))
}

fn json_body(fields: &Map<String, Value>, raw: Option<&str>, stream: Option<bool>) -> Bytes {
    let mut body = match raw {
        // Text that is not JSON is sent as it is: the operator tests how the proxy takes it.
        Some(raw) => match serde_json::from_str(raw) {
            Ok(body) => body,
            Err(_) => return Bytes::copy_from_slice(raw.as_bytes()),
        },
        None => fields
            .get("jsonBody")
            .filter(|body| !body.is_null())
            .cloned()
            .unwrap_or_else(|| Map::new().into()),
    };
    if let (Some(body), Some(stream)) = (body.as_object_mut(), stream) {
        body.insert("stream".to_owned(), stream.into());
    }
    Bytes::from(body.to_string())
}

/// Builds a multipart form of the given fields and files.
fn form(fields: &Map<String, Value>) -> Result<(Option<String>, Bytes)> {
    let wrong = |name: &str, expected: &str| {
        PlaygroundError::invalid(format!("Invalid {name}. Expected {expected}."))
    };
    let boundary = format!("switchyard-{}", uuid::v4());
    let mut body = Vec::new();
    let mut part = |head: String, data: &[u8]| {
        body.extend_from_slice(
            format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(),
        );
        body.extend_from_slice(data);
        body.extend_from_slice(b"\r\n");
    };
    let texts = match fields.get("multipartFields") {
        None | Some(Value::Null) => None,
        Some(Value::Object(texts)) => Some(texts),
        Some(_) => return Err(wrong("multipartFields", "object of strings")),
    };
    for (name, value) in texts.into_iter().flatten() {
        let value = value.as_str().ok_or_else(|| wrong("multipartFields", "object of strings"))?;
        part(format!("name=\"{}\"", quoted(name)), value.as_bytes());
    }
    let files = match fields.get("multipartFiles") {
        None | Some(Value::Null) => [].as_slice(),
        Some(Value::Array(files)) => files.as_slice(),
        Some(_) => return Err(wrong("multipartFiles", "array")),
    };
    for file in files {
        let member = |name: &str| file.get(name).and_then(Value::as_str).unwrap_or_default();
        let file_data = data_urls::split(member("dataUrl"))
            .and_then(|(mime, data)| Some((mime, BASE64.decode(data.trim()).ok()?)));
        let (mime, data) = file_data.ok_or_else(|| wrong("multipartFiles[].dataUrl", "base64 data URL"))?;
        let field = if member("field").is_empty() { "file" } else { member("field") };
        let kind = if member("mimeType").is_empty() { &mime } else { member("mimeType") };
        let names = format!("name=\"{}\"; filename=\"{}\"", quoted(field), quoted(member("name")));
        part(format!("{names}\r\nContent-Type: {}", quoted(kind)), &data);
    }
    if body.is_empty() {
        return Err(PlaygroundError::invalid("A multipart request needs multipartFields or multipartFiles"));
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((Some(format!("multipart/form-data; boundary={boundary}")), Bytes::from(body)))
}

/// Quotes a name for a part's head (RFC 7578 2, as browsers write it).
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(PlaygroundError::invalid(format!("Invalid {name}. Expected string."))),
    }
}

fn flag(fields: &Map<String, Value>, name: &str) -> Result<bool> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(PlaygroundError::invalid(format!("Invalid {name}. Expected boolean."))),
    }
}
