//! Puts a result right behind every call of a conversation: messages, gemini and chat refuse a call without one, responses
//! one that is answered nowhere, and the conversation could never go on.
//!
//! A call that was not answered before the assistant spoke again, because the client stopped it or lost the result, is
//! answered with an error that says so: without the call the model would not know what it had done, and the thinking
//! before it would no longer be its own. Calls of the last turn need no answer yet, and stay as they are. A result that
//! comes later is put in words where it comes: the earlier request had the error behind the call, and a prompt that
//! begins differently is not cached. A result without a call, or a second one, is left out; where the user's side says
//! nothing else, it is put in words too, since a conversation that ends with the assistant asks it to continue its own
//! words. Where a request goes on from an earlier answer, both stay: the upstream keeps the calls of that answer.

use std::collections::{HashMap, VecDeque};

use crate::dialect::canonical::{Call, Part, Request, Role, ToolResult, Turn};
use crate::dialect::literal::Text;

/// The text that the model reads in place of a result.
const NO_RESULT: &str = "No result was given for this call.";

/// The text before a result that no call waits for.
const STRAY: &str = "A result has come that no call waits for:";

/// The place of a part: the index of its turn, and its index in it.
type PartPlace = (usize, usize);

/// The treatment of a result.
enum Fate<'a> {
    /// The result answers a call of the turn before, or a call that the upstream keeps.
    Kept,
    /// The result answers an earlier call of the function with this name.
    Late(Text<'a>),
    /// The result answers no waiting call, and the user's side says nothing else.
    Stray,
}

/// The treatment of results without a call.
#[derive(Clone, Copy)]
pub(super) enum Strays {
    /// Results without a call stay: the upstream may have their calls.
    Keep,
    /// Results without a call are left out, or put in words where the user's side says nothing else.
    Drop,
}

/// The results and the calls of a conversation that are settled, run by run.
#[derive(Default)]
struct Settling<'r, 'a> {
    fates: HashMap<PartPlace, Fate<'a>>,
    /// Our own results, each with the place of the turn before which it is inserted, in order.
    missing: Vec<(usize, Part<'a>)>,
    /// The ids of the calls that have such a result, with the names of their functions.
    unanswered: HashMap<&'r str, Text<'a>>,
}

/// The places of the results of each id, in order.
type ResultPlaces<'r> = HashMap<&'r str, VecDeque<PartPlace>>;

/// Puts a result behind each call.
pub(super) fn settle(request: &mut Request<'_>, strays: Strays) {
    let mut settling = Settling::default();
    let mut calls = Vec::new();
    let mut begin = 0;
    for run in request.turns.chunk_by(|one, next| one.role == next.role) {
        if run.first().is_some_and(|turn| turn.role == Role::Assistant) {
            calls = run.iter().flat_map(|turn| &turn.parts).filter_map(as_call).collect();
        } else {
            settling.settle(std::mem::take(&mut calls), run, begin, strays);
        }
        begin += run.len();
    }
    let Settling { fates, missing, .. } = settling;
    apply(&mut request.turns, fates);
    insert(&mut request.turns, missing);
}

// === impl Settling ===

impl<'r, 'a> Settling<'r, 'a> {
    /// Settles the calls of the assistant, and the results in the run of turns behind it, which begins at `begin`.
    fn settle(&mut self, calls: Vec<&'r Call<'a>>, run: &'r [Turn<'a>], begin: usize, strays: Strays) {
        let settled = self.fates.len();
        let mut results = places(run, begin);
        self.answer(calls, &mut results, begin);
        self.answer_late(&mut results);
        let says_more = self.fates.len() > settled || run.iter().flat_map(|turn| &turn.parts).any(is_more);
        let left = results.into_values().flatten();
        match strays {
            Strays::Keep => self.fates.extend(left.map(|place| (place, Fate::Kept))),
            Strays::Drop if says_more => {}
            Strays::Drop => self.fates.extend(left.map(|place| (place, Fate::Stray))),
        }
    }

    /// Takes the result of each call, or makes one.
    fn answer(&mut self, calls: Vec<&'r Call<'a>>, results: &mut ResultPlaces<'r>, begin: usize) {
        for call in calls {
            match results.get_mut(call.id.literal()).and_then(VecDeque::pop_front) {
                Some(place) => {
                    self.fates.insert(place, Fate::Kept);
                }
                None => {
                    self.unanswered.insert(call.id.literal(), call.name.clone());
                    self.missing.push((begin, no_result(call)));
                }
            }
        }
    }

