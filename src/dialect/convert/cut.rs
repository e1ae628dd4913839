//! Stop sequences for upstreams of the responses dialect, which has none.
//!
//! The text is searched as it passes, and ends before the first sequence. Text that may be the beginning of one is
//! held back until it is known. What follows is read to its end for the usage, and dropped.

use std::collections::BTreeMap;

use crate::dialect::canonical::{Candidate, Event, Part, PartKind, Stop};
use crate::dialect::citation::Citation;
use crate::dialect::literal::Text;

/// Ends a complete answer at the first sequence.
pub(super) fn candidate(candidate: &mut Candidate<'_>, stops: &[String]) {
    let found = candidate.parts.iter().enumerate().find_map(|(at, part)| match part {
        Part::Text(text) => {
            let plain = text.decode();
            let (end, stop) = first(&plain, stops)?;
            Some((at, Text::of(&plain[..end]), stop))
        }
        _ => None,
    });
    let Some((at, said, stop)) = found else { return };
    candidate.parts.truncate(at);
    let end = said.letters();
    let is_said = |(part, citation): &(usize, Citation<'_>)| {
        *part < at || (*part == at && citation.span.is_none_or(|span| span.end <= end))
    };
    candidate.citations.retain(is_said);
    let mut letters = 0;
    candidate.logprobs.retain(|(part, token)| {
        letters += if *part == at { token.text.letters() } else { 0 };
        *part < at || (*part == at && letters <= end)
    });
    if !said.is_empty() {
        candidate.parts.push(Part::Text(said));
    }
    candidate.stop = Stop::Sequence(Some(Text::of(stop)));
}

/// Ends a stream at the first sequence.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    /// The parts that are open: of a text what of it is held back.
    open: BTreeMap<u32, Option<String>>,
    found: Option<Text<'static>>,
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
                self.open.insert(key, (part == PartKind::Text).then(String::new));
                each(Event::PartStart { key, part });
            }
            Event::Delta { key, text } => match self.open.get_mut(&key) {
                Some(Some(held)) => {
                    held.push_str(&text.decode());
                    match first(held, stops) {
                        Some((end, stop)) => {
                            self.found = Some(Text::of(stop));
                            held.truncate(end);
                            self.close(each);
                        }
                        None => {
                            let kept = held.len() - beginning(held, stops);
                            let rest = held.split_off(kept);
                            emit_text(key, &std::mem::replace(held, rest), each);
                        }
                    }
                }
                _ => each(Event::Delta { key, text }),
            },
            Event::PartStop { key } => {
                if let Some(held) = self.open.remove(&key).flatten() {
                    emit_text(key, &held, each);
                }
                each(Event::PartStop { key });
            }
            other => each(other),
        }
    }

    fn close(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        for (key, held) in std::mem::take(&mut self.open) {
            emit_text(key, &held.unwrap_or_default(), each);
            each(Event::PartStop { key });
        }
    }
}

fn emit_text(key: u32, plain: &str, each: &mut dyn FnMut(Event<'_>)) {
    if !plain.is_empty() {
        each(Event::Delta { key, text: Text::of(plain) });
    }
}

/// Where the first of the sequences begins, and which it is.
fn first<'s>(text: &str, stops: &'s [String]) -> Option<(usize, &'s str)> {
    stops.iter().filter_map(|stop| Some((text.find(stop.as_str())?, stop.as_str()))).min_by_key(|(at, _)| *at)
}

/// How many bytes at the end of a text may be the beginning of a sequence.
fn beginning(text: &str, stops: &[String]) -> usize {
    let longest = |stop: &String| {
        let starts = stop.char_indices().map(|(at, _)| at).skip(1);
        starts.filter(|end| text.ends_with(&stop[..*end])).last().unwrap_or(0)
    };
    stops.iter().map(longest).max().unwrap_or(0)
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
