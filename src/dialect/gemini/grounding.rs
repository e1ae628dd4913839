//! The sources of an answer: `groundingMetadata` of a candidate.
//!
//! ```text
//! webSearchQueries     what was searched for                [query]
//! groundingChunks      the pages                            [{web: {uri, title}}]
//! groundingSupports    what they support in the answer      [{segment, groundingChunkIndices}]
//! ```
//!
//! The offsets of a segment count bytes, of the part that it names or, in a stream, of the whole text.

use std::collections::HashMap;

use super::member;
use crate::dialect::citation::{Citation, CitedText, Span};
use crate::dialect::literal::Text;
use crate::dialect::search::{Page, Search, SearchOutcome};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The bytes of pages or of the answer that citations may repeat in any case.
const MOST_WORDS: usize = 64 * 1024;
/// The bytes that citations may repeat in addition, for each byte of the metadata or of the text.
const MOST_TIMES: usize = 8;
/// The most searches that are read from one answer.
const MOST_QUERIES: usize = 32;

/// Reads the metadata into citations, in the order of their parts. `text_of` returns the position and the text of the
/// part with that index.
pub(super) fn read<'a, 't>(
    metadata: &Node<'a>,
    text_of: impl Fn(u64) -> Option<(usize, &'t CitedText<'t>)>,
) -> Vec<(usize, Citation<'a>)> {
    let pages: Vec<_> = member::items(metadata, "groundingChunks").iter().map(page).collect();
    let mut citations = Vec::new();
    // Each index repeats the address and the title of its page, so the output is limited in proportion to the input.
    let mut left = MOST_WORDS.saturating_add(metadata.raw().len().saturating_mul(MOST_TIMES));
    for support in member::items(metadata, "groundingSupports") {
        let segment = member::get(support, "segment");
        let count = |key: &str| member::get(segment?, key).and_then(Node::u64);
        let Some((part, text)) = text_of(count("partIndex").unwrap_or(0)) else { continue };
        let letters = |bytes: u64| text.chars_before(bytes);
        let end = count("endIndex").filter(|end| *end > 0).map(letters);
        let span = end.map(|end| Span { start: letters(count("startIndex").unwrap_or(0)).min(end), end });
        for index in member::items(support, "groundingChunkIndices").iter().filter_map(Node::u64) {
            let page = usize::try_from(index).ok().and_then(|index| pages.get(index)?.as_ref());
            let Some(page) = page else { continue };
            let words = [Some(&page.url), page.title.as_ref()]
                .into_iter()
                .flatten()
                .map(|text| text.literal().len())
                .sum();
            let Some(rest) = left.checked_sub(words) else { break };
            left = rest;
            citations.push((part, Citation { span, ..page.clone() }));
        }
    }
    if citations.is_empty()
        && let Some((part, _)) = text_of(0)
    {
        // Nothing tells which page supports what, so every page is cited for the text as a whole.
        citations.extend(pages.into_iter().flatten().map(|page| (part, page)));
    }
    citations.sort_by_key(|(part, _)| *part);
    citations
}

/// Returns the searches that were made, no more than a model makes. The results stand with the first search, because
/// nothing tells which of them found which page.
pub(super) fn searches<'a>(metadata: &Node<'a>) -> impl Iterator<Item = Search<'a>> {
    let queries = member::items(metadata, "webSearchQueries").iter().filter_map(Node::text);
    let queries: Vec<_> = queries.filter(|query| !query.is_blank()).take(MOST_QUERIES).collect();
    let found = member::items(metadata, "groundingChunks").iter().filter_map(page);
    let mut found: Vec<_> = found.map(|page| Page { url: page.url, title: page.title }).collect();
    queries.into_iter().map(move |query| Search {
        id: Text::EMPTY,
        query,
        found: Some(SearchOutcome::Pages(std::mem::take(&mut found))),
    })
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

/// A text of an answer, with its position and its citations.
#[derive(Debug)]
pub(super) struct Cited<'c> {
    /// The index of its part; `None` in a stream, where segments refer to the whole text.
    pub part: Option<u64>,
    pub text: &'c Text<'c>,
    pub citations: Vec<&'c Citation<'c>>,
}

