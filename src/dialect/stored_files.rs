//! Blocks that name a file of our own store, and the blocks that replace them once the file has been read.
//!
//! | the file is | chat | responses | messages |
//! |---|---|---|---|
//! | an image | `image_url` | `input_image` | `image` |
//! | sound | `input_audio` | `input_audio` | `document` |
//! | text, Markdown, JSON, SVG | `text`, its name above it | `input_file` | `document` of text |
//! | anything else | `file` | `input_file` | `document` |
//!
//! Ids of others stay: the upstream may know them. Where a block has several sources, data counts before an address,
//! and both before an id. Everything around such a block stays as it was written.

mod inline;

use std::collections::HashMap;

use memchr::memmem;

use super::Dialect;
use super::json::{FILE_MARKS, Marks};
use super::literal::Text;
use super::media_types;
use super::text_files;
use super::tree::Node;
use super::writer::Writer;

pub use inline::{UnacceptedType, with_media_blocks};

/// The members of a block that are replaced with its source; all others are kept.
const REPLACED: [&str; 9] =
    ["type", "file", "file_id", "file_data", "file_url", "filename", "mime_type", "image_url", "source"];
/// The members that only one type of block has: of documents, and of pictures.
const OF_ONE_TYPE: [&str; 4] = ["title", "context", "citations", "detail"];
/// The types of blocks that may name a file.
const BLOCKS: [&str; 6] = ["file", "input_file", "input_image", "image_url", "image", "document"];

/// A file that has been read.
#[derive(Clone, Debug)]
pub struct StoredFile {
    pub filename: String,
    pub mime_type: String,
    pub content: Content,
}

/// A file's bytes, in the form that the blocks of its kind carry.
#[derive(Clone, Debug)]
pub enum Content {
    Base64(String),
    Text(String),
}

impl Content {
    /// Returns the bytes that are held while it is written into a body: its own and those in the body; for text also those of
    /// the literal between.
    pub fn held_len(&self) -> usize {
        match self {
            Self::Base64(data) => 2 * data.len(),
            Self::Text(text) => text.len() + 2 * text.bytes().map(escaped_len).sum::<usize>(),
        }
    }
}

fn escaped_len(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        ..0x20 => 6,
        _ => 1,
    }
}

/// Files by their ids.
pub type StoredFiles = HashMap<String, StoredFile>;

/// Whether files of this type are carried as text in a dialect.
pub fn is_carried_as_text(dialect: Dialect, mime_type: &str) -> bool {
    text_files::is_text_type(mime_type) && dialect != Dialect::Responses
}

/// Whether the body of a request may name a file of ours, or carry a file: some string in it begins like an id, or is
/// the key of a file's data.
pub fn may_be_resolved(dialect: Dialect, marks: Marks) -> bool {
    let carries = marks.file_data && matches!(dialect, Dialect::Chat | Dialect::Responses);
    carries || may_occur(dialect, marks)
}

/// Whether the body of a request may name a file of ours.
pub fn may_occur(dialect: Dialect, marks: Marks) -> bool {
    marks.files && matches!(dialect, Dialect::Chat | Dialect::Responses | Dialect::Messages)
}

/// The places where strings in a body begin like an id of ours. They are found in one walk, because on every level it
/// is asked whether a part of the body names such a file.
struct Places<'b> {
    body: &'b str,
    /// Byte offsets, in order.
    ids: Vec<usize>,
}

impl<'b> Places<'b> {
    fn of(body: &'b str) -> Self {
        let is_ours = |at: &usize| {
            let rest = body.as_bytes().get(at + 1..).unwrap_or_default();
            FILE_MARKS.iter().any(|prefix| rest.starts_with(prefix.as_bytes()))
        };
        let ids = memmem::find_iter(body.as_bytes(), b"\"file-").filter(is_ours).collect();
        Self { body, ids }
    }

    /// Whether a string that begins like an id stands in this part of the body.
    fn are_in(&self, part: &Node<'_>) -> bool {
        let Some(place) = part.place_in(self.body) else { return false };
        let next = self.ids.partition_point(|at| *at < place.start);
        self.ids.get(next).is_some_and(|at| *at < place.end)
    }
}

