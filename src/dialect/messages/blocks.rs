//! Reads content blocks, which requests and answers have in common.

use crate::dialect::cache_marks;
use crate::dialect::canonical::{
    Call, CallKind, ConversionError, File, Image, Part, Source, Thinking, ToolResult,
};
use crate::dialect::literal::Text;
use crate::dialect::marked_turns;
use crate::dialect::media_types;
use crate::dialect::signature::{self, Signature};
use crate::dialect::tree::Node;

/// Reads the content of a message, a tool result or a document: a string, or a list of blocks.
/// `field` is its path, for errors.
pub(super) fn read_content<'a>(
    content: &Node<'a>,
    field: &str,
    parts: &mut Vec<Part<'a>>,
) -> Result<(), ConversionError> {
    if let Some(text) = content.text() {
        parts.push(Part::Text(text));
        return Ok(());
    }
    if !content.is_array() {
        return Err(ConversionError::invalid(field, "must be a string or a list of blocks"));
    }
    for (index, block) in content.items().iter().enumerate() {
        let before = parts.len();
        read_block(block, &|| format!("{field}[{index}]"), parts)?;
        if parts.len() > before && !matches!(parts.last(), Some(Part::CacheMark(_))) {
            parts.extend(cache_marks::of(block).map(Part::CacheMark));
        }
    }
    Ok(())
}

fn read_block<'a>(
    block: &Node<'a>,
    field: &dyn Fn() -> String,
    parts: &mut Vec<Part<'a>>,
) -> Result<(), ConversionError> {
    if let Some(text) = block.text() {
        parts.push(Part::Text(text));
        return Ok(());
    }
    if !block.is_object() {
        return Err(ConversionError::invalid(field(), "must be a content block (an object)"));
    }
    match block.str_at("type").as_ref() {
        "text" => parts.extend(block.text_at("text").map(Part::Text)),
        "thinking" | "redacted_thinking" => read_thinking(block, parts),
        "tool_use" => parts.push(Part::Call(read_call(block))),
        "tool_result" => {
            let mut inner = Vec::new();
            if let Some(content) = block.get("content") {
                read_content(content, &format!("{}.content", field()), &mut inner)?;
            }
            let mark = cache_marks::of(block).or(marked_turns::taken(&mut inner));
            parts.push(Part::Result(ToolResult {
                call_id: block.text_at("tool_use_id").unwrap_or_default(),
                kind: CallKind::Function,
                parts: inner,
                // Other dialects get its text as one string, unless it holds more than text.
                listed: false,
                is_error: block.bool_at("is_error").unwrap_or(false),
            }));
            parts.extend(mark.map(Part::CacheMark));
        }
        "image" => {
            let source = block.get("source").and_then(read_source);
            let source = source.ok_or_else(|| ConversionError::invalid(field(), "must have a source"))?;
            parts.push(Part::Image(Image { source, detail: None }));
        }
        "document" => read_document(block, field, parts)?,
        "search_result" => {
            let mut lines: Vec<_> = ["title", "source"].iter().filter_map(|key| block.text_at(key)).collect();
            lines.extend(block.items_at("content").iter().filter_map(|text| text.text_at("text")));
            parts.push(Part::Text(Text::join(&lines, "\\n")));
        }
        // A tool that a search found; its definition is in the request.
        "tool_reference" => parts.extend(block.text_at("tool_name").map(Part::Text)),
        // The server's summary of the earlier turns.
        "compaction" => {
            let summary = block.text_at("content").filter(|text| !text.is_blank());
            parts.extend(summary.map(|text| Part::Text(Text::join([text, Text::EMPTY].iter(), "\\n"))));
        }
        // The server's tools are done; their results become text of the conversation.
        "server_tool_use" | "mcp_tool_use" => {}
        kind if kind.ends_with("_tool_result") => {
            let mut lines = Vec::new();
            collect_lines(block, &mut lines);
            if !lines.is_empty() {
                parts.push(Part::Text(Text::join(
                    [Text::EMPTY, Text::join(&lines, "\\n"), Text::EMPTY].iter(),
                    "\\n",
                )));
            }
        }
        _ => parts.push(Part::Foreign(block.text_at("type").unwrap_or(Text::plain("block")))),
    }
    Ok(())
}

