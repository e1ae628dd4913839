//! Reads the parts of a content, in requests and in answers.

use super::member;
use crate::dialect::canonical::{Call, CallKind, File, Image, Part, Source, Thinking, ToolResult};
use crate::dialect::literal::{Text, with_letters};
use crate::dialect::media_types;
use crate::dialect::signature::{self, Signature};
use crate::dialect::tree::Node;

/// A part as it was written. The caller finds the call of a result, and makes an id for a call without one.
#[derive(Debug)]
pub(super) enum Read<'a> {
    Part(Part<'a>),
    /// A `functionResponse`: the name of its function, and the result, whose call id may be empty.
    Result(Text<'a>, ToolResult<'a>),
}

/// Returns the thoughts of another provider's model that a part carries as its signature.
pub(super) fn carried<'a>(part: &Node<'_>) -> Vec<Part<'a>> {
    let proof = member::get(part, "thoughtSignature").and_then(Node::text);
    let pieces = proof.and_then(|proof| signature::untag_bytes(&proof)).unwrap_or_default().into_iter();
    pieces.map(|(text, signature)| Part::Thinking(Thinking { text, signature: Some(signature) })).collect()
}

/// Reads a part; `None` when it is empty.
pub(super) fn read<'a>(part: &Node<'a>) -> Option<Read<'a>> {
    let proof = member::get(part, "thoughtSignature").and_then(Node::text);
    let proof = proof.filter(|proof| signature::untag_bytes(proof).is_none()).map(Signature::Gemini);
    if let Some(text) = part.text_at("text") {
        if part.bool_at("thought") == Some(true) {
            return Some(Read::Part(Part::Thinking(Thinking { text, signature: proof })));
        }
        // Google does not require the signature of plain text back.
        return (!text.is_empty()).then_some(Read::Part(Part::Text(text)));
    }
    if let Some(call) = member::get(part, "functionCall") {
        return Some(Read::Part(Part::Call(Call {
            id: call.text_at("id").unwrap_or_default(),
            name: call.text_at("name").filter(|name| !name.is_blank())?,
            kind: CallKind::Function,
            input: call
                .get("args")
                .map(|args| Text::of(&with_letters(&args.json().compact())))
                .unwrap_or_default(),
            signature: proof,
        })));
    }
    if let Some(response) = member::get(part, "functionResponse") {
        return Some(Read::Result(response.text_at("name").unwrap_or_default(), result(response)));
    }
    if let Some(data) = member::get(part, "inlineData") {
        return inline(data).map(Read::Part);
    }
    if let Some(file) = member::get(part, "fileData") {
        return linked(file).map(Read::Part);
    }
    let name = part.members().iter().find(|(_, value)| value.is_object()).map(|(key, _)| key)?;
    Some(Read::Part(Part::Foreign(Text::of(name))))
}

/// Reads a result, which is an object. The usual ones hold one text, under a name that tells whether it is an error.
fn result<'a>(response: &Node<'a>) -> ToolResult<'a> {
    let mut parts = Vec::new();
    let mut is_error = false;
    if let Some(body) = response.get("response") {
        // Older examples of Google's repeat the name of the function, as Vercel's provider still does.
        let repeats_name = body.members().len() == 2 && body.text_at("name") == response.text_at("name");
        let (name, value) = match (body.members(), body.get("content").filter(|_| repeats_name)) {
            (_, Some(content)) => ("output", content),
            ([(name, value)], _) => (&**name, value),
            _ => ("", body),
        };
        is_error = name == "error";
        let is_wrapped = is_error || matches!(name, "result" | "output" | "content");
        let value = if is_wrapped { value } else { body };
        let text = value.text().unwrap_or_else(|| Text::of(&with_letters(&value.json().compact())));
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
    }
    let pictures =
        response.items_at("parts").iter().filter_map(|part| inline(member::get(part, "inlineData")?));
    parts.extend(pictures);
    let call_id = response.text_at("id").unwrap_or_default();
    ToolResult { call_id, kind: CallKind::Function, parts, listed: false, is_error }
}

fn inline<'a>(inline: &Node<'a>) -> Option<Part<'a>> {
    let data = standard(inline.text_at("data")?);
    let mime = member::get(inline, "mimeType").and_then(Node::text).unwrap_or_default();
    let kind = mime.decode().to_ascii_lowercase();
    if let Some(format) = kind.strip_prefix("audio/") {
        return Some(Part::Audio {
            data,
            format: Text::of(media_types::audio_format(format).unwrap_or(format)),
        });
    }
    let source = Source::inline(mime, data);
    if kind.starts_with("image/") {
        return Some(Part::Image(Image { source, detail: None }));
    }
    let name = member::get(inline, "displayName").and_then(Node::text);
    Some(Part::File(File { source, name }))
}

/// Returns base64 in the standard alphabet, padded. Google also accepts the URL-safe alphabet, and its SDK for Python
/// writes that.
fn standard(data: Text<'_>) -> Text<'_> {
    let letters = data.literal().as_bytes();
    let missing = letters.len().wrapping_neg() % 4;
    // Text with an escape is left alone: base64 has no escape but that of the slash.
    if letters.contains(&b'\\') || (missing == 0 && memchr::memchr2(b'-', b'_', letters).is_none()) {
        return data;
    }
    let mut standard = data.literal().replace('-', "+").replace('_', "/");
    standard.extend(std::iter::repeat_n('=', missing));
    Text::of(&standard)
}

/// Addresses of files that only Google can read: its stored files, and videos of YouTube, which need no media type.
const AT_GOOGLE: [&str; 5] = [
    "//generativelanguage.googleapis.com/",
    "//www.youtube.com/",
    "//m.youtube.com/",
    "//youtube.com/",
    "//youtu.be/",
];

/// Reads a linked file. An address that not only Google can read can be sent to everyone.
fn linked<'a>(file: &Node<'a>) -> Option<Part<'a>> {
    let uri = member::get(file, "fileUri")?.text()?;
    let address = uri.decode().into_owned();
    if !address.starts_with("http") || AT_GOOGLE.iter().any(|place| address.contains(place)) {
        return Some(Part::Foreign(Text::plain("fileData")));
    }
    let source = Source::Url(uri);
    let mime = member::get(file, "mimeType").and_then(Node::str).unwrap_or_default();
    Some(match mime.split_once('/').map_or("", |(kind, _)| kind) {
        "image" => Part::Image(Image { source, detail: None }),
        // No other dialect fetches videos or sound.
        "video" | "audio" => Part::Foreign(Text::plain("fileData")),
        _ => Part::File(File { source, name: None }),
    })
}
