//! The items of a streamed answer, and the search for the one that an event is about.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Deref, DerefMut};

use crate::dialect::canonical::CallKind;
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;

/// An item of the output, as far as it has been read.
#[derive(Debug)]
pub(super) struct Item {
    pub kind: ItemKind,
    /// The item's place in the output, when the upstream tells it.
    pub index: Option<u64>,
    /// The item's id, when the upstream tells it.
    pub id: Option<Text<'static>>,
    pub done: bool,
    /// Whether the event that adds it has come.
    pub added: bool,
    /// Whether it has been found again in the terminal response.
    pub repeated: bool,
    /// The key of the open part.
    pub key: Option<u32>,
    /// The index of the part that is open, or was last.
    pub at: u64,
    /// The parts for which a delta has been read.
    pub seen: BTreeSet<u64>,
    /// The number of annotations that have been read of each part.
    pub citations_seen: BTreeMap<u64, usize>,
    /// The parts whose log probabilities have been read.
    pub with_logprobs: BTreeSet<u64>,
    /// The thinking that is read: whichever came first.
    pub thinking: Option<ThinkingKind>,
    /// The input of a call whose name is not known yet.
    pub held: Text<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call(CallKind),
    Search,
    /// Another tool that ran at the upstream.
    Other,
}

/// The forms in which reasoning comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingKind {
    Raw,
    Summary,
}

impl ItemKind {
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
    fn new(index: Option<u64>, id: Option<Text<'static>>, kind: ItemKind) -> Self {
        Self {
            kind,
            index,
            id,
            done: false,
            added: false,
            repeated: false,
            key: None,
            at: 0,
            seen: BTreeSet::new(),
            citations_seen: BTreeMap::new(),
            with_logprobs: BTreeSet::new(),
            thinking: None,
            held: Text::EMPTY,
        }
    }

    /// Notes that a delta of the part has been read.
    pub(super) fn note_delta(&mut self, part: u64) {
        self.at = part;
        self.seen.insert(part);
    }
}

/// The items seen so far, with indexes so that finding one takes the same few steps however many there are.
#[derive(Debug, Default)]
pub(super) struct Items {
    all: Vec<Item>,
    /// The last item of each kind at each place of the output.
    by_index: HashMap<(ItemKind, u64), usize>,
    /// The last item of each kind with each id.
    by_id: HashMap<(ItemKind, Text<'static>), usize>,
    by_kind: HashMap<ItemKind, OfKind>,
}

/// Positions of items of one kind: the last one, the last without a place (`unplaced`), without an id (`unnamed`) and
/// without either (`bare`), as they were when they were added.
#[derive(Debug, Default)]
struct OfKind {
    last: Option<usize>,
    unplaced: Option<usize>,
    unnamed: Option<usize>,
    bare: Option<usize>,
    /// The position before which no item is still waiting to be found again in the terminal response.
    repeated_to: usize,
}

impl Deref for Items {
    type Target = [Item];

    fn deref(&self) -> &[Item] {
        &self.all
    }
}

impl DerefMut for Items {
    fn deref_mut(&mut self) -> &mut [Item] {
        &mut self.all
    }
}

impl Items {
    fn push(&mut self, index: Option<u64>, id: Option<Text<'_>>, kind: ItemKind) -> usize {
        let (at, id) = (self.all.len(), id.map(Text::into_owned));
        let of_kind = self.by_kind.entry(kind).or_default();
        of_kind.last = Some(at);
        if index.is_none() {
            of_kind.unplaced = Some(at);
        }
        if id.is_none() {
            of_kind.unnamed = Some(at);
        }
        if index.is_none() && id.is_none() {
            of_kind.bare = Some(at);
        }
        if let Some(index) = index {
            self.by_index.insert((kind, index), at);
        }
        if let Some(id) = id.clone() {
            self.by_id.insert((kind, id), at);
        }
        self.all.push(Item::new(index, id, kind));
        at
    }

