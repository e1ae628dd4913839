//! Puts the turns of a conversation into the order that the messages API requires.
//!
//! The sides alternate there, and tool results come first in the turn after their call; everything else keeps its
//! order. What the API refuses is left out: thinking that another provider or nobody signed, thinking at the end of a turn,
//! blank text, and results of calls that were never made.

use std::collections::{HashMap, VecDeque};

use crate::dialect::canonical::{self, Part, Role};
use crate::dialect::literal::{Json, Text};
use crate::dialect::signature::Signature;

/// The parts of one side, none of them empty.
#[derive(Debug)]
pub(super) struct Turn<'r, 'a> {
    pub role: Role,
    pub parts: Vec<MarkedPart<'r, 'a>>,
}

/// A part, and the client's cache mark on it: the prompt is to be cached up to there.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedPart<'r, 'a> {
    pub part: &'r Part<'a>,
    pub mark: Option<&'r Json<'a>>,
}

/// A tool result that has not been matched with its call.
struct Waiting<'r, 'a> {
    /// Its position among all results.
    order: usize,
    turn: usize,
    marked: MarkedPart<'r, 'a>,
}

pub(super) fn arrange<'r, 'a>(turns: &'r [canonical::Turn<'a>]) -> Vec<Turn<'r, 'a>> {
    let mut merged = Vec::new();
    for turn in turns {
        push(&mut merged, turn.role, sent_parts(&turn.parts));
    }
    let mut waiting = results_by_call(&merged);
    let mut arranged = Vec::new();
    for (index, turn) in merged.into_iter().enumerate() {
        let mut results = Vec::new();
        for marked in &turn.parts {
            let Part::Call(call) = marked.part else { continue };
            let Some(queue) = waiting.get_mut(call.id.literal()) else { continue };
            while queue.front().is_some_and(|result| result.turn < index) {
                queue.pop_front();
            }
            results.extend(queue.pop_front());
        }
        results.sort_by_key(|result| result.order);
        let others = turn.parts.into_iter().filter(|marked| !matches!(marked.part, Part::Result(_)));
        push(&mut arranged, turn.role, others.collect());
        push(&mut arranged, Role::User, results.into_iter().map(|result| result.marked).collect());
    }
    without_last_thoughts(arranged)
}

/// Leaves out thinking that nothing follows in its turn: the answer ended while the model was thinking.
fn without_last_thoughts<'r, 'a>(turns: Vec<Turn<'r, 'a>>) -> Vec<Turn<'r, 'a>> {
    let ends_in_thinking = |turn: &Turn<'_, '_>| {
        turn.role == Role::Assistant
            && matches!(turn.parts.last().map(|marked| marked.part), Some(Part::Thinking(_)))
    };
    if !turns.iter().any(ends_in_thinking) {
        return turns;
    }
    let mut kept = Vec::new();
    for mut turn in turns {
        while ends_in_thinking(&turn) {
            turn.parts.pop();
        }
        push(&mut kept, turn.role, turn.parts);
    }
    kept
}

/// Returns whether thinking cannot be on because the last turn of the assistant does not begin with thinking although
/// it goes on: its calls have just been answered, or it is to be continued.
pub(super) fn lacks_thinking(turns: &[Turn<'_, '_>]) -> bool {
    let Some(last) = turns.iter().rposition(|turn| turn.role == Role::Assistant) else { return false };
    let answered = turns.get(last + 1).and_then(first);
    let running = answered.is_none_or(|part| matches!(part, Part::Result(_)));
    running && !matches!(first(&turns[last]), Some(Part::Thinking(_)))
}

fn first<'r, 'a>(turn: &Turn<'r, 'a>) -> Option<&'r Part<'a>> {
    turn.parts.first().map(|marked| marked.part)
}

fn results_by_call<'r, 'a>(turns: &[Turn<'r, 'a>]) -> HashMap<&'r str, VecDeque<Waiting<'r, 'a>>> {
    let mut waiting: HashMap<&str, VecDeque<_>> = HashMap::new();
    let mut order = 0;
    for (turn, parts) in turns.iter().map(|turn| &turn.parts).enumerate() {
        for marked in parts.iter().copied() {
            let Part::Result(result) = marked.part else { continue };
            waiting.entry(result.call_id.literal()).or_default().push_back(Waiting { order, turn, marked });
            order += 1;
        }
    }
    waiting
}

/// Adds parts to the last turn if it is of that role, or as the next turn.
fn push<'r, 'a>(turns: &mut Vec<Turn<'r, 'a>>, role: Role, mut parts: Vec<MarkedPart<'r, 'a>>) {
    if parts.is_empty() {
        return;
    }
    match turns.last_mut() {
        Some(last) if last.role == role => last.parts.append(&mut parts),
        _ => turns.push(Turn { role, parts }),
    }
}

/// Returns the parts of a turn that are sent. A mark goes with the part before it.
fn sent_parts<'r, 'a>(parts: &'r [Part<'a>]) -> Vec<MarkedPart<'r, 'a>> {
    let mark_of = |at: usize| match parts.get(at + 1) {
        Some(Part::CacheMark(mark)) => Some(mark),
        _ => None,
    };
    let sent = parts.iter().enumerate().filter(|(_, part)| is_sent(part));
    sent.map(|(at, part)| MarkedPart { part, mark: mark_of(at) }).collect()
}

fn is_sent(part: &Part<'_>) -> bool {
    match part {
        Part::Text(text) | Part::Refusal(text) => says_something(text),
        Part::Thinking(thinking) => match &thinking.signature {
            Some(Signature::Anthropic(proof) | Signature::AnthropicRedacted(proof)) => !proof.is_empty(),
            // Its provider is unknown; most likely the client got it from this API.
            Some(Signature::Unknown(proof)) => !proof.is_empty(),
            _ => false,
        },
        Part::Call(call) => !call.name.is_empty(),
        Part::CacheMark(_) => false,
        _ => true,
    }
}

/// Returns whether a text is more than white space: the API refuses blank text blocks.
pub(super) fn says_something(text: &Text<'_>) -> bool {
    match text.literal().bytes().next() {
        None => false,
        // Checked first, so that long texts are rarely decoded.
        Some(first) if first.is_ascii_graphic() && first != b'\\' => true,
        Some(_) => !text.is_blank(),
    }
}
