//! Stop sequences for upstreams that take none, such as those of the responses dialect.
//!
//! The text is searched as it passes, and ends before the first sequence. Text that may be the beginning of one is held
//! back until it is known. The rest of the stream is read to its end for the usage, and dropped.
//!
//! Each byte of an answer is looked at once for each sequence (Knuth, Morris and Pratt), and their number is limited:
//! OpenAI takes 4 and Google 5, Anthropic names no limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dialect::canonical::{Candidate, ConversionError, Event, Part, PartKind, Stop};
use crate::dialect::citation::Citation;
use crate::dialect::literal::{Text, looks};

/// The largest number of stop sequences in a request.
const MAX_STOPS: usize = 16;
/// The longest stop sequence, in bytes.
const MAX_LENGTH: usize = 1024;

/// Refuses stop sequences that are too many, or too long, to be searched for here.
pub(super) fn check(stops: &[String]) -> Result<(), ConversionError> {
    if stops.len() > MAX_STOPS {
        return Err(ConversionError::unsupported_form("stop", "with more than 16 sequences"));
    }
    if stops.iter().any(|stop| stop.len() > MAX_LENGTH) {
        Err(ConversionError::unsupported_form("stop", "with a sequence of more than 1,024 bytes"))
    } else {
        Ok(())
    }
}

/// Ends a complete answer at the first stop sequence.
pub(super) fn candidate(candidate: &mut Candidate<'_>, stops: &[String]) {
    let sequences = Sequences::of(stops);
    let found = candidate.parts.iter().enumerate().find_map(|(at, part)| match part {
        Part::Text(text) => {
            let plain = text.decode();
            let found = Search::of(&sequences).feed(&plain)?;
            Some((at, Text::of(&plain[..found.begin]), stops.get(found.stop)?))
        }
        _ => None,
    });
    let Some((at, text, stop)) = found else { return };
    candidate.parts.truncate(at);
    let end = text.char_count();
    let is_kept = |(part, citation): &(usize, Citation<'_>)| {
        *part < at || (*part == at && citation.span.is_none_or(|span| span.end <= end))
    };
    candidate.citations.retain(is_kept);
    let mut letters = 0;
    candidate.logprobs.retain(|(part, token)| {
        letters += if *part == at { token.text.char_count() } else { 0 };
        *part < at || (*part == at && letters <= end)
    });
    if !text.is_empty() {
        candidate.parts.push(Part::Text(text));
    }
    candidate.stop = Stop::Sequence(Some(Text::of(stop)));
}

/// Ends a stream at the first stop sequence.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    /// The sequences, prepared when the first part begins.
    sequences: Option<Arc<Sequences>>,
    /// The open parts; for a text, the search in it.
    open: BTreeMap<u32, Option<OpenText>>,
    found: Option<Text<'static>>,
}

/// A text that passes.
#[derive(Debug)]
struct OpenText {
    /// The end of the text, which is held back.
    held: String,
    search: Search,
}

impl Cutter {
    pub(super) fn event(&mut self, event: Event<'_>, stops: &[String], each: &mut dyn FnMut(Event<'_>)) {
        if stops.is_empty() {
            return each(event);
        }
        if let Some(found) = &self.found {
            return match event {
                Event::Finish(_) => each(Event::Finish(Stop::Sequence(Some(found.borrowed())))),
                Event::Usage(_) | Event::Fail(_) | Event::End => each(event),
                _ => {}
            };
        }
        match event {
            Event::PartStart { key, part } => {
                let sequences = self.sequences.get_or_insert_with(|| Sequences::of(stops));
                let text = || OpenText { held: String::new(), search: Search::of(sequences) };
                self.open.insert(key, (part == PartKind::Text).then(text));
                each(Event::PartStart { key, part });
            }
            Event::Delta { key, text } => match self.open.get_mut(&key) {
                Some(Some(OpenText { held, search })) => {
                    let text = text.decode();
                    let before = held.len();
                    held.push_str(&text);
                    match search.feed_from(before, &text) {
                        Some(StopFound { begin, stop }) => {
                            self.found = Some(Text::of(stops.get(stop).map_or("", String::as_str)));
                            held.truncate(begin);
                            self.close(each);
                        }
                        None => {
                            let rest = held.split_off(held.len() - search.longest_match());
                            emit_text(key, &std::mem::replace(held, rest), each);
                        }
                    }
                }
                _ => each(Event::Delta { key, text }),
            },
            Event::PartStop { key } => {
                if let Some(text) = self.open.remove(&key).flatten() {
                    emit_text(key, &text.held, each);
                }
                each(Event::PartStop { key });
            }
            other => each(other),
        }
    }

    fn close(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        for (key, text) in std::mem::take(&mut self.open) {
            emit_text(key, &text.map(|text| text.held).unwrap_or_default(), each);
            each(Event::PartStop { key });
        }
    }
}

