//! The items of a streamed answer, and how an event finds the one it is about.

use std::collections::{BTreeMap, BTreeSet};

use crate::dialect::canonical::CallKind;
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;

/// An item of the output, as far as it has been read.
#[derive(Debug)]
pub(super) struct Item {
    pub kind: Kind,
    /// Its place in the output and its id, when the upstream says them.
    pub index: Option<u64>,
    pub id: Option<Text<'static>>,
    pub done: bool,
    /// The event that adds it has come.
    pub added: bool,
    /// It has been found again in the terminal response.
    pub repeated: bool,
    /// The open part.
    pub key: Option<u32>,
    /// Which of its parts is open, or was last.
    pub at: u64,
    /// The parts of which a delta has been read.
    pub seen: BTreeSet<u64>,
    /// How many annotations of each part have been read.
    pub citations_seen: BTreeMap<u64, usize>,
    /// The parts whose log probabilities have been read.
    pub with_logprobs: BTreeSet<u64>,
    /// Reasoning is read from its raw text or from its summary, whichever comes first.
    pub raw: Option<bool>,
    /// Input of a call whose name is not known yet.
    pub held: Text<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call(CallKind),
    Search,
    /// What else ran at the upstream.
    Other,
}

impl Kind {
    pub(super) fn of(item: &Node<'_>) -> Self {
        match item.str_at("type").as_ref() {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call(CallKind::Function),
            "custom_tool_call" => Self::Call(CallKind::Custom),
            "web_search_call" => Self::Search,
            _ => Self::Other,
        }
    }
}

impl Item {
    /// Notes that a delta of the part has been read.
    pub(super) fn note_delta(&mut self, part: u64) {
        self.at = part;
        self.seen.insert(part);
    }
}

fn push(items: &mut Vec<Item>, index: Option<u64>, id: Option<Text<'_>>, kind: Kind) -> usize {
    items.push(Item {
        kind,
        index,
        id: id.map(Text::into_owned),
        done: false,
        added: false,
        repeated: false,
        key: None,
        at: 0,
        seen: BTreeSet::new(),
        citations_seen: BTreeMap::new(),
        with_logprobs: BTreeSet::new(),
        raw: None,
        held: Text::EMPTY,
    });
    items.len() - 1
}

/// The item that an event adds, and its place among those seen so far: one that a delta has told of already, or that
/// comes a second time, is no other.
pub(super) fn added(items: &mut Vec<Item>, index: Option<u64>, id: Option<Text<'_>>, kind: Kind) -> usize {
    let is_meant = |item: &Item| {
        let is_same = item.id.is_some() && item.id == id;
        let may_be = !item.added && !item.done && (item.id.is_none() || id.is_none());
        item.kind == kind && item.index == index && (is_same || (index.is_some() && may_be))
    };
    let at = items.iter().rposition(is_meant).unwrap_or_else(|| push(items, index, id.clone(), kind));
    let item = &mut items[at];
    item.added = true;
    if item.id.is_none() {
        item.id = id.map(Text::into_owned);
    }
    at
}

/// The item an event is about: of its kind, at its place, or else of its id; the latest one when it
/// says neither. An upstream that leaves out the event that adds an item adds it so.
pub(super) fn of_event(items: &mut Vec<Item>, event: &Node<'_>, kind: Kind) -> usize {
    let index = event.u64_at("output_index");
    let id = event.text_at("item_id").or_else(|| event.get("item")?.text_at("id"));
    let is_meant = |item: &Item| match (index, item.index, &id, &item.id) {
        _ if item.kind != kind => false,
        (Some(index), Some(own), ..) => index == own,
        (_, _, Some(id), Some(own)) => id == own,
        _ => true,
    };
    match items.iter().rposition(is_meant) {
        Some(at) => at,
        None => push(items, index, id, kind),
    }
}

/// The item that the terminal response repeats at that place: the one at its place, of its id, or
/// the first of its kind; a new one when there is none.
pub(super) fn repeated(items: &mut Vec<Item>, index: u64, item: &Node<'_>) -> usize {
    let kind = Kind::of(item);
    let id = item.text_at("id");
    let find = |is_meant: &dyn Fn(&Item) -> bool| {
        items.iter().position(|own| own.kind == kind && !own.repeated && is_meant(own))
    };
    let found = find(&|own| own.index == Some(index))
        .or_else(|| find(&|own| own.id.is_some() && own.id == id))
        .or_else(|| find(&|_| true));
    let at = found.unwrap_or_else(|| push(items, Some(index), id, kind));
    items[at].repeated = true;
    at
}
