//! Writes the contents of a request for an upstream.

use std::collections::HashMap;

use super::images;
use crate::dialect::canonical::{ConversionError, Turn};
use crate::dialect::canonical::{File, Image, Part, Request, Role, Source, Thinking, ToolResult};
use crate::dialect::literal::{Json, Text};
use crate::dialect::media_types;
use crate::dialect::signature::{NO_GEMINI_SIGNATURE, Signature};
use crate::dialect::text_files;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Checks that every part can be written in this dialect; names the first that cannot.
pub(super) fn check(request: &Request<'_>) -> Result<(), ConversionError> {
    for part in request.all_parts() {
        match part {
            Part::Foreign(name) => return Err(ConversionError::unsupported(name.decode())),
            Part::Image(Image { source: Source::Id(_), .. })
            | Part::File(File { source: Source::Id(_), .. }) => {
                return Err(ConversionError::unsupported("file_id"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes all contents into the list being written. `signs` is set for a model that requires a signature with the
/// first call of a turn. Returns whether there were any contents.
pub(super) fn write(list: &mut Writer, request: &Request<'_>, signs: bool) -> bool {
    let mut names: HashMap<&str, &Text<'_>> = HashMap::new();
    // A turn that ends up empty is left out, so the turns around it become one content.
    let mut contents: Vec<(Role, String)> = Vec::new();
    for run in request.turns.chunk_by(|one, next| one.role == next.role) {
        let role = run.first().map_or(Role::User, |turn| turn.role);
        let mut json = Writer::new();
        json.list(|a| match role {
            Role::Assistant => write_model(a, run, signs),
            _ => write_user(a, run, &names),
        });
        let calls = run.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
            Part::Call(call) => Some((call.id.literal(), &call.name)),
            _ => None,
        });
        names.extend(calls);
        let parts = json.into_string();
        match contents.last_mut() {
            _ if parts == "[]" => {}
            Some((last, said)) if *last == role => {
                said.truncate(said.len() - 1);
                said.push(',');
                said.push_str(&parts[1..]);
            }
            _ => contents.push((role, parts)),
        }
    }
    for (role, parts) in &contents {
        list.object(|o| {
            o.field("role", if *role == Role::Assistant { "model" } else { "user" });
            o.field("parts", Json::checked(parts));
        });
    }
    !contents.is_empty()
}

fn write_model(list: &mut Writer, run: &[Turn<'_>], signs: bool) {
    let parts = || run.iter().flat_map(|turn| &turn.parts);
    // Gemini requires a signature with the first call of a turn, even where a later one has its own.
    let mut is_first_call = true;
    for part in parts() {
        match part {
            Part::Thinking(Thinking { text, signature: Some(Signature::Gemini(proof)) }) => {
                list.object(|o| {
                    put_thought(o, text, Some(proof));
                })
            }
            Part::Call(call) => list.object(|o| {
                put_call(o, &call.id, &call.name, &call.input);
                let is_first_call = std::mem::take(&mut is_first_call);
                match &call.signature {
                    Some(Signature::Gemini(proof)) => o.field("thoughtSignature", proof),
                    _ if signs && is_first_call => o.field("thoughtSignature", NO_GEMINI_SIGNATURE),
                    _ => {}
                }
            }),
            Part::Text(text) => images::write_text_and_images(list, text),
            part => write_content(list, part),
        }
    }
}

/// Writes turns of the user, results first. A result without its call has no name, and is left out.
fn write_user(list: &mut Writer, run: &[Turn<'_>], names: &HashMap<&str, &Text<'_>>) {
    let parts = || run.iter().flat_map(|turn| &turn.parts);
    let results = || {
        parts().filter_map(|part| match part {
            Part::Result(result) => Some((result, *names.get(result.call_id.literal())?)),
            _ => None,
        })
    };
    results().for_each(|(result, name)| list.object(|o| write_result(o, result, name)));
    let attached = results().flat_map(|(result, _)| &result.parts).filter(|part| part.as_text().is_none());
    attached.chain(parts()).for_each(|part| write_content(list, part));
}

fn write_result(o: &mut Writer, result: &ToolResult<'_>, name: &Text<'_>) {
    let texts: Vec<_> = result.parts.iter().filter_map(Part::as_text).collect();
    o.object_at("functionResponse", |o| {
        o.field("id", &result.call_id);
        o.field("name", name);
        o.object_at("response", |o| {
            o.field(if result.is_error { "error" } else { "result" }, Text::join(&texts, "\\n"));
        });
    });
}

fn write_content(list: &mut Writer, part: &Part<'_>) {
    if let Some(text) = part.as_text().filter(|text| !text.is_empty()) {
        return list.object(|o| o.field("text", text));
    }
    match part {
        Part::Image(Image { source, .. }) => list.object(|o| put_data(o, source, "image/jpeg")),
        Part::File(file) if !matches!(file.source, Source::Plain(_)) => match text_of(file) {
            Some(text) => list.object(|o| o.field("text", text)),
            None => list.object(|o| put_data(o, &file.source, "application/pdf")),
        },
        Part::Audio { data, format } => list.object(|o| {
            o.object_at("inlineData", |o| {
                o.joined("mimeType", &["audio/", format.literal()]);
                o.field("data", data);
            });
        }),
        _ => {}
    }
}

/// Returns the text of a file, such as JSON, that Google does not read as a file although it is one.
fn text_of<'f>(file: &'f File<'_>) -> Option<Text<'f>> {
    let Source::Inline { mime, .. } = &file.source else { return None };
    let is_readable =
        mime.is("application/pdf") || !mime.decode().to_ascii_lowercase().starts_with("application/");
    (!is_readable).then(|| text_files::inline_text(file))?
}

/// Writes a file. An address needs a media type: that of its extension, or the default.
fn put_data(o: &mut Writer, source: &Source<'_>, usual: &'static str) {
    match source {
        Source::Inline { mime, data } => o.object_at("inlineData", |o| {
            o.field("mimeType", mime);
            o.field("data", data);
        }),
        Source::Url(uri) => o.object_at("fileData", |o| {
            o.field("fileUri", uri);
            let uri = uri.decode();
            let path = uri.split(['?', '#']).next().and_then(media_types::of_name);
            o.field("mimeType", path.unwrap_or(usual));
        }),
        Source::Id(_) | Source::Plain(_) => {}
    }
}

pub(super) fn put_thought(o: &mut Writer, text: &Text<'_>, proof: Option<&Text<'_>>) {
    o.field("text", text);
    o.field("thought", true);
    o.field_if("thoughtSignature", proof);
}

/// Writes a call. The arguments are an object in this dialect; any other value is put into one, as text.
pub(super) fn put_call(o: &mut Writer, id: &Text<'_>, name: &Text<'_>, input: &Text<'_>) {
    o.object_at("functionCall", |o| {
        o.field_if("id", Some(id).filter(|id| !id.is_empty()));
        o.field("name", name);
        let json = input.decode();
        match Node::parse(&json) {
            Ok(args) if args.is_object() => o.field("args", args.json()),
            _ if json.trim().is_empty() => o.object_at("args", |_| {}),
            _ => o.object_at("args", |o| o.field("_raw", input)),
        }
    });
}