/// Returns the ids of the files that the blocks of a body want, as often as they occur; `None` where no block names a
/// file of ours at all.
pub fn wanted(body: &Node<'_>) -> Option<Vec<String>> {
    let mut ids = None;
    collect(body, &Places::of(body.raw()), &mut ids);
    ids
}

/// Returns the body with the files in place of their ids.
pub fn inlined(dialect: Dialect, body: &Node<'_>, files: &StoredFiles) -> String {
    let mut out = Writer::with_capacity(body.raw().len());
    Inlining { dialect, files, places: Places::of(body.raw()) }.put(body, &mut out);
    out.into_string()
}

/// A block that names a file of ours.
struct Reference<'n, 'a> {
    id: String,
    /// The object that holds the id.
    holder: &'n Node<'a>,
    /// Whether the block has a source that counts before the id.
    is_idle: bool,
}

fn reference<'n, 'a>(node: &'n Node<'a>) -> Option<Reference<'n, 'a>> {
    let kind = node.get("type").and_then(Node::str)?;
    if !BLOCKS.contains(&kind.as_ref()) {
        return None;
    }
    let nested = || node.get("file").filter(|file| file.is_object());
    let source = || node.get("source").filter(|source| source.str_at("type") == "file");
    let holder = nested().or_else(source).unwrap_or(node);
    let id = holder.get("file_id").and_then(Node::str)?;
    let is_ours = FILE_MARKS.iter().any(|prefix| id.starts_with(prefix));
    let is_idle = ["file_data", "file_url", "image_url"].iter().any(|other| holder.get(other).is_some());
    is_ours.then(|| Reference { id: id.into_owned(), holder, is_idle })
}

/// Whether the node is a call: the model's input for a tool is arguments, whatever it looks like.
fn is_call(node: &Node<'_>) -> bool {
    node.get("type").and_then(Node::str).is_some_and(|kind| kind.ends_with("tool_use"))
}

fn collect(node: &Node<'_>, places: &Places<'_>, ids: &mut Option<Vec<String>>) {
    if !places.are_in(node) {
        return;
    }
    if let Some(reference) = reference(node) {
        let ids = ids.get_or_insert_default();
        if !reference.is_idle {
            ids.push(reference.id);
        }
        return;
    }
    node.items().iter().for_each(|item| collect(item, places, ids));
    let is_call = is_call(node);
    for (key, held) in node.members() {
        if key != "tools" && !(is_call && key == "input") {
            collect(held, places, ids);
        }
    }
}

/// The writing of files into a body.
struct Inlining<'b> {
    dialect: Dialect,
    files: &'b StoredFiles,
    places: Places<'b>,
}

impl Inlining<'_> {
    /// Writes a value with its files; one that names no file of ours is written unchanged.
    fn put(&self, node: &Node<'_>, out: &mut Writer) {
        if !self.places.are_in(node) {
            return out.item(node.json());
        }
        if let Some(reference) = reference(node) {
            return match self.files.get(&reference.id).filter(|_| !reference.is_idle) {
                Some(file) => put_file(self.dialect, node, &reference, file, out),
                None if reference.is_idle => put_without_id(node, &reference, out),
                None => out.item(node.json()),
            };
        }
        if node.is_array() {
            out.list(|a| node.items().iter().for_each(|item| self.put(item, a)));
        } else if node.is_object() {
            let is_call = is_call(node);
            out.object(|o| {
                for (key, held) in node.members() {
                    if key == "tools" || (is_call && key == "input") {
                        o.field(key, held.json());
                    } else {
                        o.value_at(key, |o| self.put(held, o));
                    }
                }
            });
        } else {
            out.item(node.json());
        }
    }
}

/// Writes the block without the id, which only this gateway knows.
fn put_without_id(node: &Node<'_>, reference: &Reference<'_, '_>, out: &mut Writer) {
    let is_nested = !std::ptr::addr_eq(node, reference.holder);
    out.object(|o| {
        for (key, held) in node.members() {
            if std::ptr::addr_eq(held, reference.holder) {
                o.object_at(key, |o| {
                    held.members().iter().filter(|(key, _)| key != "file_id").for_each(|(key, value)| {
                        o.field(key, value.json());
                    });
                });
            } else if is_nested || key != "file_id" {
                o.field(key, held.json());
            }
        }
    });
}

