//! Where something comes from that a model said (proxy-conversion.md 7.1).
//!
//! | | place | what of the answer it speaks of |
//! |---|---|---|
//! | chat | `annotations[].url_citation` of the message | characters of the whole content |
//! | responses | `annotations[]` of an `output_text` | characters of that part |
//! | messages | `citations[]` of a text block | the block |
//! | gemini | `groundingMetadata` of a candidate | bytes of a part |
//!
//! All dialects can name a page of the web. Places in documents that the client sent are numbers that
//! only its own dialect counts, and are left out.

use super::literal::Text;
use super::tree::Node;
use super::writer::Writer;

/// A page that a part of an answer is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation<'a> {
    pub url: Text<'a>,
    pub title: Option<Text<'a>>,
    /// The page's own words.
    pub quoted: Option<Text<'a>>,
    /// What of the part is taken from it; without one all of it.
    pub span: Option<Span>,
}

/// Characters of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    /// Behind the last one.
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

    /// Its title, or what it has instead: clients show one.
    pub fn name(&self) -> &Text<'a> {
        self.title.as_ref().unwrap_or(&self.url)
    }

    /// The same within a longer text, in which its part begins at `from` and has so many letters.
    pub fn within(&self, from: u64, letters: u64) -> Citation<'_> {
        let span = self.span.unwrap_or(Span { start: 0, end: letters });
        Citation {
            url: self.url.borrowed(),
            title: self.title.as_ref().map(Text::borrowed),
            quoted: self.quoted.as_ref().map(Text::borrowed),
            span: Some(Span { start: from.saturating_add(span.start), end: from.saturating_add(span.end) }),
        }
    }

    /// The same, counted from `from`.
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

impl Span {
    /// What it marks in a text.
    pub fn of(self, text: &Text<'_>) -> String {
        let (start, end) = (self.start as usize, self.end as usize);
        text.decode().chars().skip(start).take(end.saturating_sub(start)).collect()
    }
}

/// Citations of a content of several texts, which are located by the place of their part and their length:
/// each goes to the text in which it begins.
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
        let found = places.iter().find(|(_, _, end)| start.is_some_and(|start| start < *end));
        found.or(places.last()).map(|(part, begin, _)| (*part, *begin))
    };
    let placed = |citation: Citation<'a>| {
        let (part, begin) = place(&citation)?;
        Some((part, citation.counted_from(begin)))
    };
    citations.into_iter().filter_map(placed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citation(span: Option<(u64, u64)>) -> Citation<'static> {
        let span = span.map(|(start, end)| Span { start, end });
        Citation { url: Text::plain("https://a.b"), title: None, quoted: None, span }
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
    fn a_span_counts_characters() {
        let text = Text::of("a\né😀b");
        assert_eq!(Span { start: 1, end: 4 }.of(&text), "\né😀");
        assert_eq!(Span { start: 4, end: 99 }.of(&text), "b");
        assert_eq!(citation(None).within(3, 5).span, Some(Span { start: 3, end: 8 }));
        assert_eq!(citation(Some((1, 2))).within(3, 5).span, Some(Span { start: 4, end: 5 }));
    }
}
