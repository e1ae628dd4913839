//! The `citations` of a text block, which apply to the block as a whole.

use crate::dialect::citation::{Citation, CitedText, Span};
use crate::dialect::edit::edit;
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Takes the place of the encrypted data in Anthropic's own results. It begins like our tags, so that it can be found
/// and removed.
pub(super) const NO_SIGNATURE: &str = "sy1:none";

/// Reads a citation. Citations of documents are left out: they give a document's number in the request, and only this
/// dialect numbers documents.
pub(super) fn read<'a>(citation: &Node<'a>) -> Option<Citation<'a>> {
    let url = match citation.str_at("type").as_ref() {
        "web_search_result_location" => citation.text_at("url"),
        // A search result of the client's own; its source may be any name.
        "search_result_location" => citation.text_at("source").filter(|source| is_address(source)),
        _ => None,
    };
    Some(Citation {
        url: url.filter(|url| !url.is_blank())?,
        title: citation.text_at("title").filter(|title| !title.is_blank()),
        quoted: citation.text_at("cited_text").filter(|quoted| !quoted.is_empty()),
        span: None,
    })
}

fn is_address(source: &Text<'_>) -> bool {
    let source = source.decode();
    ["http://", "https://"].iter().any(|scheme| source.starts_with(scheme))
}

/// The most characters of a page that Anthropic quotes (its documentation of the web search tool).
const LONGEST_QUOTE: u64 = 150;

/// Writes the members of a citation of a text. Where no words of the page are known, words of the answer are quoted.
pub(super) fn put(o: &mut Writer, citation: &Citation<'_>, text: &CitedText<'_>) {
    o.field("type", "web_search_result_location");
    o.field("url", &citation.url);
    o.field("title", citation.title.as_ref().map(Text::borrowed));
    let Span { start, end } = citation.span.unwrap_or(Span { start: 0, end: LONGEST_QUOTE });
    match &citation.quoted {
        Some(quoted) => o.field("cited_text", quoted),
        None => o.field(
            "cited_text",
            text.marked(Span { start, end: end.min(start.saturating_add(LONGEST_QUOTE)) }),
        ),
    }
    o.field("encrypted_index", NO_SIGNATURE);
}

/// Returns a block without the citations that only we could have written, which Anthropic would refuse; `None` when
/// it has none of them.
pub(super) fn without_own(block: &Node<'_>) -> Option<String> {
    let citations = block.items_at("citations");
    let is_own = |citation: &&Node<'_>| citation.str_at("encrypted_index") == NO_SIGNATURE;
    citations.iter().find(is_own)?;
    let kept: Vec<_> = citations.iter().filter(|it| !is_own(it)).map(Node::raw).collect();
    let list = format!("[{}]", kept.join(","));
    let edited = if kept.is_empty() {
        edit(block.raw(), &[], &["citations"])
    } else {
        edit(block.raw(), &[("citations", &list)], &[])
    };
    Some(edited.into_owned())
}
