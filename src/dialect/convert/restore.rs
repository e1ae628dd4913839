//! Restores in an answer the names and the kinds of tools that its client knows, and ends it at the client's stop
//! sequences if its upstream does not.

use std::collections::HashMap;

use super::cut::{self, Cutter};
use super::fit::unwrap;
use crate::dialect::canonical::{CallKind, Event, MAX_REPEATED, Part, PartKind, Reply, ReplyContext};
use crate::dialect::literal::Text;

/// Restores a complete answer.
pub(super) fn reply(reply: &mut Reply<'_>, context: &ReplyContext) {
    for repeated in [&mut reply.id, &mut reply.model] {
        if repeatable(repeated).is_empty() {
            *repeated = Text::EMPTY;
        }
    }
    if reply.model.is_empty() {
        reply.model = Text::of(&context.model);
    }
    if !context.stop.is_empty() {
        reply.candidates.iter_mut().for_each(|candidate| cut::candidate(candidate, &context.stop));
    }
    let parts = reply.candidates.iter_mut().flat_map(|candidate| &mut candidate.parts);
    for (number, part) in (0..).zip(parts) {
        if let Part::Call(call) = part {
            call.id = named(std::mem::take(&mut call.id), number, context);
            if is_idle(context) {
                continue;
            }
            call.name = context.names.client(&call.name).into_owned();
            if is_custom(&call.name, call.kind, context) {
                call.kind = CallKind::Custom;
                call.input = unwrap(&call.input);
            }
        }
    }
}

/// Restores the events of a stream. The input of a custom tool is held until it is whole: only then
/// can the text in it be separated from the JSON around it.
#[derive(Debug, Default)]
pub(super) struct Restorer {
    started: bool,
    held: HashMap<u32, Text<'static>>,
    cutter: Cutter,
}

impl Restorer {
    pub(super) fn event(
        &mut self,
        event: Event<'_>,
        context: &ReplyContext,
        each: &mut dyn FnMut(Event<'_>),
    ) {
        let mut cutter = std::mem::take(&mut self.cutter);
        cutter.event(event, &context.stop, &mut |event| self.uncut(event, context, each));
        self.cutter = cutter;
    }

    fn uncut(&mut self, event: Event<'_>, context: &ReplyContext, each: &mut dyn FnMut(Event<'_>)) {
        if let Event::Start { id, model, created } = &event {
            // An upstream that names itself only at its end has been given an id and a time already.
            let (id, model) = (repeatable(id), repeatable(model));
            if std::mem::replace(&mut self.started, true) {
                if !model.is_empty() {
                    each(Event::Model(model));
                }
                return;
            }
            let model = if model.is_empty() { Text::of(&context.model) } else { model };
            return each(Event::Start { id, model, created: *created });
        }
        if matches!(event, Event::PartStart { .. } | Event::Finish(_))
            && !std::mem::replace(&mut self.started, true)
        {
            each(Event::Start { id: Text::EMPTY, model: Text::of(&context.model), created: None });
        }
        match event {
            Event::PartStart { key, part: PartKind::Call { id, name, kind, signature } } => {
                let id = named(id, key, context);
                if is_idle(context) {
                    return each(Event::PartStart {
                        key,
                        part: PartKind::Call { id, name, kind, signature },
                    });
                }
                let name = context.names.client(&name);
                let custom = is_custom(&name, kind, context);
                if custom {
                    self.held.insert(key, Text::EMPTY);
                }
                let kind = if custom { CallKind::Custom } else { kind };
                each(Event::PartStart { key, part: PartKind::Call { id, name, kind, signature } });
            }
            Event::Delta { key, text } => match self.held.get_mut(&key) {
                Some(held) => held.push(&text),
                None => each(Event::Delta { key, text }),
            },
            Event::PartStop { key } => {
                if let Some(held) = self.held.remove(&key) {
                    each(Event::Delta { key, text: unwrap(&held) });
                }
                each(Event::PartStop { key });
            }
            Event::Model(model) if repeatable(&model).is_empty() => {}
            other => each(other),
        }
    }
}

fn repeatable<'t>(text: &'t Text<'_>) -> Text<'t> {
    if text.literal().len() <= MAX_REPEATED { text.borrowed() } else { Text::EMPTY }
}

/// Returns the id of a call. A call without one gets an id made from the request and the call's place in the answer, so
/// that calls of later turns are not taken for it.
fn named<'t>(id: Text<'t>, place: u32, context: &ReplyContext) -> Text<'t> {
    let request = &context.fallback_id;
    if !id.is_empty() || request.is_empty() {
        return id;
    }
    Text::of(&format!("call_{request}_{place}"))
}

fn is_idle(context: &ReplyContext) -> bool {
    context.names.is_empty() && context.custom_tools.is_empty()
}