/// Collects the readable strings among the results of a server's tool.
fn collect_lines<'a>(node: &Node<'a>, lines: &mut Vec<Text<'a>>) {
    for item in node.items() {
        collect_lines(item, lines);
    }
    for (key, value) in node.members() {
        match (key.as_ref(), value.text()) {
            ("title" | "url" | "text" | "stdout" | "stderr" | "error_code", Some(text)) => {
                lines.extend(Some(text).filter(|text| !text.is_empty()));
            }
            // The text of a page that was fetched.
            ("data", Some(text)) if node.str_at("type") == "text" => {
                lines.extend(Some(text).filter(|text| !text.is_empty()));
            }
            (_, None) => collect_lines(value, lines),
            _ => {}
        }
    }
}

/// Reads a call. Its input is an object here and text in every other dialect.
pub(super) fn read_call<'a>(block: &Node<'a>) -> Call<'a> {
    let input = match block.get("input") {
        None => Text::plain("{}"),
        Some(input) => input.text().unwrap_or_else(|| Text::of(&input.json().compact())),
    };
    Call {
        id: block.text_at("id").unwrap_or_default(),
        name: block.text_at("name").unwrap_or_default(),
        kind: CallKind::Function,
        input,
        signature: None,
    }
}

/// Reads a `thinking` or `redacted_thinking` block. The signature of another provider is a tag of ours
/// ([`signature`]), which may hold several pieces.
pub(super) fn read_thinking<'a>(block: &Node<'a>, parts: &mut Vec<Part<'a>>) {
    let text = block.text_at("thinking").unwrap_or_default();
    let proof = block.text_at("signature").or_else(|| block.text_at("data"));
    let Some(proof) = proof.filter(|proof| !proof.is_empty()) else {
        parts.push(Part::Thinking(Thinking { text, signature: None }));
        return;
    };
    match signature::untag(&proof) {
        None if block.get("data").is_some() => {
            let signature = Some(Signature::AnthropicRedacted(proof));
            parts.push(Part::Thinking(Thinking { text: Text::EMPTY, signature }));
        }
        None => parts.push(Part::Thinking(Thinking { text, signature: Some(Signature::Anthropic(proof)) })),
        Some(pieces) if pieces.is_empty() => {
            parts.push(Part::Thinking(Thinking { text, signature: None }));
        }
        Some(pieces) => {
            let alone = pieces.len() == 1;
            parts.extend(pieces.into_iter().map(|(said, signature)| {
                // Not every tag repeats the text; without it, a single piece has the block's text.
                let text = if said.is_empty() && alone { text.clone() } else { said };
                Part::Thinking(Thinking { text, signature: Some(signature) })
            }));
        }
    }
}

fn read_document<'a>(
    block: &Node<'a>,
    field: &dyn Fn() -> String,
    parts: &mut Vec<Part<'a>>,
) -> Result<(), ConversionError> {
    let missing = || ConversionError::invalid(field(), "must have a source");
    let source = block.get("source").ok_or_else(missing)?;
    let name = block.text_at("title").filter(|title| !title.is_blank());
    // Remarks on the document, for which no other dialect has a place.
    parts.extend(block.text_at("context").filter(|context| !context.is_blank()).map(Part::Text));
    if source.str_at("type") != "content" {
        let source = read_source(source).ok_or_else(missing)?;
        parts.push(as_audio(&source).unwrap_or(Part::File(File { source, name })));
        return Ok(());
    }
    let mut inner = Vec::new();
    let content = source.get("content").ok_or_else(missing)?;
    read_content(content, &format!("{}.source.content", field()), &mut inner)?;
    marked_turns::taken(&mut inner);
    let texts: Vec<_> = inner
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    if !texts.is_empty() {
        let source = Source::Plain(Text::join(texts, "\\n"));
        parts.push(Part::File(File { source, name }));
    }
    parts.extend(inner.into_iter().filter(|part| !matches!(part, Part::Text(_))));
    Ok(())
}

/// Returns the recording that a document is: a stored file of any kind may be named as a document.
fn as_audio<'a>(source: &Source<'a>) -> Option<Part<'a>> {
    let Source::Inline { mime, data } = source else { return None };
    let mime = mime.decode().to_ascii_lowercase();
    let subtype = mime.strip_prefix("audio/")?;
    let format = Text::of(media_types::audio_format(subtype).unwrap_or(subtype));
    Some(Part::Audio { data: data.clone(), format })
}

fn read_source<'a>(source: &Node<'a>) -> Option<Source<'a>> {
    match source.str_at("type").as_ref() {
        "base64" => {
            let mime = source.text_at("media_type").unwrap_or_default();
            Some(Source::inline(mime, source.text_at("data")?))
        }
        "url" => Some(Source::Url(source.text_at("url")?)),
        "file" => Some(Source::Id(source.text_at("file_id")?)),
        "text" => Some(Source::Plain(source.text_at("data")?)),
        _ => None,
    }
}
