//! The sources of what a model said.
//!
//! | | place | the part of the answer it refers to |
//! |---|---|---|
//! | chat | `annotations[].url_citation` of the message | characters of the whole content |
//! | responses | `annotations[]` of an `output_text` | characters of that part |
//! | messages | `citations[]` of a text block | the block |
//! | gemini | `groundingMetadata` of a candidate | bytes of a part |
//!
//! All dialects can name a web page. Places in documents that the client sent are numbers that only its own dialect
//! understands, and are left out.

use std::borrow::Cow;

use super::literal::Text;
use super::tree::Node;
use super::writer::Writer;

/// A web page that a part of an answer is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation<'a> {
    pub url: Text<'a>,
    pub title: Option<Text<'a>>,
    /// The passage of the page, in its own words.
    pub quoted: Option<Text<'a>>,
    /// The characters of the part that are taken from the page; all of them when `None`.
    pub span: Option<Span>,
}

/// A range of characters of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: u64,
    /// The position after the last character.
    pub end: u64,
}

impl<'a> Citation<'a> {
    /// Reads an annotation as OpenAI writes it: on chat within a member named like its type.
    pub fn of_annotation(annotation: &Node<'a>) -> Option<Self> {
        let inner = annotation.get("url_citation").unwrap_or(annotation);
        if !matches!(annotation.str_at("type").as_ref(), "url_citation" | "") {
            return None;
        }
        let span = inner.u64_at("start_index").zip(inner.u64_at("end_index"));
        Some(Self {
            url: inner.text_at("url").filter(|url| !url.is_blank())?,
            title: inner.text_at("title").filter(|title| !title.is_blank()),
            quoted: None,
            span: span.filter(|(start, end)| start <= end).map(|(start, end)| Span { start, end }),
        })
    }

    /// Writes the members that both of OpenAI's dialects have.
    pub fn put_annotation(&self, o: &mut Writer) {
        let span = self.span.unwrap_or(Span { start: 0, end: 0 });
        o.field("start_index", span.start);
        o.field("end_index", span.end);
        o.field("title", self.name());
        o.field("url", &self.url);
    }

    /// Returns the title, or else the address: clients show one.
    pub fn name(&self) -> &Text<'a> {
        self.title.as_ref().unwrap_or(&self.url)
    }

    /// Returns the citation with its place in a longer text, in which its part begins at `from` and has this many
    /// letters.
    pub fn within(&self, from: u64, letters: u64) -> Citation<'_> {
        let span = self.span.unwrap_or(Span { start: 0, end: letters });
        Citation {
            url: self.url.borrowed(),
            title: self.title.as_ref().map(Text::borrowed),
            quoted: self.quoted.as_ref().map(Text::borrowed),
            span: Some(Span { start: from.saturating_add(span.start), end: from.saturating_add(span.end) }),
        }
    }

    /// Returns the citation with its place counted from `from`, where its part begins.
    pub fn counted_from(mut self, from: u64) -> Self {
        self.span = self
            .span
            .map(|span| Span { start: span.start.saturating_sub(from), end: span.end.saturating_sub(from) });
        self
    }

    pub fn into_owned(self) -> Citation<'static> {
        Citation {
            url: self.url.into_owned(),
            title: self.title.map(Text::into_owned),
            quoted: self.quoted.map(Text::into_owned),
            span: self.span,
        }
    }
}

/// A text in which many places are looked up. Spans count characters and Google's segments bytes: with marks at regular
/// distances neither has to be counted from the beginning each time.
#[derive(Debug)]
pub struct CitedText<'t> {
    /// The decoded text.
    plain: Cow<'t, str>,
    /// The byte at which every [`MARK_EVERY`]th character begins, from the first on.
    marks: Vec<usize>,
}

const MARK_EVERY: usize = 256;

/// What an answer has said so far, in which citations that come later have their places. Of a long answer only the beginning
/// is kept: what is cited behind it has its place at the end of that.
#[derive(Debug, Default)]
pub struct SaidText {
    kept: Text<'static>,
    is_full: bool,
}

/// The most that is kept of what was said, in bytes.
const MAX_SAID: usize = 1 << 20;

impl SaidText {
    pub fn push(&mut self, more: &Text<'_>) {
        self.is_full |= self.kept.literal().len() + more.literal().len() > MAX_SAID;
        if !self.is_full {
            self.kept.push(more);
        }
    }

    pub fn kept(&self) -> &Text<'static> {
        &self.kept
    }
}

impl<'t> CitedText<'t> {
    pub fn of(text: &'t Text<'_>) -> Self {
        let plain = text.decode();
        let marks = plain.char_indices().step_by(MARK_EVERY).map(|(at, _)| at).collect();
        Self { plain, marks }
    }

    /// Returns the whole decoded text.
    pub fn as_str(&self) -> &str {
        &self.plain
    }

    /// Returns the byte at which the character with this number begins; the end where there are fewer.
    pub fn byte_at(&self, letters: u64) -> usize {
        let letters = usize::try_from(letters).unwrap_or(usize::MAX);
        let found = self.marks.get(letters / MARK_EVERY).and_then(|mark| {
            let (after, _) = self.plain.get(*mark..)?.char_indices().nth(letters % MARK_EVERY)?;
            Some(mark + after)
        });
        found.unwrap_or(self.plain.len())
    }

    /// Returns the number of characters that begin in the first `bytes` bytes.
    pub fn chars_before(&self, bytes: u64) -> u64 {
        let is_before = |at: usize| (at as u64) < bytes;
        let Some(last) = self.marks.partition_point(|mark| is_before(*mark)).checked_sub(1) else { return 0 };
        let mark = self.marks[last];
        let after = self.plain[mark..].char_indices().take_while(|(at, _)| is_before(mark + at));
        (last * MARK_EVERY + after.count()) as u64
    }

