//! Accumulates a stream into a complete answer, and replays a complete answer as a stream.

use crate::dialect::canonical::{Call, Candidate, Event, Part, PartKind, Reply, Stop, Thinking};
use crate::dialect::citation::Citation;
use crate::dialect::literal::Text;
use crate::dialect::logprobs::Token;
use crate::dialect::search::Search;
use crate::dialect::signature::Signature;
use crate::dialect::upstream_error::UpstreamError;

/// Builds a complete answer from the events of a stream.
#[derive(Debug, Default)]
pub(super) struct Accumulator {
    reply: Reply<'static>,
    parts: Vec<(u32, Part<'static>)>,
    citations: Vec<(usize, Citation<'static>)>,
    logprobs: Vec<(usize, Token<'static>)>,
    stop: Option<Stop<'static>>,
    ended: bool,
    failure: Option<UpstreamError>,
}

impl Accumulator {
    pub(super) fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start { id, model, created } => {
                self.reply.id = id.into_owned();
                self.reply.model = model.into_owned();
                self.reply.created = created;
            }
            Event::Model(model) => self.reply.model = model.into_owned(),
            Event::PartStart { key, part } => self.parts.push((key, empty(part))),
            Event::Delta { key, text } => {
                if let Some(part) = self.part(key) {
                    match part {
                        Part::Text(so_far) | Part::Refusal(so_far) => so_far.push(&text),
                        Part::Thinking(thinking) => thinking.text.push(&text),
                        Part::Call(call) => call.input.push(&text),
                        Part::Search(search) => search.query.push(&text),
                        _ => {}
                    }
                }
            }
            Event::Signature { key, signature } => match self.part(key) {
                Some(Part::Thinking(thinking)) => thinking.signature = Some(signature.into_owned()),
                Some(Part::Call(call)) => call.signature = Some(signature.into_owned()),
                _ => {}
            },
            Event::Cite { key, citation } => {
                self.citations.extend(self.place(key).map(|place| (place, citation.into_owned())));
            }
            Event::Logprobs { key, tokens } => {
                if let Some(place) = self.place(key) {
                    self.logprobs.extend(tokens.into_iter().map(|token| (place, token.into_owned())));
                }
            }
            Event::SearchOutcome { key, found } => {
                if let Some(Part::Search(search)) = self.part(key) {
                    search.found = Some(found.into_owned());
                }
            }
            Event::PartStop { .. } => {}
            Event::End => self.ended = true,
            Event::Usage(usage) => match &mut self.reply.usage {
                Some(so_far) => so_far.merge(usage),
                None => self.reply.usage = Some(usage),
            },
            Event::Finish(stop) => {
                self.stop.get_or_insert(stop.into_owned());
            }
            Event::Fail(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Returns the place of the part with this key; keys count parts in the order of their start.
    fn place(&self, key: u32) -> Option<usize> {
        self.parts.binary_search_by_key(&key, |(own, _)| *own).ok()
    }

    fn part(&mut self, key: u32) -> Option<&mut Part<'static>> {
        let place = self.place(key)?;
        self.parts.get_mut(place).map(|(_, part)| part)
    }

    /// Returns the answer; an error when the stream failed or never ended.
    pub(super) fn finish(mut self) -> Result<Reply<'static>, UpstreamError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let Some(stop) = self.stop.filter(|_| self.ended) else {
            return Err(UpstreamError::new("Upstream closed the stream before its end"));
        };
        // The parts may have been open side by side.
        self.citations.sort_by_key(|(place, _)| *place);
        self.logprobs.sort_by_key(|(place, _)| *place);
        let mut reply = self.reply;
        let parts = self.parts.into_iter().map(|(_, part)| part).collect();
        reply.candidates =
            vec![Candidate { parts, citations: self.citations, logprobs: self.logprobs, stop }];
        Ok(reply)
    }
}

fn empty(part: PartKind<'_>) -> Part<'static> {
    match part {
        PartKind::Text => Part::Text(Text::EMPTY),
        PartKind::Thinking => Part::Thinking(Thinking::default()),
        PartKind::Refusal => Part::Refusal(Text::EMPTY),
        PartKind::Call { id, name, kind, signature } => Part::Call(Call {
            id: id.into_owned(),
            name: name.into_owned(),
            kind,
            input: Text::EMPTY,
            signature: signature.map(Signature::into_owned),
        }),
        PartKind::Search { id } => Part::Search(Search { id: id.into_owned(), ..Search::default() }),
    }
}

/// Replays a complete answer as the events of a stream, one delta per part; `answer` is the index of the candidate.
pub(super) fn replay(reply: &Reply<'_>, answer: usize, each: &mut dyn FnMut(Event<'_>)) {
    each(Event::Start { id: reply.id.borrowed(), model: reply.model.borrowed(), created: reply.created });
    if let Some(usage) = reply.usage {
        // The usage of a complete answer is known at the start, where messages wants it.
        each(Event::Usage(usage));
    }
    let none = Candidate::default();
    let candidate = reply.candidates.get(answer).unwrap_or(&none);
    let mut key = 0;
    for (place, part) in candidate.parts.iter().enumerate() {
        let (kind, text, signature): (_, _, Option<&Signature<'_>>) = match part {
            Part::Text(text) => (PartKind::Text, text, None),
            Part::Refusal(text) => (PartKind::Refusal, text, None),
            Part::Thinking(thinking) => (PartKind::Thinking, &thinking.text, thinking.signature.as_ref()),
            Part::Call(call) => {
                let (id, name) = (call.id.borrowed(), call.name.borrowed());
                let signature = call.signature.clone();
                (PartKind::Call { id, name, kind: call.kind, signature }, &call.input, None)
            }
            Part::Search(search) => (PartKind::Search { id: search.id.borrowed() }, &search.query, None),
            _ => continue,
        };
        each(Event::PartStart { key, part: kind });
        let tokens: Vec<_> = candidate.tokens_of(place).cloned().collect();
        if !tokens.is_empty() {
            each(Event::Logprobs { key, tokens });
        }
        if !text.is_empty() {
            each(Event::Delta { key, text: text.borrowed() });
        }
        if let Part::Search(Search { found: Some(found), .. }) = part {
            each(Event::SearchOutcome { key, found: found.clone() });
        }
        for citation in candidate.citations_of(place) {
            each(Event::Cite { key, citation: citation.clone() });
        }
        if let Some(signature) = signature {
            each(Event::Signature { key, signature: signature.clone() });
        }
        each(Event::PartStop { key });
        key += 1;
    }
    each(Event::Finish(candidate.stop.clone()));
    each(Event::End);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::canonical::CallKind;
    use crate::dialect::literal::Json;
    use crate::dialect::search::{Page, SearchOutcome};
    use crate::dialect::usage::Usage;

    #[test]
    fn an_answer_replayed_and_accumulated_is_the_same() {
        let thinking =
            Thinking { text: Text::of("Now.\n"), signature: Some(Signature::Anthropic(Text::of("SIG"))) };
        let call = Call {
            id: Text::of("call_2"),
            name: Text::of("add"),
            kind: CallKind::Function,
            input: Text::of("{\"a\":5}"),
            signature: None,
        };
        let logprob = Json::of(&(-0.5).into());
        let token = Token { text: Text::of("5"), logprob, bytes: None, others: Vec::new() };
        let page = Page { url: Text::of("https://a.b"), title: None };
        let found = Some(SearchOutcome::Pages(vec![page]));
        let search = Part::Search(Search { id: Text::of("ws_1"), query: Text::of("q"), found });
        let (url, quoted) = (Text::of("https://a.b"), Some(Text::of("five")));
        let citation = Citation { url, title: None, quoted, span: None };
        let reply = Reply {
            id: Text::of("msg_01"),
            model: Text::of("m"),
            created: Some(7),
            candidates: vec![Candidate {
                parts: vec![Part::Thinking(thinking), Part::Text(Text::of("5")), Part::Call(call), search],
                citations: vec![(1, citation)],
                logprobs: vec![(1, token)],
                stop: Stop::ToolCall,
            }],
            usage: Some(Usage { prompt: Some(1), ..Usage::default() }),
        };
        let mut accumulator = Accumulator::default();
        replay(&reply, 0, &mut |event| accumulator.take(event));
        assert_eq!(format!("{:?}", accumulator.finish().unwrap()), format!("{reply:?}"));
    }

    #[test]
    fn a_stream_without_an_end_is_no_answer() {
        assert!(Accumulator::default().finish().is_err());
        let mut stopped = Accumulator::default();
        stopped.take(Event::Finish(Stop::End));
        assert!(stopped.finish().is_err());
        let mut failed = Accumulator::default();
        failed.take(Event::Finish(Stop::End));
        failed.take(Event::Fail(UpstreamError::new("no")));
        assert_eq!(failed.finish().unwrap_err().message, "no");
    }
}