    /// Takes the results of earlier calls.
    fn answer_late(&mut self, results: &mut ResultPlaces<'r>) {
        for (id, places) in results.iter_mut().filter(|(_, places)| !places.is_empty()) {
            if let Some(name) = self.unanswered.remove(id) {
                self.fates.extend(places.pop_front().map(|place| (place, Fate::Late(name))));
            }
        }
    }
}

fn as_call<'r, 'a>(part: &'r Part<'a>) -> Option<&'r Call<'a>> {
    match part {
        Part::Call(call) if !call.name.is_empty() => Some(call),
        _ => None,
    }
}

/// Whether a part says more than that a result has come.
fn is_more(part: &Part<'_>) -> bool {
    match part {
        Part::Result(_) | Part::CacheMark(_) => false,
        Part::Text(text) => !text.is_blank(),
        _ => true,
    }
}

/// Returns the places of the results in a run of turns that begins at `begin`.
fn places<'r>(run: &'r [Turn<'_>], begin: usize) -> ResultPlaces<'r> {
    let mut places = ResultPlaces::new();
    for (turn, parts) in run.iter().map(|turn| &turn.parts).enumerate() {
        for (at, part) in parts.iter().enumerate() {
            if let Part::Result(result) = part {
                places.entry(result.call_id.literal()).or_default().push_back((begin + turn, at));
            }
        }
    }
    places
}

fn no_result<'a>(call: &Call<'a>) -> Part<'a> {
    Part::Result(ToolResult {
        call_id: call.id.clone(),
        kind: call.kind,
        parts: vec![Part::Text(Text::plain(NO_RESULT))],
        listed: false,
        is_error: true,
    })
}

/// Keeps the results that answer a call, puts late and stray ones in words, and drops the others.
fn apply<'a>(turns: &mut [Turn<'a>], mut fates: HashMap<PartPlace, Fate<'a>>) {
    for (index, turn) in turns.iter_mut().enumerate() {
        if !turn.parts.iter().any(|part| matches!(part, Part::Result(_))) {
            continue;
        }
        let parts = std::mem::take(&mut turn.parts);
        for (at, part) in parts.into_iter().enumerate() {
            match part {
                Part::Result(result) => match fates.remove(&(index, at)) {
                    Some(Fate::Kept) => turn.parts.push(Part::Result(result)),
                    Some(Fate::Late(name)) => turn.parts.extend(late(&name, result)),
                    Some(Fate::Stray) => turn.parts.extend(in_words(Text::plain(STRAY), result)),
                    None => {}
                },
                part => turn.parts.push(part),
            }
        }
    }
}

/// Puts the late result of an earlier call of this function in words.
fn late<'a>(name: &Text<'_>, result: ToolResult<'a>) -> impl Iterator<Item = Part<'a>> {
    let how = if result.is_error { " failed:" } else { " has come to its result:" };
    in_words(Text::join([&Text::plain("The earlier call of "), name, &Text::plain(how)], ""), result)
}

/// Turns a result into words of the user's side: its texts as one, after the words of `begin`, then its pictures and
/// files.
fn in_words<'a>(begin: Text<'_>, result: ToolResult<'a>) -> impl Iterator<Item = Part<'a>> {
    let said = result.parts.iter().filter_map(Part::as_text);
    let text = Text::join(&[begin].into_iter().chain(said).collect::<Vec<_>>(), "\\n");
    let attached = result.parts.into_iter().filter(|part| part.as_text().is_none());
    std::iter::once(Part::Text(text)).chain(attached)
}

fn insert<'a>(turns: &mut Vec<Turn<'a>>, missing: Vec<(usize, Part<'a>)>) {
    let mut missing = missing.into_iter().peekable();
    let mut settled = Vec::with_capacity(turns.len() + missing.len());
    for (place, turn) in turns.drain(..).enumerate() {
        while let Some((_, part)) = missing.next_if(|(before, _)| *before <= place) {
            settled.push(Turn::new(Role::User, vec![part]));
        }
        settled.push(turn);
    }
    *turns = settled;
}
