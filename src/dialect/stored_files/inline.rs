//! Files that a client put into its body itself: their type is checked like that of a stored file, and an image or a
//! sound is put into the block of its kind, since `file_data` takes neither.
//!
//! Documents stay as they are written, and so does everything around the blocks that change.

use super::{Content, Reference, StoredFile, put_file};
use crate::dialect::Dialect;
use crate::dialect::literal::Text;
use crate::dialect::media_types::{PDF, PDF_START};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// A block that carries a file.
struct Inline<'n, 'a> {
    block: &'n Node<'a>,
    /// The object that holds the data.
    holder: &'n Node<'a>,
    said: Option<String>,
    /// Base64, as it is written.
    data: Text<'a>,
}

/// A type that is not accepted, as the client named it; empty where it did not.
#[derive(Debug, PartialEq, Eq)]
pub struct UnacceptedType(pub String);

/// Returns the body with images and sounds in blocks of their own; `None` where there are none. `type_of` gives the
/// type of a file from its stated type and its name, if that type is accepted.
pub fn with_media_blocks(
    dialect: Dialect,
    body: &Node<'_>,
    type_of: impl Fn(Option<&str>, &str) -> Option<String>,
) -> Result<Option<String>, UnacceptedType> {
    let mut found = Vec::new();
    for said in ["messages", "input"].iter().filter_map(|key| body.get(key)) {
        collect(said, &mut found);
    }
    let place = |inline: &Inline<'_, '_>| inline.block.place_in(body.raw()).unwrap_or_default();
    found.sort_by_key(|inline| place(inline).start);
    let (mut out, mut copied) = (String::new(), 0);
    for inline in found {
        let place = place(&inline);
        let filename = inline.holder.str_at("filename").into_owned();
        let said = inline.said.as_deref();
        let mime_type = match type_of(said, &filename) {
            Some(mime_type) => mime_type,
            None if inline.is_document_without_type(&filename) => PDF.to_owned(),
            None => return Err(UnacceptedType(inline.said.unwrap_or_default())),
        };
        if !mime_type.starts_with("image/") && !mime_type.starts_with("audio/") {
            continue;
        }
        let content = Content::Base64(inline.data.literal().to_owned());
        let file = StoredFile { filename, mime_type, content };
        let reference = Reference { id: String::new(), holder: inline.holder, is_idle: false };
        let mut block = Writer::new();
        put_file(dialect, inline.block, &reference, &file, &mut block);
        out.push_str(body.raw().get(copied..place.start).unwrap_or_default());
        out.push_str(block.as_str());
        copied = place.end;
    }
    if copied == 0 {
        return Ok(None);
    }
    out.push_str(body.raw().get(copied..).unwrap_or_default());
    Ok(Some(out))
}

/// Collects the blocks that carry a file.
fn collect<'n, 'a>(node: &'n Node<'a>, found: &mut Vec<Inline<'n, 'a>>) {
    if let Some(inline) = Inline::of(node) {
        return found.push(inline);
    }
    node.items().iter().for_each(|item| collect(item, found));
    node.members().iter().for_each(|(_, held)| collect(held, found));
}

impl<'n, 'a> Inline<'n, 'a> {
    fn of(block: &'n Node<'a>) -> Option<Self> {
        if !matches!(block.get("type").and_then(Node::str)?.as_ref(), "file" | "input_file") {
            return None;
        }
        let holder = block.get("file").filter(|file| file.is_object()).unwrap_or(block);
        let whole = holder.text_at("file_data").filter(|data| !data.is_empty())?;
        let literal = whole.literal();
        let begins = |word: &str| literal.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
        if begins("http") {
            return None;
        }
        let said = || holder.get("mime_type").and_then(Node::str).map(|said| said.into_owned());
        if !begins("data:") {
            return Some(Self { block, holder, said: said(), data: whole });
        }
        let (head, data) = literal["data:".len()..].split_once(',')?;
        // Data that is not base64 cannot stand in another block.
        let head = head.strip_suffix(";base64")?;
        let named = head.split(';').next().unwrap_or_default().replace("\\/", "/");
        let data = Text::inside(data).into_owned();
        Some(Self { block, holder, said: Some(named).filter(|named| !named.is_empty()).or_else(said), data })
    }

