//! Every call of a conversation with its result right behind it, as messages and gemini want it: one that
//! has none is an error there, and the conversation could never go on.
//!
//! A result that comes later moves up to its call. A call that nobody answered, because the client stopped
//! it or lost what came, is answered with an error that says so: without the call the model would not know
//! what it had done, and the thinking before it would not be its own any more. The last turn waits for no
//! answer yet, and stays as it is. A result of no call, or a second one, is left out.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::dialect::canonical::{Call, Part, Request, Role, ToolResult, Turn};
use crate::dialect::literal::Text;

/// What the model reads in place of a result.
const NO_RESULT: &str = "No result was given for this call.";

/// Where a part stands.
type PartPlace = (usize, usize);

/// Puts the results of each call behind it.
pub(super) fn settle(request: &mut Request<'_>) {
    let mut results = places(&request.turns);
    let mut used = HashSet::new();
    // Each with the place of the turn that it is to begin, in order.
    let mut missing: Vec<(usize, Found<'_>)> = Vec::new();
    let mut from = 0;
    for run in request.turns.chunk_by(|one, next| one.role == next.role) {
        let (begin, end) = (from, from + run.len());
        from = end;
        if run.first().is_none_or(|turn| turn.role != Role::Assistant) || end == request.turns.len() {
            continue;
        }
        let answers = request.turns.iter().skip(end).take_while(|turn| turn.role != Role::Assistant).count();
        for call in run.iter().flat_map(|turn| &turn.parts).filter_map(as_call) {
            let waiting = results.get_mut(call.id.literal());
            let found = waiting.and_then(|waiting| {
                while waiting.front().is_some_and(|(turn, _)| *turn < begin) {
                    waiting.pop_front();
                }
                waiting.pop_front()
            });
            used.extend(found);
            match found {
                Some((turn, _)) if turn < end + answers => {}
                Some(place) => missing.push((end, Found::Later(place))),
                None => missing.push((end, Found::Nowhere(Box::new(unanswered(call))))),
            }
        }
    }
    leave_out(&mut request.turns, |place| !used.contains(&place));
    apply(&mut request.turns, missing);
}

/// What is to stand behind a call and does not.
enum Found<'a> {
    Later(PartPlace),
    Nowhere(Box<Part<'a>>),
}

fn as_call<'r, 'a>(part: &'r Part<'a>) -> Option<&'r Call<'a>> {
    match part {
        Part::Call(call) if !call.name.is_empty() => Some(call),
        _ => None,
    }
}

/// Where the results of each id stand, in order.
fn places(turns: &[Turn<'_>]) -> HashMap<String, VecDeque<PartPlace>> {
    let mut places: HashMap<String, VecDeque<PartPlace>> = HashMap::new();
    for (turn, parts) in turns.iter().map(|turn| &turn.parts).enumerate() {
        for (at, part) in parts.iter().enumerate() {
            if let Part::Result(result) = part {
                places.entry(result.call_id.literal().to_owned()).or_default().push_back((turn, at));
            }
        }
    }
    places
}

fn unanswered<'a>(call: &Call<'a>) -> Part<'a> {
    Part::Result(ToolResult {
        call_id: call.id.clone(),
        kind: call.kind,
        parts: vec![Part::Text(Text::plain(NO_RESULT))],
        listed: false,
        is_error: true,
    })
}

/// What goes leaves an empty text, which no writer of these dialects writes.
const GONE: Part<'static> = Part::Text(Text::EMPTY);

fn leave_out(turns: &mut [Turn<'_>], is_orphan: impl Fn(PartPlace) -> bool) {
    for (index, turn) in turns.iter_mut().enumerate() {
        for (at, part) in turn.parts.iter_mut().enumerate() {
            if matches!(part, Part::Result(_)) && is_orphan((index, at)) {
                *part = GONE;
            }
        }
    }
}

fn apply<'a>(turns: &mut Vec<Turn<'a>>, missing: Vec<(usize, Found<'a>)>) {
    let mut taken: Vec<(usize, Part<'a>)> = Vec::with_capacity(missing.len());
    for (before, found) in missing {
        let part = match found {
            Found::Nowhere(part) => Some(*part),
            Found::Later((turn, at)) => turns
                .get_mut(turn)
                .and_then(|turn| turn.parts.get_mut(at))
                .map(|part| std::mem::replace(part, GONE)),
        };
        taken.extend(part.map(|part| (before, part)));
    }
    let mut taken = taken.into_iter().peekable();
    let mut settled = Vec::with_capacity(turns.len() + taken.len());
    for (place, turn) in turns.drain(..).enumerate() {
        while let Some((_, part)) = taken.next_if(|(before, _)| *before <= place) {
            settled.push(Turn::new(Role::User, vec![part]));
        }
        settled.push(turn);
    }
    *turns = settled;
}
