//! Ids of calls in a request: each call gets one that its target takes, and each result that of its call.

use std::collections::{HashMap, HashSet};

use crate::dialect::Dialect;
use crate::dialect::canonical::{Call, Part, Request};
use crate::dialect::literal::Text;
use crate::dialect::messages;
use crate::dialect::waiting_calls::WaitingCalls;

/// The longest id of a call that OpenAI's endpoints take, in characters.
const MAX_ID: usize = 64;

/// The calls whose ids are settled, in order.
#[derive(Default)]
struct SettledCalls<'a> {
    /// The calls by the ids that their client gave.
    sent: WaitingCalls<'a>,
    ids: Vec<Text<'a>>,
    /// The number of the turn in which each call was made.
    turns: Vec<usize>,
    used: UsedIds,
}

/// The ids of the calls so far. A later call changes no earlier id, so that the conversation begins as before.
#[derive(Default)]
struct UsedIds {
    taken: HashSet<String>,
    /// The ids that were made for calls without one.
    made: HashSet<String>,
    /// The next number to try for each stem: the numbers before it are taken.
    next: HashMap<String, usize>,
}

/// Gives a call without an id one made from its place and, where a dialect wants every call to have its own (messages),
/// replaces repeated ids. A result belongs to the first call of its id that waits for one, among those that the
/// assistant made in the same turn.
pub(super) fn settle(request: &mut Request<'_>, to: Dialect) {
    if are_settled(request, to) {
        return;
    }
    let mut calls = SettledCalls::default();
    let (mut turn, mut last) = (0, None);
    let parts = request.turns.iter_mut().flat_map(|turn| {
        let role = turn.role;
        turn.parts.iter_mut().map(move |part| (role, part))
    });
    for (role, part) in parts {
        // Turns of one role that follow each other are one.
        turn += usize::from(last.replace(role) != Some(role));
        match part {
            Part::Call(call) => calls.settle(call, turn, to),
            Part::Result(result) => {
                if let Some(id) = calls.answer(&result.call_id) {
                    result.call_id = id;
                }
            }
            _ => {}
        }
    }
}

/// Whether every call has an id already, and one of its own where the dialect wants that.
fn are_settled(request: &Request<'_>, to: Dialect) -> bool {
    let mut seen = HashSet::new();
    request.turns.iter().flat_map(|turn| &turn.parts).all(|part| match part {
        Part::Call(call) => {
            !call.id.is_empty() && (seen.insert(call.id.literal()) || to != Dialect::Messages)
        }
        _ => true,
    })
}

/// Replaces an id that the target forbids by its hash, the same wherever it occurs. Other ids stay as they are, so that
/// the next request finds its call.
pub(super) fn fit(id: &mut Text<'_>, to: Dialect) {
    let plain = id.decode();
    let fits = match to {
        Dialect::Messages => messages::fits_call_id(&plain),
        Dialect::Chat | Dialect::Responses => plain.chars().count() <= MAX_ID,
        _ => true,
    };
    if !fits {
        *id = Text::of(&messages::call_id_of(&plain));
    }
}

// === impl SettledCalls ===

impl<'a> SettledCalls<'a> {
    /// Gives the next call its id.
    fn settle(&mut self, call: &mut Call<'a>, turn: usize, to: Dialect) {
        let sent = call.id.clone();
        if self.sent.last(&sent).is_some_and(|before| self.turns.get(before) != Some(&turn)) {
            self.sent.abandon(&sent);
        }
        let named = sent.decode().into_owned();
        if named.is_empty() {
            call.id = Text::of(&self.used.make_for_unnamed(self.sent.len()));
        } else if !self.used.taken.insert(named.clone())
            && (to == Dialect::Messages || self.used.made.contains(&named))
        {
            call.id = Text::of(&self.used.make(&named, self.sent.count(&sent) + 1));
        }
        self.sent.push(sent);
        self.ids.push(call.id.clone());
        self.turns.push(turn);
    }

    /// Returns the id of the call that a result with this id belongs to.
    fn answer(&mut self, sent: &Text<'_>) -> Option<Text<'a>> {
        let place = self.sent.answer(sent).or_else(|| self.sent.last(sent))?;
        self.ids.get(place).cloned()
    }
}

// === impl UsedIds ===

impl UsedIds {
    /// Makes an id for a call without one, from its place among the calls.
    fn make_for_unnamed(&mut self, place: usize) -> String {
        let id = self.make("call", place);
        self.made.insert(id.clone());
        id
    }

    /// Makes an id of its own from a stem and the first free number that is at least `from`.
    fn make(&mut self, stem: &str, from: usize) -> String {
        let next = self.next.entry(stem.to_owned()).or_default();
        let from = from.max(*next);
        let is_free = |number: &usize| !self.taken.contains(&format!("{stem}_{number}"));
        let number = (from..).find(is_free).unwrap_or(from);
        *next = number + 1;
        let id = format!("{stem}_{number}");
        self.taken.insert(id.clone());
        id
    }
}