    /// Whether a file without a usable type may be taken for a PDF: it begins like one, or neither a type nor a file
    /// extension is given.
    fn is_document_without_type(&self, filename: &str) -> bool {
        let is_unsaid = self.said.as_deref().is_none_or(|said| said == "application/octet-stream");
        is_unsaid
            && (self.data.literal().starts_with(PDF_START)
                || (self.said.is_none() && !filename.contains('.')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(said: Option<&str>, filename: &str) -> Option<String> {
        match said {
            None | Some("application/octet-stream") => match filename.rsplit_once('.')?.1 {
                "png" => Some("image/png".to_owned()),
                "pdf" => Some(PDF.to_owned()),
                _ => None,
            },
            Some("image/png" | "audio/mpeg" | PDF | "text/plain") => said.map(str::to_owned),
            Some(_) => None,
        }
    }

    #[test]
    fn images_and_sounds_get_blocks_of_their_own_and_all_else_stays() {
        let chat = |blocks: &str| format!(r#"{{"messages": [{{"content":[{blocks}]}}],"n":1.0}}"#);
        let responses = |blocks: &str| format!(r#"{{"input":[{{"content":[{blocks}]}} ], "x":"file_data"}}"#);
        for (blocks, wanted) in [
            (
                r#"{"type":"text","text":"a"}, {"type":"file","file":{"file_data":"data:image/png;base64,iVBO\/w"},"cache":1},{}"#,
                Some(
                    r#"{"type":"text","text":"a"}, {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO\/w"},"cache":1},{}"#,
                ),
            ),
            (
                r#"{"type":"file","file_data":"QQ==","filename":"a.png"}"#,
                Some(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}"#),
            ),
            (
                r#"{"type":"file","file":{"file_data":"QQ==","mime_type":"audio/mpeg"}}"#,
                Some(r#"{"type":"input_audio","input_audio":{"data":"QQ==","format":"mp3"}}"#),
            ),
            (r#"{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBE"}}"#, None),
            (r#"{"type":"file","file":{"file_data":"data:text/plain;charset=utf-8;base64,QQ=="}}"#, None),
            (r#"{"type":"file","file":{"file_data":"JVBERi0","filename":"strange.x"}}"#, None),
            (r#"{"type":"file","file":{"file_data":"QQ=="}}"#, None),
            (r#"{"type":"file","file":{"file_data":"https://x/y.exe","filename":"y.exe"}}"#, None),
            (r#"{"type":"file","file":{"file_data":5,"file_id":"file-1"}}"#, None),
            (r#"{"type":"tool","file_data":"data:x/y;base64,QQ=="}"#, None),
        ] {
            let body = chat(blocks);
            let done = with_media_blocks(Dialect::Chat, &Node::parse(&body).unwrap(), type_of);
            assert_eq!(done, Ok(wanted.map(chat)), "{blocks}");
        }
        // Either list may come first.
        let both = |block: &str| format!(r#"{{"input":[{block}],"messages":[{block}],"n":1}}"#);
        let body = both(r#"{"type":"file","file_data":"data:image/png;base64,QQ=="}"#);
        let done = with_media_blocks(Dialect::Chat, &Node::parse(&body).unwrap(), type_of);
        let wanted = both(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}"#);
        assert_eq!(done, Ok(Some(wanted)));
        let body = responses(r#"{"type":"input_file","file_data":"data:image\/png;base64,QQ=="}"#);
        let done = with_media_blocks(Dialect::Responses, &Node::parse(&body).unwrap(), type_of);
        let wanted = responses(r#"{"type":"input_image","image_url":"data:image/png;base64,QQ=="}"#);
        assert_eq!(done, Ok(Some(wanted)));
    }

    #[test]
    fn a_type_that_is_not_taken_is_named() {
        for (block, wanted) in [
            (r#"{"type":"input_file","file_data":"data:application/zip;base64,UEsD"}"#, "application/zip"),
            (r#"{"type":"file","file":{"file_data":"QQ==","filename":"a.exe"}}"#, ""),
            (
                r#"{"type":"input_file","file_data":"data:application/octet-stream;base64,QQ=="}"#,
                "application/octet-stream",
            ),
        ] {
            let body = format!(r#"{{"input":[{{"content":{block}}}]}}"#);
            let done = with_media_blocks(Dialect::Responses, &Node::parse(&body).unwrap(), type_of);
            assert_eq!(done, Err(UnacceptedType(wanted.to_owned())), "{block}");
        }
    }
}