    /// Returns the text of a span.
    pub fn marked(&self, span: Span) -> &str {
        self.plain.get(self.byte_at(span.start)..self.byte_at(span.end)).unwrap_or_default()
    }
}

/// Distributes the citations of a content over its texts, each given by the place of its part and its number of
/// characters: every citation goes to the text in which it begins, and they are returned in the order of the texts.
pub fn spread<'a>(
    citations: impl IntoIterator<Item = Citation<'a>>,
    texts: &[(usize, u64)],
) -> Vec<(usize, Citation<'a>)> {
    let mut places = Vec::with_capacity(texts.len());
    let mut from = 0u64;
    for (part, letters) in texts {
        places.push((*part, from, from.saturating_add(*letters)));
        from = from.saturating_add(*letters);
    }
    let place = |citation: &Citation<'a>| {
        let start = citation.span.map(|span| span.start);
        let found = start.and_then(|start| {
            let at = places.partition_point(|(_, _, end)| *end <= start);
            places.get(at)
        });
        found.or(places.last()).map(|(part, begin, _)| (*part, *begin))
    };
    let placed = |citation: Citation<'a>| {
        let (part, begin) = place(&citation)?;
        Some((part, citation.counted_from(begin)))
    };
    let mut spread: Vec<_> = citations.into_iter().filter_map(placed).collect();
    spread.sort_by_key(|(part, _)| *part);
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citation(span: Option<(u64, u64)>) -> Citation<'static> {
        let span = span.map(|(start, end)| Span { start, end });
        Citation { url: Text::plain("https://a.b"), title: None, quoted: None, span }
    }

    #[test]
    fn of_a_long_text_the_beginning_is_kept() {
        let mut said = SaidText::default();
        for text in ["first", &"x".repeat(MAX_SAID), "last"] {
            said.push(&Text::of(text));
        }
        let said = CitedText::of(said.kept());
        assert_eq!(said.as_str(), "first");
        let span = Span { start: 2, end: MAX_SAID as u64 };
        assert_eq!((said.marked(span), said.marked(Span { start: 9, ..span })), ("rst", ""));
    }

    #[test]
    fn an_annotation_is_read_in_both_forms() {
        let flat = r#"{"type":"url_citation","start_index":1,"end_index":4,"title":"A","url":"https://a.b"}"#;
        let nested = r#"{"type":"url_citation","url_citation":{"start_index":1,"end_index":4,"title":"A","url":"https://a.b"}}"#;
        let wanted = Citation { title: Some(Text::plain("A")), ..citation(Some((1, 4))) };
        for annotation in [flat, nested] {
            let node = Node::parse(annotation).unwrap();
            assert_eq!(Citation::of_annotation(&node).unwrap(), wanted, "{annotation}");
        }
        for other in [
            r#"{"type":"file_citation","file_id":"f","filename":"x","index":3,"url":"https://a.b"}"#,
            r#"{"type":"url_citation","url":" "}"#,
            r#"{"type":"url_citation","url":5}"#,
            "[]",
        ] {
            assert_eq!(Citation::of_annotation(&Node::parse(other).unwrap()), None, "{other}");
        }
        let bare =
            Node::parse(r#"{"type":"url_citation","url":"https://a.b","start_index":9,"end_index":2}"#);
        assert_eq!(Citation::of_annotation(&bare.unwrap()), Some(citation(None)));
    }

    #[test]
    fn a_citation_belongs_to_the_text_in_which_it_begins() {
        let texts = [(1, 4), (3, 6)];
        for (span, wanted) in [
            (Some((0, 2)), (1, Some((0, 2)))),
            (Some((4, 6)), (3, Some((0, 2)))),
            (Some((99, 100)), (3, Some((95, 96)))),
            (None, (3, None)),
        ] {
            let spread = spread([citation(span)], &texts);
            assert_eq!(spread, [(wanted.0, citation(wanted.1))], "{span:?}");
        }
        assert!(spread([citation(None)], &[]).is_empty());
    }

    #[test]
    fn places_in_a_long_text_are_those_counted_from_its_beginning() {
        for length in [0, 1, MARK_EVERY - 1, MARK_EVERY, MARK_EVERY + 1, 3 * MARK_EVERY] {
            let plain: String = "aé😀".chars().cycle().take(length).collect();
            let text = Text::of(&plain);
            let cited = CitedText::of(&text);
            for letters in 0..length + 2 {
                let byte = plain.char_indices().nth(letters).map_or(plain.len(), |(at, _)| at);
                assert_eq!(cited.byte_at(letters as u64), byte, "{letters} of {length}");
            }
            for bytes in 0..plain.len() + 2 {
                let letters = plain.char_indices().take_while(|(at, _)| *at < bytes).count();
                assert_eq!(cited.chars_before(bytes as u64), letters as u64, "{bytes} of {length}");
            }
            assert_eq!(cited.byte_at(u64::MAX), plain.len());
            assert_eq!(cited.chars_before(u64::MAX), length as u64);
        }
    }

    #[test]
    fn a_span_counts_characters() {
        let text = Text::of("a\né😀b");
        let text = CitedText::of(&text);
        assert_eq!(text.marked(Span { start: 1, end: 4 }), "\né😀");
        assert_eq!(text.marked(Span { start: 4, end: 99 }), "b");
        assert_eq!(citation(None).within(3, 5).span, Some(Span { start: 3, end: 8 }));
        assert_eq!(citation(Some((1, 2))).within(3, 5).span, Some(Span { start: 4, end: 5 }));
    }
}