/// Writes the block with the file in place of its id.
fn put_file(
    dialect: Dialect,
    node: &Node<'_>,
    reference: &Reference<'_, '_>,
    file: &StoredFile,
    out: &mut Writer,
) {
    let said = reference.holder.get("filename").and_then(Node::str).filter(|name| !name.trim().is_empty());
    let name = said.as_deref().unwrap_or(&file.filename);
    let mime = Text::of(&file.mime_type);
    // Base64 needs no escapes; text does.
    let data = match &file.content {
        Content::Base64(data) => Text::inside(data),
        Content::Text(text) => Text::of(text),
    };
    let named = NamedFile { file, name, mime: &mime, data: &data };
    let block_type = named.block_type(dialect);
    let is_same = node.str_at("type") == block_type;
    let is_kept = |key: &str| !REPLACED.contains(&key) && (is_same || !OF_ONE_TYPE.contains(&key));
    out.object(|o| {
        o.field("type", block_type);
        match dialect {
            Dialect::Messages => named.put_messages_block(o, is_same && node.get("title").is_some()),
            _ => named.put_openai_block(o, dialect),
        }
        for (key, held) in node.members().iter().filter(|(key, _)| is_kept(key)) {
            o.field(key, held.json());
        }
    });
}

/// A file that is about to be written as a block.
struct NamedFile<'f> {
    file: &'f StoredFile,
    /// The name the client gives it, or the one it was stored under.
    name: &'f str,
    mime: &'f Text<'f>,
    data: &'f Text<'f>,
}

impl NamedFile<'_> {
    /// Whether it is a picture; an SVG that is carried as text is none.
    fn is_image(&self) -> bool {
        let is_text = matches!(self.file.content, Content::Text(_));
        self.file.mime_type.starts_with("image/") && !is_text
    }

    /// Returns the type of the block as which the file is written.
    fn block_type(&self, dialect: Dialect) -> &'static str {
        match (dialect, &self.file.content) {
            (Dialect::Messages, _) => {
                if self.is_image() {
                    "image"
                } else {
                    "document"
                }
            }
            (Dialect::Responses, _) if self.is_image() => "input_image",
            (_, Content::Text(_)) => "text",
            _ if self.is_image() => "image_url",
            _ if self.file.mime_type.starts_with("audio/") => "input_audio",
            (Dialect::Responses, _) => "input_file",
            _ => "file",
        }
    }

    /// Writes the members of a block of messages: an image or a document.
    fn put_messages_block(&self, o: &mut Writer, has_title: bool) {
        o.object_at("source", |o| {
            let is_text = matches!(self.file.content, Content::Text(_));
            o.field("type", if is_text { "text" } else { "base64" });
            o.field("media_type", if is_text { Text::plain("text/plain") } else { self.mime.borrowed() });
            o.field("data", self.data.borrowed());
        });
        if !self.is_image() && !has_title {
            o.field("title", self.name);
        }
    }

    /// Writes the members of a block of chat or responses.
    fn put_openai_block(&self, o: &mut Writer, dialect: Dialect) {
        let data_url = ["data:", self.mime.literal(), ";base64,", self.data.literal()];
        match self.block_type(dialect) {
            "input_image" => o.joined("image_url", &data_url),
            "text" => o.joined("text", &[Text::of(self.name).literal(), "\\n", self.data.literal()]),
            "image_url" => o.object_at("image_url", |o| o.joined("url", &data_url)),
            "input_audio" => o.object_at("input_audio", |o| {
                o.field("data", self.data.borrowed());
                o.field("format", audio_format(&self.file.mime_type, self.name));
            }),
            "input_file" => self.put_file_members(o, &data_url),
            _ => o.object_at("file", |o| self.put_file_members(o, &data_url)),
        }
    }

    fn put_file_members(&self, o: &mut Writer, data_url: &[&str]) {
        o.field("filename", self.name);
        o.joined("file_data", data_url);
    }
}

/// Returns OpenAI's name of the audio format of a file, by its type, else by its name.
fn audio_format(mime_type: &str, filename: &str) -> String {
    let known = mime_type.strip_prefix("audio/").and_then(media_types::audio_format);
    let by_name = || filename.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    known.map(str::to_owned).or_else(by_name).unwrap_or_else(|| "mp3".to_owned())
}

#[cfg(test)]
mod tests;