fn is_custom(name: &Text<'_>, kind: CallKind, context: &ReplyContext) -> bool {
    let name = name.decode();
    kind == CallKind::Function
        && context.custom_tools.binary_search_by(|custom| custom.as_str().cmp(&name)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::canonical::{Call, Candidate};

    fn context() -> ReplyContext {
        ReplyContext { custom_tools: vec!["apply_patch".to_owned()], ..ReplyContext::default() }
    }

    fn call(name: &'static str) -> PartKind<'static> {
        PartKind::Call {
            id: Text::plain("c"),
            name: Text::plain(name),
            kind: CallKind::Function,
            signature: None,
        }
    }

    #[test]
    fn a_custom_call_comes_back_as_its_text() {
        let mut restorer = Restorer { started: true, ..Restorer::default() };
        let mut seen = Vec::new();
        for event in [
            Event::PartStart { key: 0, part: call("apply_patch") },
            Event::Delta { key: 0, text: Text::of("{\"inp") },
            Event::Delta { key: 0, text: Text::of("ut\":\"a\\nb\"}") },
            Event::PartStop { key: 0 },
            Event::PartStart { key: 1, part: call("add") },
            Event::Delta { key: 1, text: Text::of("{}") },
        ] {
            restorer.event(event, &context(), &mut |event| seen.push(format!("{event:?}")));
        }
        assert!(seen[0].contains("Custom") && seen[3].contains("Function"), "{seen:?}");
        assert_eq!(seen[1], r#"Delta { key: 0, text: "a\nb" }"#);
        assert_eq!(seen[4], r#"Delta { key: 1, text: "{}" }"#);
    }

    #[test]
    fn a_call_of_an_answer_without_a_name_is_named_by_its_request() {
        let context = ReplyContext { fallback_id: "req-7".to_owned(), ..ReplyContext::default() };
        let (mut restorer, mut named) = (Restorer::default(), Vec::new());
        for (key, id) in [(0, "call_1"), (3, "")] {
            let call = PartKind::Call {
                id: Text::plain(id),
                name: Text::plain("f"),
                kind: CallKind::Function,
                signature: None,
            };
            restorer.event(Event::PartStart { key, part: call }, &context, &mut |event| {
                if let Event::PartStart { part: PartKind::Call { id, .. }, .. } = event {
                    named.push(id.decode().into_owned());
                }
            });
        }
        assert_eq!(named, ["call_1", "call_req-7_3"]);
        let part = Part::Call(Call {
            id: Text::EMPTY,
            name: Text::plain("f"),
            kind: CallKind::Function,
            input: Text::EMPTY,
            signature: None,
        });
        let mut whole = Reply {
            candidates: vec![Candidate { parts: vec![part], ..Candidate::default() }],
            ..Reply::default()
        };
        reply(&mut whole, &context);
        let Part::Call(call) = &whole.candidates[0].parts[0] else { panic!("no call") };
        assert_eq!(call.id.decode(), "call_req-7_0");
    }

    #[test]
    fn an_answer_without_a_model_names_the_one_that_was_asked_for() {
        let context = ReplyContext { model: "m".to_owned(), ..ReplyContext::default() };
        for events in [
            vec![Event::Start { id: Text::EMPTY, model: Text::EMPTY, created: None }],
            vec![Event::PartStart { key: 0, part: PartKind::Text }, Event::PartStop { key: 0 }],
        ] {
            let (mut restorer, mut named) = (Restorer::default(), Vec::new());
            for event in events {
                restorer.event(event, &context, &mut |event| {
                    if let Event::Start { model, .. } = event {
                        named.push(model.into_owned());
                    }
                });
            }
            assert_eq!(named, [Text::plain("m")]);
        }
        let mut answer = Reply::default();
        reply(&mut answer, &context);
        assert_eq!(answer.model, Text::plain("m"));
    }

    #[test]
    fn a_long_id_and_a_long_name_of_a_model_are_not_repeated_in_each_chunk() {
        let context = ReplyContext { model: "m".to_owned(), ..ReplyContext::default() };
        let long = Text::of(&"x".repeat(MAX_REPEATED + 1));
        let start = Event::Start { id: long.borrowed(), model: long.borrowed(), created: None };
        let (mut restorer, mut events) = (Restorer::default(), Vec::new());
        for event in [start.clone(), start, Event::Model(long.borrowed())] {
            restorer.event(event, &context, &mut |event| events.push(format!("{event:?}")));
        }
        let wanted = Event::Start { id: Text::EMPTY, model: Text::plain("m"), created: None };
        assert_eq!(events, [format!("{wanted:?}")]);
    }

    #[test]
    fn a_complete_answer_is_restored_alike() {
        let part = Part::Call(Call {
            id: Text::plain("c"),
            name: Text::plain("apply_patch"),
            kind: CallKind::Function,
            input: Text::of("{\"input\":\"x\"}"),
            signature: None,
        });
        let candidates = vec![Candidate { parts: vec![part], ..Candidate::default() }];
        let mut answer = Reply { candidates, ..Reply::default() };
        reply(&mut answer, &context());
        let Part::Call(call) = &answer.candidates[0].parts[0] else { panic!("a call") };
        assert_eq!((call.kind, call.input.literal()), (CallKind::Custom, "x"));
    }
}