fn emit_text(key: u32, plain: &str, each: &mut dyn FnMut(Event<'_>)) {
    if !plain.is_empty() {
        each(Event::Delta { key, text: Text::of(plain) });
    }
}

/// The stop sequences to search for.
#[derive(Debug, Default)]
struct Sequences(Vec<Sequence>);

#[derive(Debug)]
struct Sequence {
    bytes: Vec<u8>,
    /// For each beginning of the sequence, the length of the longest shorter one that it ends with.
    shorter: Vec<usize>,
}

impl Sequences {
    fn of(stops: &[String]) -> Arc<Self> {
        Arc::new(Self(stops.iter().map(|stop| Sequence::of(stop.as_bytes())).collect()))
    }
}

impl Sequence {
    fn of(bytes: &[u8]) -> Self {
        let mut sequence = Self { bytes: bytes.to_vec(), shorter: vec![0; bytes.len()] };
        let mut length = 0;
        for (at, byte) in bytes.iter().enumerate().skip(1) {
            length = sequence.longer(length, *byte);
            sequence.shorter[at] = length;
        }
        sequence
    }

    /// Returns how many bytes of the sequence the text ends with after this byte, where it ended with `matched` before.
    fn longer(&self, mut matched: usize, byte: u8) -> usize {
        looks::count();
        while matched > 0 && self.bytes.get(matched) != Some(&byte) {
            looks::count();
            matched = self.shorter[matched - 1];
        }
        matched + usize::from(self.bytes.get(matched) == Some(&byte))
    }
}

/// The search through a text that comes piece by piece.
#[derive(Debug)]
struct Search {
    sequences: Arc<Sequences>,
    /// How many bytes of each sequence the text ends with.
    matched: Vec<usize>,
}

/// A stop sequence in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StopFound {
    /// Where it begins in the text.
    begin: usize,
    /// Its index among the sequences.
    stop: usize,
}

impl Search {
    fn of(sequences: &Arc<Sequences>) -> Self {
        Self { sequences: sequences.clone(), matched: vec![0; sequences.0.len()] }
    }

    /// Searches a whole text for the sequence that ends first.
    fn feed(&mut self, text: &str) -> Option<StopFound> {
        self.feed_from(0, text)
    }

