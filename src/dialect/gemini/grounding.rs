//! Where an answer comes from: `groundingMetadata` of a candidate (proxy-conversion.md 7.1).
//!
//! ```text
//! webSearchQueries     what was searched for                [query]
//! groundingChunks      the pages                            [{web: {uri, title}}]
//! groundingSupports    what of the answer comes from them   [{segment, groundingChunkIndices}]
//! ```
//!
//! A segment counts bytes, of the part it names or, in a stream, of all that was said.

use super::member;
use crate::dialect::citation::{Citation, Span};
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Reads the metadata. `text_of` gives the text that a segment of that part is of.
pub(super) fn read<'a>(
    metadata: &Node<'a>,
    mut text_of: impl FnMut(u64) -> Option<(usize, String)>,
) -> Vec<(usize, Citation<'a>)> {
    let pages: Vec<_> = member::items(metadata, "groundingChunks").iter().map(page).collect();
    let mut citations = Vec::new();
    for support in member::items(metadata, "groundingSupports") {
        let segment = member::get(support, "segment");
        let count = |key: &str| member::get(segment?, key).and_then(Node::u64);
        let Some((part, text)) = text_of(count("partIndex").unwrap_or(0)) else { continue };
        let letters = |bytes: u64| letters_before(&text, bytes);
        let end = count("endIndex").filter(|end| *end > 0).map(letters);
        let span = end.map(|end| Span { start: letters(count("startIndex").unwrap_or(0)).min(end), end });
        for index in member::items(support, "groundingChunkIndices").iter().filter_map(Node::u64) {
            let page = usize::try_from(index).ok().and_then(|index| pages.get(index)?.as_ref());
            citations.extend(page.map(|page| (part, Citation { span, ..page.clone() })));
        }
    }
    if citations.is_empty()
        && let Some((part, _)) = text_of(0)
    {
        // Nobody says what comes from which page.
        citations.extend(pages.into_iter().flatten().map(|page| (part, page)));
    }
    citations
}

fn page<'a>(chunk: &Node<'a>) -> Option<Citation<'a>> {
    let kinds = ["web", "retrievedContext", "maps"];
    let source = kinds.iter().find_map(|kind| member::get(chunk, kind))?;
    Some(Citation {
        url: source.text_at("uri").filter(|uri| !uri.is_blank())?,
        title: source.text_at("title").filter(|title| !title.is_blank()),
        quoted: None,
        span: None,
    })
}

/// How many characters begin in the first bytes of a text.
fn letters_before(text: &str, bytes: u64) -> u64 {
    text.char_indices().take_while(|(at, _)| (*at as u64) < bytes).count() as u64
}

/// A text that was said, where it stands in the answer, and where it comes from.
#[derive(Debug)]
pub(super) struct Cited<'c> {
    /// The place of its part; none in a stream, where segments are of all that was said.
    pub part: Option<u64>,
    pub text: &'c Text<'c>,
    pub citations: Vec<&'c Citation<'c>>,
}

/// Writes the metadata, when there is any.
pub(super) fn put(o: &mut Writer, queries: &[Text<'_>], texts: &[Cited<'_>]) {
    let all = || texts.iter().flat_map(|text| &text.citations);
    let mut pages: Vec<&Citation<'_>> = Vec::new();
    for citation in all() {
        if !pages.iter().any(|page| page.url == citation.url) {
            pages.push(citation);
        }
    }
    let queries = || queries.iter().filter(|query| !query.is_empty());
    if pages.is_empty() && queries().next().is_none() {
        return;
    }
    o.object_at("groundingMetadata", |o| {
        if queries().next().is_some() {
            o.array("webSearchQueries", |a| queries().for_each(|query| a.item(query)));
        }
        if pages.is_empty() {
            return;
        }
        o.array("groundingChunks", |a| {
            for page in &pages {
                a.object(|o| {
                    o.object_at("web", |o| {
                        o.field("uri", &page.url);
                        o.field("title", page.name());
                    });
                });
            }
        });
        o.array("groundingSupports", |a| {
            texts.iter().for_each(|text| text.put_supports(a, &pages));
        });
    });
}