/// Writes the metadata, when there is any.
pub(super) fn put(o: &mut Writer, queries: &[Text<'_>], texts: &[Cited<'_>]) {
    let pages = Pages::of(texts);
    let queries = || queries.iter().filter(|query| !query.is_empty());
    if pages.list.is_empty() && queries().next().is_none() {
        return;
    }
    o.object_at("groundingMetadata", |o| {
        if queries().next().is_some() {
            o.array("webSearchQueries", |a| queries().for_each(|query| a.item(query)));
        }
        if pages.list.is_empty() {
            return;
        }
        o.array("groundingChunks", |a| {
            for page in &pages.list {
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

/// The pages that citations name, each page once.
struct Pages<'c> {
    list: Vec<&'c Citation<'c>>,
    /// The positions in the list, by address.
    places: HashMap<&'c Text<'c>, u64>,
}

impl<'c> Pages<'c> {
    fn of(texts: &'c [Cited<'c>]) -> Self {
        let mut pages = Self { list: Vec::new(), places: HashMap::new() };
        for citation in texts.iter().flat_map(|text| &text.citations) {
            pages.places.entry(&citation.url).or_insert_with(|| {
                pages.list.push(citation);
                pages.list.len() as u64 - 1
            });
        }
        pages
    }
}

impl Cited<'_> {
    /// Writes a support for each span, in the order in which the spans are first named.
    fn put_supports(&self, list: &mut Writer, pages: &Pages<'_>) {
        if self.citations.is_empty() {
            return;
        }
        let mut supports: Vec<(Option<Span>, Vec<u64>)> = Vec::new();
        let mut known = HashMap::new();
        for citation in &self.citations {
            let at = *known.entry(citation.span).or_insert_with(|| {
                supports.push((citation.span, Vec::new()));
                supports.len() - 1
            });
            supports[at].1.extend(pages.places.get(&citation.url));
        }
        let text = CitedText::of(self.text);
        let mut left = MOST_WORDS.saturating_add(text.as_str().len().saturating_mul(MOST_TIMES));
        for (span, chunks) in supports {
            let all = (0, text.as_str().len());
            let (start, end) = span.map_or(all, |span| (text.byte_at(span.start), text.byte_at(span.end)));
            list.object(|o| {
                o.object_at("segment", |o| {
                    o.field_if("partIndex", self.part.filter(|part| *part > 0));
                    o.field_if("startIndex", Some(start as u64).filter(|start| *start > 0));
                    o.field("endIndex", end as u64);
                    let words = text.as_str().get(start..end).unwrap_or_default();
                    // Overlapping spans repeat the text: beyond the limit, only their offsets are written.
                    left = left.saturating_sub(words.len());
                    o.field_if("text", Some(words).filter(|_| left > 0));
                });
                o.array("groundingChunkIndices", |a| chunks.into_iter().for_each(|chunk| a.item(chunk)));
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
        let said = Text::of("né so");
        let said = CitedText::of(&said);
        read(&node, |part| (part == 0).then_some((2, &said)))
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
    fn what_repeats_the_words_of_a_page_is_bounded() {
        let (uri, indices) = (format!("https://a.b/{}", "x".repeat(20_000)), vec!["0"; 10_000].join(","));
        let metadata = format!(
            r#"{{"groundingChunks":[{{"web":{{"uri":"{uri}"}}}}],"groundingSupports":[{{"segment":{{"endIndex":3}},"groundingChunkIndices":[{indices}]}}]}}"#
        );
        let told: usize = cited(&metadata).iter().map(|(_, citation)| citation.url.literal().len()).sum();
        assert!((uri.len()..MOST_TIMES * metadata.len() + MOST_WORDS).contains(&told), "{told}");
        let (long, pages) = ("x".repeat(50_000), cited(METADATA));
        let (text, page) = (Text::of(&long), &pages[0].1);
        let spans =
            (0..1000).map(|start| Citation { span: Some(Span { start, end: 50_000 }), ..page.clone() });
        let citations: Vec<_> = spans.collect();
        let texts = [Cited { part: Some(0), text: &text, citations: citations.iter().collect() }];
        let mut json = Writer::new();
        json.object(|o| put(o, &[], &texts));
        let written = json.into_string();
        assert_eq!(written.matches("endIndex").count(), 1000);
        assert!(written.len() < (MOST_TIMES + 4) * 50_000, "{}", written.len());
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