    /// Searches the next piece of a text, with `before` bytes in front of it. Among sequences that end together the
    /// longest counts.
    fn feed_from(&mut self, before: usize, piece: &str) -> Option<StopFound> {
        for (at, byte) in piece.bytes().enumerate() {
            let mut found: Option<StopFound> = None;
            for (stop, (sequence, matched)) in self.sequences.0.iter().zip(&mut self.matched).enumerate() {
                *matched = sequence.longer(*matched, byte);
                if *matched == sequence.bytes.len() {
                    let begin = (before + at + 1).saturating_sub(*matched);
                    found = found.filter(|other| other.begin <= begin).or(Some(StopFound { begin, stop }));
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns how many bytes at the end of the text may be the beginning of a sequence.
    fn longest_match(&self) -> usize {
        self.matched.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::citation::Span;
    use crate::dialect::literal::Json;
    use crate::dialect::logprobs::Token;

    fn cut_events(pieces: &[&str], stops: &[&str]) -> (String, Option<String>) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let (mut cutter, mut said, mut reason) = (Cutter::default(), String::new(), None);
        let start = [Event::PartStart { key: 0, part: PartKind::Text }];
        let deltas = pieces.iter().map(|piece| Event::Delta { key: 0, text: Text::of(piece) });
        let end = [Event::PartStop { key: 0 }, Event::Finish(Stop::End), Event::End];
        let mut open = 0;
        for event in start.into_iter().chain(deltas).chain(end) {
            cutter.event(event, &stops, &mut |event| match event {
                Event::PartStart { .. } => open += 1,
                Event::PartStop { .. } => open -= 1,
                Event::Delta { text, .. } => said.push_str(&text.decode()),
                Event::Finish(Stop::Sequence(Some(found))) => reason = Some(found.decode().into_owned()),
                _ => {}
            });
        }
        assert_eq!(open, 0, "every part that was begun is ended once");
        (said, reason)
    }

    #[test]
    fn a_text_ends_before_the_first_sequence_however_it_is_cut() {
        for (text, stops, wanted, found) in [
            ("one END two", &["END"][..], "one ", Some("END")),
            ("one ENE", &["END"], "one ENE", None),
            ("aaab", &["aab"], "a", Some("aab")),
            ("x é😀y", &["😀", "y"], "x é", Some("😀")),
            ("END", &["END"], "", Some("END")),
            ("plain", &[], "plain", None),
            ("abcabcabd", &["abcabd", "zz"], "abc", Some("abcabd")),
            // The sequence that ends first is taken, and the longer of two that end together.
            ("xaby", &["abyz", "b"], "xa", Some("b")),
            ("xaby", &["b", "ab"], "x", Some("ab")),
            ("eé\u{e8}é!", &["é!"], "eé\u{e8}", Some("é!")),
        ] {
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            for pieces in [&[text][..], &letters] {
                assert_eq!(
                    cut_events(pieces, stops),
                    (wanted.to_owned(), found.map(str::to_owned)),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn twice_the_text_and_the_sequences_are_twice_the_steps() {
        let steps = |size: usize| {
            // Each `a` may be the beginning of every sequence, but no sequence ever occurs.
            let stops: Vec<_> = (0..MAX_STOPS).map(|at| format!("{}{at}", "a".repeat(size))).collect();
            let stops: Vec<_> = stops.iter().map(String::as_str).collect();
            let text = format!("{}b", "a".repeat(2 * size)).repeat(2);
            let letters: Vec<_> = text.split_inclusive(|_| true).collect();
            [&[text.as_str()][..], &letters].map(|pieces| {
                looks::take();
                assert_eq!(cut_events(pieces, &stops).0, text);
                looks::take()
            })
        };
        for (once, twice) in steps(250).into_iter().zip(steps(500)) {
            assert!(once > 0 && twice <= 2 * once, "{once} steps, then {twice}");
        }
    }

    #[test]
    fn sequences_are_bounded_in_number_and_length() {
        let stops = |number: usize, length: usize| vec!["x".repeat(length); number];
        assert_eq!(check(&stops(16, 1024)), Ok(()));
        for (number, length) in [(17, 1), (1, 1025)] {
            let refused = check(&stops(number, length));
            assert!(matches!(refused, Err(ConversionError::Unsupported { field, .. }) if field == "stop"));
        }
    }

    #[test]
    fn a_complete_answer_ends_there_too() {
        let text = |plain: &str| Part::Text(Text::of(plain));
        let cited = |part, start, end| {
            let span = Some(Span { start, end });
            (part, Citation { url: Text::plain("https://a.b"), title: None, quoted: None, span })
        };
        let citations = vec![cited(0, 0, 1), cited(1, 0, 2), cited(1, 2, 6), cited(2, 0, 1)];
        let token = |part, text| {
            let (text, logprob) = (Text::of(text), Json::of(&0.into()));
            (part, Token { text, logprob, bytes: None, others: Vec::new() })
        };
        let logprobs = vec![token(0, "a"), token(1, "b "), token(1, "STOP"), token(1, " c"), token(2, "d")];
        let parts = vec![text("a"), text("b STOP c"), text("d")];
        let mut answer = Candidate { parts, citations, logprobs, stop: Stop::End };
        candidate(&mut answer, &["STOP".to_owned()]);
        assert_eq!(answer.parts, [text("a"), text("b ")]);
        assert_eq!(answer.logprobs, [token(0, "a"), token(1, "b ")]);
        assert_eq!(answer.citations, [cited(0, 0, 1), cited(1, 0, 2)]);
        assert_eq!(answer.stop, Stop::Sequence(Some(Text::of("STOP"))));
    }
}
