//! Writes the messages of a request for an upstream.
//!
//! A chat message cannot hold everything in its place. An assistant's message has one text and then its calls. The
//! results must follow at once, one message each with nothing but text, before anything else that the user says. So
//! the pictures of a result, and the rest of its turn, come after the results.

use std::collections::HashSet;

use super::thinking;
use crate::dialect::canonical::{Call, CallKind, File, Image, Part, Request, Role, Source, Turn, Vendor};
use crate::dialect::canonical::{ConversionError, Target, ToolResult};
use crate::dialect::effort::may_be_third_gemini;
use crate::dialect::literal::Text;
use crate::dialect::signature::{NO_GEMINI_SIGNATURE, Signature};
use crate::dialect::text_files;
use crate::dialect::writer::Writer;

/// Checks that every part can be written in this dialect; names the first that cannot.
pub(super) fn check(request: &Request<'_>, vendor: Vendor) -> Result<(), ConversionError> {
    for part in request.all_parts() {
        match part {
            Part::Foreign(name) => return Err(ConversionError::unsupported(name.decode())),
            Part::Image(Image { source: Source::Id(_), .. }) => {
                return Err(ConversionError::unsupported("file_id"));
            }
            Part::File(File { source: Source::Id(_), .. }) if vendor != Vendor::OpenAi => {
                return Err(ConversionError::unsupported("file_id"));
            }
            Part::File(File { source: Source::Url(_), .. }) => {
                return Err(ConversionError::unsupported("file_url"));
            }
            Part::File(file) if file.is_video() && vendor != Vendor::Gemini => {
                return Err(ConversionError::unsupported("file"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes all messages into the list being written.
pub(super) fn write(list: &mut Writer, request: &Request<'_>, target: &Target<'_>) {
    let vendor = target.vendor;
    // From the third generation on, Gemini refuses a call without its signature.
    let signs = vendor == Vendor::Gemini && may_be_third_gemini(target.model);
    let to = Reader { vendor, signs };
    if !request.system.is_empty() {
        list.object(|o| {
            o.field("role", "system");
            o.field("content", Text::join(&request.system, "\\n\\n"));
        });
    }
    let mut called = HashSet::new();
    for run in request.turns.chunk_by(|one, next| one.role == next.role) {
        match run.first().map(|turn| turn.role) {
            Some(Role::Assistant) => {
                let parts = run.iter().flat_map(|turn| &turn.parts);
                called.extend(parts.filter_map(|part| match part {
                    Part::Call(call) => Some(call.id.literal()),
                    _ => None,
                }));
                write_assistant_run(list, run, to);
            }
            Some(Role::System) => write_instructions(list, run, "system"),
            Some(Role::Developer) => write_instructions(list, run, "developer"),
            Some(Role::User) | None => write_user_run(list, run, &called),
        }
    }
}

/// Writes instructions at their place, one message for each turn.
fn write_instructions(list: &mut Writer, run: &[Turn<'_>], role: &str) {
    for turn in run {
        list.object(|o| {
            o.field("role", role);
            o.field(
                "content",
                Text::join(turn.parts.iter().filter_map(Part::as_text).collect::<Vec<_>>().iter(), "\\n\\n"),
            );
        });
    }
}

/// Writes instructions for this request alone, after everything that the next request repeats.
pub(super) fn write_last_words(list: &mut Writer, words: &Text<'_>) {
    list.object(|o| {
        o.field("role", "system");
        o.field("content", words);
    });
}

/// The upstream that reads the messages.
#[derive(Clone, Copy)]
struct Reader {
    vendor: Vendor,
    /// Whether it requires a signature with the first call of a turn.
    signs: bool,
}

/// Writes consecutive turns of the assistant. Nothing may stand between calls and their results, so what the
/// assistant said after its calls joins the same message.
fn write_assistant_run(list: &mut Writer, run: &[Turn<'_>], to: Reader) {
    let mut message: Vec<&Part<'_>> = Vec::new();
    let mut calls = false;
    for turn in run {
        if !calls {
            write_assistant(list, &message, to);
            message.clear();
        }
        calls |= turn.parts.iter().any(|part| matches!(part, Part::Call(_)));
        message.extend(&turn.parts);
    }
    write_assistant(list, &message, to);
}

fn write_assistant(list: &mut Writer, parts: &[&Part<'_>], to: Reader) {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    let refusals = parts.iter().filter_map(|part| match part {
        Part::Refusal(text) => Some(text),
        _ => None,
    });
    let calls: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
        .collect();
    let refusal = Text::join(refusals, "");
    if texts.clone().next().is_none() && refusal.is_empty() && calls.is_empty() {
        return;
    }
    list.object(|o| {
        o.field("role", "assistant");
        o.field("content", Text::join(texts, ""));
        // Several vendors require the thoughts of a running tool loop; OpenAI refuses the member.
        let thought = thinking::joined(parts.iter().copied());
        if to.vendor != Vendor::OpenAi && !calls.is_empty() && !thought.is_empty() {
            o.field("reasoning_content", thought);
        }
        o.field_if("refusal", Some(refusal).filter(|refusal| !refusal.is_empty()));
        if !calls.is_empty() {
            o.array("tool_calls", |a| write_calls(a, &calls, to));
        }
    });
}

fn write_calls(list: &mut Writer, calls: &[&Call<'_>], to: Reader) {
    let signature_of = |call: &Call<'_>| match &call.signature {
        Some(Signature::Gemini(proof)) if to.vendor == Vendor::Gemini => Some(proof.borrowed().into_owned()),
        _ => None,
    };
    for (index, call) in calls.iter().enumerate() {
        list.object(|o| {
            o.field("id", &call.id);
            put_call(o, call.kind, &call.name, &call.input);
            // Gemini requires a signature with the first call of a turn, even where a later one has its own.
            let made_up = (to.signs && index == 0).then_some(Text::plain(NO_GEMINI_SIGNATURE));
            if let Some(proof) = signature_of(call).or(made_up) {
                put_gemini_signature(o, &proof);
            }
        });
    }
}

/// Writes the members of a call other than its id. A function without arguments gets an empty object.
pub(super) fn put_call(o: &mut Writer, kind: CallKind, name: &Text<'_>, input: &Text<'_>) {
    match kind {
        CallKind::Function => {
            o.field("type", "function");
            o.object_at("function", |o| put_function(o, name, input));
        }
        CallKind::Custom => {
            o.field("type", "custom");
            o.object_at("custom", |o| {
                o.field("name", name);
                o.field("input", input);
            });
        }
    }
}

/// Writes the name and the arguments of a function call.
pub(super) fn put_function(o: &mut Writer, name: &Text<'_>, input: &Text<'_>) {
    o.field("name", name);
    if input.is_empty() { o.field("arguments", "{}") } else { o.field("arguments", input) }
}

/// Writes the signature at Google's own place in the chat dialect.
pub(super) fn put_gemini_signature(o: &mut Writer, proof: &Text<'_>) {
    o.object_at("extra_content", |o| o.object_at("google", |o| o.field("thought_signature", proof)));
}

/// Writes consecutive turns of the user, all results first. Upstreams refuse a result without its call, so it is left
/// out.
fn write_user_run(list: &mut Writer, run: &[Turn<'_>], called: &HashSet<&str>) {
    let answers = |part: &&Part<'_>| match part {
        Part::Result(result) => called.contains(result.call_id.literal()),
        _ => false,
    };
    for part in run.iter().flat_map(|turn| &turn.parts).filter(answers) {
        if let Part::Result(result) = part {
            write_result(list, result);
        }
    }
    for turn in run {
        let attached = turn.parts.iter().filter(answers).flat_map(|part| match part {
            Part::Result(result) => result.parts.as_slice(),
            _ => &[],
        });
        let attached = attached.filter(|part| is_content(part) && part.as_text().is_none());
        let own = turn.parts.iter().filter(|part| is_content(part));
        write_user(list, &attached.chain(own).collect::<Vec<_>>());
    }
}

fn write_result(list: &mut Writer, result: &ToolResult<'_>) {
    let mut texts: Vec<Text<'_>> = result.parts.iter().filter_map(Part::as_text).collect();
    if result.is_error {
        let mut first = Text::of("Error: ");
        if !texts.is_empty() {
            first.push(&texts.remove(0));
        }
        texts.insert(0, first);
    }
    list.object(|o| {
        o.field("role", "tool");
        o.field("tool_call_id", &result.call_id);
        o.field("content", Text::join(&texts, "\\n"));
    });
}

fn write_user(list: &mut Writer, parts: &[&Part<'_>]) {
    let alone = match parts {
        [] => return,
        [part] => part.as_text(),
        _ => None,
    };
    list.object(|o| {
        o.field("role", "user");
        match alone {
            Some(text) => o.field("content", text),
            None => o.array("content", |a| parts.iter().for_each(|part| write_part(a, part))),
        }
    });
}

fn is_content(part: &Part<'_>) -> bool {
    matches!(part, Part::Text(_) | Part::Refusal(_) | Part::Image(_) | Part::Audio { .. } | Part::File(_))
}

fn write_part(list: &mut Writer, part: &Part<'_>) {
    if let Some(text) = part.as_text() {
        return list.object(|o| {
            o.field("type", "text");
            o.field("text", text);
        });
    }
    match part {
        Part::Image(image) => list.object(|o| {
            o.field("type", "image_url");
            o.object_at("image_url", |o| {
                write_address(o, "url", &image.source);
                o.field_if("detail", image.detail.as_ref());
            });
        }),
        Part::Audio { data, format } => list.object(|o| {
            o.field("type", "input_audio");
            o.object_at("input_audio", |o| {
                o.field("data", data);
                o.field("format", format);
            });
        }),
        Part::File(file) => list.object(|o| match text_files::inline_text(file) {
            // The API accepts PDF as the only kind of file.
            Some(text) => {
                o.field("type", "text");
                o.field("text", Text::join(file.name.iter().chain([&text]), "\\n"));
            }
            None => {
                o.field("type", "file");
                o.object_at("file", |o| write_file(o, file));
            }
        }),
        _ => {}
    }
}

fn write_file(o: &mut Writer, file: &File<'_>) {
    if let Source::Id(id) = &file.source {
        return o.field("file_id", id);
    }
    o.field("filename", file.name_or_kind());
    write_address(o, "file_data", &file.source);
}

fn write_address(o: &mut Writer, key: &str, source: &Source<'_>) {
    match source {
        Source::Inline { mime, data } => {
            o.joined(key, &["data:", mime.literal(), ";base64,", data.literal()]);
        }
        Source::Url(text) | Source::Id(text) | Source::Plain(text) => o.field(key, text),
    }
}