impl Cited<'_> {
    fn put_supports(&self, list: &mut Writer, pages: &[&Citation<'_>]) {
        if self.citations.is_empty() {
            return;
        }
        let text = self.text.decode();
        let bytes = |letters: u64| {
            let at = usize::try_from(letters).ok().and_then(|nth| text.char_indices().nth(nth));
            at.map_or(text.len(), |(at, _)| at)
        };
        let mut put = Vec::new();
        for citation in &self.citations {
            if put.contains(&citation.span) {
                continue;
            }
            put.push(citation.span);
            let (start, end) =
                citation.span.map_or((0, text.len()), |span| (bytes(span.start), bytes(span.end)));
            let from = self.citations.iter().filter(|other| other.span == citation.span);
            let from = from.filter_map(|other| pages.iter().position(|page| page.url == other.url));
            list.object(|o| {
                o.object_at("segment", |o| {
                    o.field_if("partIndex", self.part.filter(|part| *part > 0));
                    o.field_if("startIndex", Some(start as u64).filter(|start| *start > 0));
                    o.field("endIndex", end as u64);
                    o.field("text", text.get(start..end).unwrap_or_default());
                });
                o.array("groundingChunkIndices", |a| from.for_each(|index| a.item(index as u64)));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"webSearchQueries":["q"],"groundingChunks":[{"web":{"uri":"https://a.b","title":"A"}},{"web":{"uri":"https://c.d","title":"C"}},{"image":{}}],
        "groundingSupports":[{"segment":{"endIndex":3,"text":"né"},"groundingChunkIndices":[0]},
        {"segment":{"startIndex":4,"endIndex":99},"groundingChunkIndices":[0,1,2,7]},{"segment":{"partIndex":5,"endIndex":1},"groundingChunkIndices":[0]}]}"#;

    fn cited(metadata: &str) -> Vec<(usize, Citation<'_>)> {
        let node = Node::parse(metadata).unwrap();
        read(&node, |part| (part == 0).then(|| (2, "né so".to_owned())))
    }

    #[test]
    fn bytes_become_characters() {
        let told: Vec<_> = cited(METADATA)
            .iter()
            .map(|(part, it)| {
                (*part, it.url.decode().into_owned(), it.span.map(|span| (span.start, span.end)))
            })
            .collect();
        let wanted = [("https://a.b", (0, 2)), ("https://a.b", (3, 5)), ("https://c.d", (3, 5))];
        assert_eq!(told, wanted.map(|(url, span)| (2, url.to_owned(), Some(span))));
    }

    #[test]
    fn pages_that_nothing_names_stand_for_all() {
        let pages = r#"{"grounding_chunks":[{"retrieved_context":{"uri":"https://a.b"}}]}"#;
        assert_eq!(cited(pages)[0].1.span, None);
        assert!(cited("{}").is_empty());
    }

    #[test]
    fn what_is_read_is_written_alike() {
        let citations = cited(METADATA);
        let text = Text::of("né so");
        let texts =
            [Cited { part: Some(0), text: &text, citations: citations.iter().map(|(_, it)| it).collect() }];
        let mut json = Writer::new();
        json.object(|o| put(o, &[], &texts));
        let wanted = concat!(
            r#"{"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.b","title":"A"}},{"web":{"uri":"https://c.d","title":"C"}}],"#,
            r#""groundingSupports":[{"segment":{"endIndex":3,"text":"né"},"groundingChunkIndices":[0]},"#,
            r#"{"segment":{"startIndex":4,"endIndex":6,"text":"so"},"groundingChunkIndices":[0,1]}]}}"#
        );
        assert_eq!(json.into_string(), wanted);
    }
}
