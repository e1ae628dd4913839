//! The bodies of requests that come as forms, or as JSON: images and videos to be edited, recordings to be transcribed.
//!
//! A form is kept whole, because another channel may have to be asked; its parts are passed on byte for byte, except
//! for the model's name.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use crate::dialect::Dialect;
use crate::dialect::envelope::{self, Envelope, EnvelopeError, FormModel};
use crate::http::form::{Field, Form};
use crate::http::multipart::PartHead;
use crate::subslice::place_in;

/// The file name for a file that has none.
const UNNAMED: &str = "upload.bin";

/// Returns the `Content-Type` of a form with its boundary; `None` for anything else.
pub(super) fn form_type(headers: &HeaderMap) -> Option<&HeaderValue> {
    let is_form = |value: &&HeaderValue| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"multipart/form-data")
    };
    headers.get(CONTENT_TYPE).filter(is_form)
}

/// Returns the body of a form with a name for each file, because upstreams take a part without one for a text; `None`
/// where no name is missing.
fn with_names(form: &Form, body: &Bytes) -> Option<Bytes> {
    const DISPOSITION: &str = "content-disposition:";
    let mut out = Vec::new();
    let mut copied = 0;
    for field in form.fields.iter().filter(|field| lacks_a_name(field)) {
        let lines = std::str::from_utf8(body.get(field.lines.clone())?).ok()?;
        let begins = |line: &&str| {
            line.get(..DISPOSITION.len()).is_some_and(|it| it.eq_ignore_ascii_case(DISPOSITION))
        };
        let Some(line) = lines.split("\r\n").find(begins) else { continue };
        let place = place_in(line.as_bytes(), body)?;
        // An existing file name is empty, and is removed.
        let parameters =
            line.split(';').filter(|it| !it.trim_start().to_ascii_lowercase().starts_with("filename"));
        out.extend_from_slice(&body[copied..place.start]);
        out.extend_from_slice(parameters.collect::<Vec<_>>().join(";").as_bytes());
        out.extend_from_slice(format!("; filename=\"{UNNAMED}\"").as_bytes());
        copied = place.end;
    }
    out.extend_from_slice(&body[copied..]);
    (copied > 0).then(|| Bytes::from(out))
}

/// Whether a field is a file without a name: a file has the parameter for one, or the type of an image or of plain bytes.
fn lacks_a_name(field: &Field) -> bool {
    match &field.head.filename {
        Some(name) => name.trim().is_empty(),
        None => field.head.content_type.as_deref().is_some_and(|kind| {
            let kind = kind.to_ascii_lowercase();
            kind.starts_with("image/") || kind.starts_with("application/octet-stream")
        }),
    }
}

/// Whether some upstream may read a field of this name as the model: frameworks differ about case and brackets.
fn may_be_the_model(name: &str) -> bool {
    name.split('[').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("model"))
}

/// Whether a field names the model in a way that every upstream reads alike: as a plain text, not a file or another charset.
fn is_plain_model(field: &Field) -> bool {
    let PartHead { name, filename, content_type } = &field.head;
    let is_text = content_type.as_deref().is_none_or(|kind| {
        let kind = kind.to_ascii_lowercase().replace([' ', '"'], "");
        matches!(kind.as_str(), "text/plain" | "text/plain;charset=utf-8" | "text/plain;charset=us-ascii")
    });
    name == "model" && filename.is_none() && is_text
}

/// Reads what routing must know of such a request, and returns its body as upstreams read it.
pub(super) fn read(
    dialect: Dialect,
    headers: &HeaderMap,
    mut body: Bytes,
) -> Result<(Envelope, Bytes), EnvelopeError> {
    let Some(content_type) = form_type(headers) else {
        return Ok((envelope::skim(dialect, &body)?, body));
    };
    let content_type = content_type.to_str().unwrap_or_default();
    let no_form =
        |why: &str| EnvelopeError { field: None, message: format!("The body is not a valid form: {why}") };
    let mut form = Form::read(content_type, &body).map_err(|why| no_form(why.0))?;
    if let Some(named) = with_names(&form, &body) {
        form = Form::read(content_type, &named).map_err(|why| no_form(why.0))?;
        body = named;
    }
    if form.fields.is_empty() {
        return Err(no_form("it has no fields"));
    }
    if form.fields.iter().any(|field| may_be_the_model(&field.head.name) && !is_plain_model(field)) {
        let message = "must be sent as one plain text field named model, so that every upstream can read it";
        return Err(EnvelopeError::field("model", message));
    }
    let mut models = form.fields.iter().filter(|field| field.head.name == "model");
    let model = match (models.next(), models.next()) {
        // Only one of them was permitted, and we must not guess which one an upstream uses.
        (_, Some(_)) => FormModel::Twice,
        (Some(field), None) => FormModel::At(field.content.clone()),
        (None, None) => {
            let boundary = &form.boundary;
            let head = format!("\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n");
            FormModel::Absent { at: form.end, head }
        }
    };
    let is_true = |field: &Field| body[field.content.clone()].trim_ascii().eq_ignore_ascii_case(b"true");
    let mut envelope = envelope::of_form(dialect, &body, model, form.field("stream").is_some_and(is_true))?;
    let others = form.fields.iter().filter(|field| envelope::other_models(&field.head.name).is_some());
    envelope
        .other_models
        .extend(others.map(|field| String::from_utf8_lossy(&body[field.content.clone()]).into_owned()));
    envelope.wants_json_transcript = dialect == Dialect::Audio
        && form.field("response_format").is_none_or(|field| is_json_transcript(&body[field.content.clone()]));
    Ok((envelope, body))
}

fn is_json_transcript(format: &[u8]) -> bool {
    matches!(format.trim_ascii(), b"json" | b"verbose_json" | b"diarized_json")
}
