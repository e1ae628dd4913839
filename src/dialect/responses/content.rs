//! The blocks of a message and of a tool's output: texts, pictures, files, sound.
//!
//! Blocks of chat are read, too, because clients mix the two dialects.

use std::fmt;

use crate::dialect::canonical::{ConversionError, File, Image, Part, Role, Source};
use crate::dialect::data_urls::source_of;
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// A place in the request, for the error that names it: `input[3].content`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextPlace {
    pub item: usize,
    pub member: &'static str,
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "input[{}].{}", self.item, self.member)
    }
}

/// Reads a text, a list of blocks, or a single block.
pub(super) fn read<'a>(content: &Node<'a>, place: TextPlace) -> Result<Vec<Part<'a>>, ConversionError> {
    if content.is_object() {
        return Ok(vec![read_block(content, || place.to_string())?]);
    }
    match content.text() {
        Some(text) => Ok(vec![Part::Text(text)]),
        None if content.is_array() => {
            let blocks = content.items().iter().enumerate();
            blocks.map(|(index, block)| read_block(block, || format!("{place}[{index}]"))).collect()
        }
        None => Err(ConversionError::invalid(place.to_string(), "must be a string or a list")),
    }
}

/// Reads one block; `place` names its place in an error.
pub(super) fn read_block<'a>(
    block: &Node<'a>,
    place: impl Fn() -> String,
) -> Result<Part<'a>, ConversionError> {
    if let Some(text) = block.text() {
        return Ok(Part::Text(text));
    }
    if !block.is_object() {
        return Err(ConversionError::invalid(place(), "must be an object"));
    }
    let needed = |key: &str| {
        block
            .text_at(key)
            .ok_or_else(|| ConversionError::invalid(format!("{}.{key}", place()), "must be a string"))
    };
    Ok(match block.str_at("type").as_ref() {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            Part::Text(needed("text")?)
        }
        "" if block.get("text").is_some() => Part::Text(needed("text")?),
        "refusal" => Part::Refusal(needed("refusal")?),
        "input_image" | "image_url" => Part::Image(read_image(block, &place)?),
        "input_file" | "file" => Part::File(read_file(block, &place)?),
        "input_audio" => {
            let audio = block.get("input_audio").unwrap_or(block);
            match (audio.text_at("data"), audio.text_at("format")) {
                (Some(data), Some(format)) => Part::Audio { data, format },
                _ => return Err(ConversionError::invalid(place(), "must have data and format")),
            }
        }
        "" => return Err(ConversionError::invalid(format!("{}.type", place()), "is required")),
        _ => Part::Foreign(needed("type")?),
    })
}

fn read_image<'a>(block: &Node<'a>, place: impl Fn() -> String) -> Result<Image<'a>, ConversionError> {
    let url = block.get("image_url").map(|url| url.get("url").unwrap_or(url));
    let source = url.and_then(source_of_url).or_else(|| block.text_at("file_id").map(Source::Id));
    let detail = block.text_at("detail").or_else(|| block.get("image_url")?.text_at("detail"));
    match source {
        Some(source) => Ok(Image { source, detail }),
        None => Err(ConversionError::invalid(place(), "must have an image_url or a file_id")),
    }
}

fn read_file<'a>(block: &Node<'a>, place: impl Fn() -> String) -> Result<File<'a>, ConversionError> {
    // Chat wraps the file in an object of its own.
    let file = block.get("file").filter(|file| file.is_object()).unwrap_or(block);
    let name = file.text_at("filename").filter(|name| !name.is_blank());
    let data =
        || file.get("file_data").and_then(source_of_url).map(|source| with_mime(source, name.as_ref()));
    let url = || file.text_at("file_url").map(Source::Url);
    let id = || file.text_at("file_id").map(Source::Id);
    match data().or_else(url).or_else(id) {
        Some(source) => Ok(File { source, name }),
        None => Err(ConversionError::invalid(place(), "must have file_data, a file_url or a file_id")),
    }
}

/// Turns bare base64 into inline data, whose media type only the extension of the file's name tells.
fn with_mime<'a>(source: Source<'a>, name: Option<&Text<'_>>) -> Source<'a> {
    let Source::Url(data) = source else { return source };
    let name = name.map(|name| name.decode().to_ascii_lowercase()).unwrap_or_default();
    let mime = match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "txt" => "text/plain",
        "md" | "markdown" => "text/markdown",
        "json" => "application/json",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "pdf" | "" => "application/pdf",
        _ => "application/octet-stream",
    };
    Source::Inline { mime: Text::plain(mime), data }
}

/// Returns the source that a URL names: inline data, or an address.
fn source_of_url<'a>(url: &Node<'a>) -> Option<Source<'a>> {
    url.is_string().then(|| source_of(&url.raw()[1..url.raw().len() - 1]))
}

/// Writes one block of a message of `role`; the block types of the model differ from those of the input.
pub(super) fn put(list: &mut Writer, part: &Part<'_>, role: Role) -> Result<(), ConversionError> {
    let is_input = role != Role::Assistant;
    match part {
        Part::Refusal(text) if !is_input => list.object(|o| {
            o.field("type", "refusal");
            o.field("refusal", text);
        }),
        Part::Text(text) | Part::Refusal(text) => put_text(list, role, text),
        Part::Image(Image { source, detail }) if is_input && !matches!(source, Source::Plain(_)) => {
            list.object(|o| {
                o.field("type", "input_image");
                put_source(o, source, "image_url", "image_url");
                o.field_if("detail", detail.as_ref());
            });
        }
        Part::File(File { source: Source::Plain(text), name }) if is_input => match name {
            Some(name) => put_text(list, role, &Text::join([name, text], "\\n")),
            None => put_text(list, role, text),
        },
        Part::File(file) if file.is_video() => return Err(ConversionError::unsupported("file")),
        Part::File(file) if is_input => list.object(|o| {
            o.field("type", "input_file");
            match &file.source {
                Source::Inline { .. } => o.field("filename", file.name_or_kind()),
                _ => o.field_if("filename", file.name.as_ref()),
            }
            put_source(o, &file.source, "file_data", "file_url");
        }),
        Part::Audio { data, format } if is_input => list.object(|o| {
            o.field("type", "input_audio");
            o.object_at("input_audio", |o| {
                o.field("data", data);
                o.field("format", format);
            });
        }),
        Part::Foreign(kind) => return Err(ConversionError::unsupported(kind.decode())),
        Part::Image(_) | Part::File(_) | Part::Audio { .. } => {
            return Err(ConversionError::unsupported("messages"));
        }
        // These parts are items of their own.
        Part::Thinking(_) | Part::Call(_) | Part::Result(_) | Part::Search(_) | Part::CacheMark(_) => {}
    }
    Ok(())
}

fn put_text(list: &mut Writer, role: Role, text: &Text<'_>) {
    list.object(|o| {
        o.field("type", if role == Role::Assistant { "output_text" } else { "input_text" });
        o.field("text", text);
    });
}

fn put_source(o: &mut Writer, source: &Source<'_>, data_key: &str, url_key: &str) {
    match source {
        Source::Inline { mime, data } => {
            o.joined(data_key, &["data:", mime.literal(), ";base64,", data.literal()]);
        }
        Source::Url(url) => o.field(url_key, url),
        Source::Id(id) => o.field("file_id", id),
        Source::Plain(_) => {}
    }
}
