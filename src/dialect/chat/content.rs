//! Reads the content of a message: a string, or a list of parts; and finds the message, or its next piece, in a stream.

use crate::dialect::cache_marks;
use crate::dialect::canonical::{File, Image, Part, Source, Thinking};
use crate::dialect::data_urls::source_of;
use crate::dialect::events::is_content;
use crate::dialect::literal::Text;
use crate::dialect::media_types;
use crate::dialect::tree::Node;

/// The members of a message that say something. Thinking may come in pieces alone, before a whole message.
const SAID: [&str; 4] = ["content", "refusal", "tool_calls", "function_call"];

/// Finds the pieces of the message in the chunks of a stream.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Whether a `delta` has had one of [`SAID`].
    have_come: bool,
}

impl Pieces {
    /// Returns what a choice brings: its `delta`, or a whole `message` in place of one. Sites that send pieces may repeat
    /// all of them in a last `message` (MiniMax does), which brings nothing.
    pub(super) fn of<'n, 'a>(&mut self, choice: &'n Node<'a>) -> Option<&'n Node<'a>> {
        let delta = choice.get("delta").filter(|delta| delta.is_object());
        let said = |delta: &Node<'_>, name: &&str| delta.get(name).is_some_and(is_content);
        self.have_come |= delta.is_some_and(|delta| SAID.iter().any(|name| said(delta, name)));
        delta.or_else(|| choice.get("message").filter(|_| !self.have_come))
    }
}

/// Reads `content`. A single part counts as a list of one, as some clients send it. `None` when it is neither text
/// nor parts, or when a part lacks a member that its type requires.
pub(super) fn read<'a>(content: &Node<'a>) -> Option<Vec<Part<'a>>> {
    if content.is_array() {
        content.items().iter().map(part).collect()
    } else {
        part(content).map(|part| vec![part])
    }
}

/// Returns the pictures that OpenRouter and LiteLLM put beside the text of an answer.
pub(super) fn images<'a>(message: &Node<'a>) -> impl Iterator<Item = Image<'a>> {
    message.items_at("images").iter().filter_map(image)
}

/// Reads the `content` of a request, with the marks up to which its prompt is to be cached.
pub(super) fn read_marked<'a>(content: &Node<'a>) -> Option<Vec<Part<'a>>> {
    let blocks = if content.is_array() { content.items() } else { std::slice::from_ref(content) };
    let mut parts = Vec::with_capacity(blocks.len());
    for block in blocks {
        parts.push(part(block)?);
        parts.extend(cache_marks::of(block).map(Part::CacheMark));
    }
    Some(parts)
}

fn part<'a>(part: &Node<'a>) -> Option<Part<'a>> {
    if let Some(text) = part.text() {
        return Some(Part::Text(text));
    }
    if !part.is_object() {
        return None;
    }
    match &*part.str_at("type") {
        "text" | "input_text" | "output_text" | "" => part.text_at("text").map(Part::Text),
        "refusal" => part.text_at("refusal").map(Part::Refusal),
        "image_url" | "input_image" => image(part).map(Part::Image),
        "input_audio" => {
            let audio = part.get("input_audio")?;
            Some(Part::Audio { data: audio.text_at("data")?, format: audio.text_at("format")? })
        }
        "file" | "input_file" => file(part.get("file").unwrap_or(part)).map(Part::File),
        "document_url" => document(part).map(Part::File),
        "thinking" | "reasoning" => {
            let text = part.get("thinking").or(part.get("text")).map(thinking_text).unwrap_or_default();
            Some(Part::Thinking(Thinking { text, signature: None }))
        }
        _ => part.text_at("type").map(Part::Foreign),
    }
}

/// Returns the text of a node that is a string or a list of text parts.
fn thinking_text<'a>(node: &Node<'a>) -> Text<'a> {
    node.text().unwrap_or_else(|| {
        let texts: Vec<_> = node.items().iter().filter_map(|part| part.text_at("text")).collect();
        Text::join(&texts, "")
    })
}

/// Reads a picture. `image_url` is an object with the address and the detail; older clients send the address alone.
fn image<'a>(part: &Node<'a>) -> Option<Image<'a>> {
    let url = part.get("image_url")?;
    let (url, holder) = if url.is_string() { (url, part) } else { (url.get("url")?, url) };
    Some(Image { source: source_of(literal(url)?), detail: holder.text_at("detail") })
}

/// Reads a file. If it names several sources, data is preferred to an address, and an address to an id.
fn file<'a>(file: &Node<'a>) -> Option<File<'a>> {
    let name = file.text_at("filename").filter(|name| !name.is_blank());
    let source = if let Some(data) = file.get("file_data") {
        let data = literal(data)?;
        match source_of(data) {
            Source::Url(_) if !data.starts_with("http") => {
                let mime = file.text_at("mime_type").unwrap_or_else(|| mime_of(name.as_ref()));
                Source::Inline { mime, data: Text::inside(data) }
            }
            source => source,
        }
    } else if let Some(url) = file.get("file_url") {
        source_of(literal(url)?)
    } else {
        Source::Id(file.text_at("file_id")?)
    };
    Some(File { source, name })
}

/// Reads a document as clients of Mistral's SDKs send it.
fn document<'a>(part: &Node<'a>) -> Option<File<'a>> {
    let source = source_of(literal(part.get("document_url")?)?);
    Some(File { source, name: part.text_at("document_name").filter(|name| !name.is_blank()) })
}

/// Returns the text between the quotes of a JSON string, as it is escaped there.
fn literal<'a>(node: &Node<'a>) -> Option<&'a str> {
    node.is_string().then(|| &node.raw()[1..node.raw().len() - 1])
}

/// Returns the media type of bare base64 data, by the name of its file. PDF is the default, because that is what the
/// API is used for.
fn mime_of(name: Option<&Text<'_>>) -> Text<'static> {
    Text::plain(name.and_then(|name| media_types::of_name(&name.decode())).unwrap_or(media_types::PDF))
}