    fn at_index(&self, kind: ItemKind, index: Option<u64>) -> Option<usize> {
        self.by_index.get(&(kind, index?)).copied()
    }

    fn of_id(&self, kind: ItemKind, id: Option<&Text<'_>>) -> Option<usize> {
        self.by_id.get(&(kind, id?.clone().into_owned())).copied()
    }

    /// Finds the latest item that an event may mean that gives a place, an id, both or neither.
    fn meant(&self, index: Option<u64>, id: Option<&Text<'_>>, kind: ItemKind) -> Option<usize> {
        let of_kind = self.by_kind.get(&kind)?;
        // An item may have received its id later.
        let unnamed = |at: &usize| self.all[*at].id.is_none();
        match (index, id) {
            (Some(_), Some(_)) => {
                let of_id = self.of_id(kind, id).filter(|at| self.all[*at].index.is_none());
                self.at_index(kind, index).max(of_id).max(of_kind.bare.filter(unnamed))
            }
            (Some(_), None) => self.at_index(kind, index).max(of_kind.unplaced),
            (None, Some(_)) => self.of_id(kind, id).max(of_kind.unnamed.filter(unnamed)),
            (None, None) => of_kind.last,
        }
    }

    /// Finds the first item of the kind that has not been found again in the terminal response.
    fn first_unrepeated(&mut self, kind: ItemKind) -> Option<usize> {
        let of_kind = self.by_kind.get_mut(&kind)?;
        let waits = |item: &Item| item.kind == kind && !item.repeated;
        let found = self.all[of_kind.repeated_to..].iter().position(waits);
        of_kind.repeated_to = found.map_or(self.all.len(), |after| of_kind.repeated_to + after);
        found.map(|_| of_kind.repeated_to)
    }
}

/// Returns the position of the item that an event adds. An item that is known already, from a delta or from an
/// earlier event of the same kind, is not added again.
pub(super) fn added(items: &mut Items, index: Option<u64>, id: Option<Text<'_>>, kind: ItemKind) -> usize {
    let is_meant = |at: &usize| {
        let item = &items[*at];
        let is_same = item.id.is_some() && item.id == id;
        let may_be = !item.added && !item.done && (item.id.is_none() || id.is_none());
        item.index == index && (is_same || (index.is_some() && may_be))
    };
    let placed = items.at_index(kind, index).filter(is_meant);
    let found = placed.or_else(|| items.of_id(kind, id.as_ref()).filter(is_meant));
    let at = found.unwrap_or_else(|| items.push(index, id.clone(), kind));
    items[at].added = true;
    if let Some(id) = id.filter(|_| items[at].id.is_none()) {
        let id = id.into_owned();
        let last = items.by_id.entry((kind, id.clone())).or_default();
        *last = at.max(*last);
        items[at].id = Some(id);
    }
    at
}

/// Returns the position of the item that an event is about: of its kind, by its place or else its id, and the latest
/// one when the event gives neither. If there is none, the upstream left out the event that adds it, so it is added
/// here.
pub(super) fn of_event(items: &mut Items, event: &Node<'_>, kind: ItemKind) -> usize {
    let index = event.u64_at("output_index");
    let id = event.text_at("item_id").or_else(|| event.get("item")?.text_at("id"));
    items.meant(index, id.as_ref(), kind).unwrap_or_else(|| items.push(index, id, kind))
}

/// Returns the position of the item that the terminal response repeats. It is found by its place, else by its id, else as
/// the first of its kind; otherwise it is added.
pub(super) fn repeated(items: &mut Items, index: u64, item: &Node<'_>) -> usize {
    let kind = ItemKind::of(item);
    let id = item.text_at("id");
    let waits = |at: &usize| !items[*at].repeated;
    let placed = items.at_index(kind, Some(index)).filter(waits);
    let found = placed.or_else(|| items.of_id(kind, id.as_ref()).filter(waits));
    let at =
        found.or_else(|| items.first_unrepeated(kind)).unwrap_or_else(|| items.push(Some(index), id, kind));
    items[at].repeated = true;
    at
}
