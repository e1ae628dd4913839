//! Writes content blocks of requests.

use super::turns::says_something;
use crate::dialect::canonical::{Call, ConversionError, File, Part, Source, Thinking, ToolResult};
use crate::dialect::literal::{Json, Text};
use crate::dialect::media_types::{PDF, PDF_START};
use crate::dialect::signature::Signature;
use crate::dialect::text_files;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// A block that the API accepts.
pub(super) enum Block<'r, 'a> {
    Text(&'r Text<'a>),
    Image(&'r Source<'a>),
    Document { source: Document<'r>, title: Option<&'r Text<'a>> },
    Thinking(&'r Thinking<'a>),
    Call(&'r Call<'a>),
    Result { result: &'r ToolResult<'a>, blocks: Vec<Block<'r, 'a>> },
}

pub(super) enum Document<'r> {
    Pdf(&'r Text<'r>),
    Url(&'r Text<'r>),
    Plain(Text<'r>),
}

impl<'r, 'a> Block<'r, 'a> {
    /// Returns the block of a part. Fails for a part that the API has no block for, with the name that most dialects
    /// give its kind.
    pub(super) fn of(part: &'r Part<'a>) -> Result<Self, ConversionError> {
        Ok(match part {
            Part::Text(text) | Part::Refusal(text) => Self::Text(text),
            Part::Image(image) => match &image.source {
                Source::Inline { mime, .. } if mime.is("image/svg+xml") => {
                    return Err(ConversionError::unsupported("image_url"));
                }
                Source::Inline { .. } | Source::Url(_) => Self::Image(&image.source),
                Source::Id(_) => return Err(ConversionError::unsupported("file_id")),
                Source::Plain(_) => return Err(ConversionError::unsupported("image_url")),
            },
            Part::File(file) => Self::of_file(file)?,
            Part::Thinking(thinking) => Self::Thinking(thinking),
            Part::Call(call) => Self::Call(call),
            Part::Result(result) => {
                let said = result.parts.iter().filter(|part| match part {
                    Part::Text(text) => says_something(text),
                    _ => true,
                });
                Self::Result { result, blocks: said.map(Block::of).collect::<Result<_, _>>()? }
            }
            Part::Audio { .. } => return Err(ConversionError::unsupported("input_audio")),
            Part::Search(_) => return Err(ConversionError::unsupported("web_search_call")),
            // A mark is never a block of its own: it is put on the block before it.
            Part::CacheMark(_) => return Err(ConversionError::unsupported("cache_control")),
            Part::Foreign(kind) => return Err(ConversionError::unsupported(kind.decode())),
        })
    }

    fn of_file(file: &'r File<'a>) -> Result<Self, ConversionError> {
        let source = match &file.source {
            Source::Url(url) => Document::Url(url),
            Source::Plain(text) => Document::Plain(text.borrowed()),
            Source::Id(_) => return Err(ConversionError::unsupported("file_id")),
            Source::Inline { mime, data } => {
                let mime = mime.decode().to_ascii_lowercase();
                let may_be_pdf = || text_files::is_unknown(&mime) && data.literal().starts_with(PDF_START);
                if mime.starts_with("image/") {
                    return Ok(Self::Image(&file.source));
                } else if mime == PDF || may_be_pdf() {
                    Document::Pdf(data)
                } else {
                    let text = text_files::inline_text(file);
                    Document::Plain(text.ok_or_else(|| ConversionError::unsupported("file"))?)
                }
            }
        };
        Ok(Self::Document { source, title: file.name.as_ref() })
    }

    /// Returns whether a cache breakpoint may be put on it.
    pub(super) fn is_cacheable(&self) -> bool {
        !matches!(self, Self::Thinking(_))
    }

    pub(super) fn put(&self, list: &mut Writer, mark: Option<&Json<'_>>) {
        list.object(|o| {
            match self {
                Self::Text(text) => {
                    o.field("type", "text");
                    o.field("text", text);
                }
                Self::Image(source) => {
                    o.field("type", "image");
                    o.object_at("source", |o| put_image(o, source));
                }
                Self::Document { source, title } => {
                    o.field("type", "document");
                    o.object_at("source", |o| put_document(o, source));
                    o.field_if("title", *title);
                }
                Self::Thinking(thinking) => put_thinking(o, thinking),
                Self::Call(call) => put_call(o, &call.id, call),
                Self::Result { result, blocks } => put_result(o, result, blocks),
            }
            o.field_if("cache_control", mark);
        });
    }
}

fn put_image(o: &mut Writer, source: &Source<'_>) {
    match source {
        Source::Inline { mime, data } => {
            o.field("type", "base64");
            o.field("media_type", mime);
            o.field("data", data);
        }
        Source::Url(text) | Source::Id(text) | Source::Plain(text) => {
            o.field("type", "url");
            o.field("url", text);
        }
    }
}

fn put_document(o: &mut Writer, source: &Document<'_>) {
    match source {
        Document::Pdf(data) => {
            o.field("type", "base64");
            o.field("media_type", PDF);
            o.field("data", data);
        }
        Document::Url(url) => {
            o.field("type", "url");
            o.field("url", url);
        }
        Document::Plain(text) => {
            o.field("type", "text");
            o.field("media_type", "text/plain");
            o.field("data", text);
        }
    }
}

pub(super) fn put_thinking(o: &mut Writer, thinking: &Thinking<'_>) {
    match &thinking.signature {
        Some(Signature::AnthropicRedacted(data)) => {
            o.field("type", "redacted_thinking");
            o.field("data", data);
        }
        Some(Signature::Anthropic(proof) | Signature::Unknown(proof)) => {
            o.field("type", "thinking");
            o.field("thinking", &thinking.text);
            o.field("signature", proof);
        }
        // Thinking without such a signature has been left out before.
        _ => o.field("type", "thinking"),
    }
}

pub(super) fn put_call(o: &mut Writer, id: &Text<'_>, call: &Call<'_>) {
    o.field("type", "tool_use");
    o.field("id", id);
    o.field("name", &call.name);
    put_input(o, &call.input);
}

/// Writes the input of a call, which is an object here. Other dialects have any text, mostly JSON.
fn put_input(o: &mut Writer, input: &Text<'_>) {
    let json = input.decode();
    match Node::parse(&json) {
        Ok(node) if node.is_object() => o.field("input", node.json()),
        _ if json.trim().is_empty() => o.field("input", Json::checked("{}")),
        _ => o.object_at("input", |o| o.field("_raw", input)),
    }
}

fn put_result(o: &mut Writer, result: &ToolResult<'_>, blocks: &[Block<'_, '_>]) {
    o.field("type", "tool_result");
    o.field("tool_use_id", &result.call_id);
    match blocks {
        [] => o.field("content", ""),
        [Block::Text(text)] => o.field("content", text),
        blocks => o.array("content", |list| blocks.iter().for_each(|block| block.put(list, None))),
    }
    if result.is_error {
        o.field("is_error", true);
    }
}
