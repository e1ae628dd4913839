//! Removes from a request what our converted answers left in its conversation, before an upstream of this dialect
//! sees it.
//!
//! A converted answer has items with ids of our own: the upstream would look them up. It has reasoning with the signature of
//! another provider: the upstream would refuse it. And it has searches that the upstream did not run. Reasoning that came from
//! this provider, through a client of another dialect, becomes native again.

use bytes::Bytes;

use super::is_own_id;
use super::reasoning;
use crate::dialect::signature;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Returns the body without our ids and without the reasoning of other providers; `None` when there is neither. Every
/// other byte stays as it was written.
pub fn without_own_ids(body: &Node<'_>) -> Option<Bytes> {
    let input = body.get("input")?;
    let items = input.items();
    if !items.iter().any(|item| has_own_id(item) || is_foreign(item)) {
        return None;
    }
    with_input(body, |list| {
        for item in items {
            if is_foreign(item) {
                reasoning::read(item).iter().for_each(|it| reasoning::put_for_upstream(list, it));
                continue;
            }
            if !has_own_id(item) {
                list.item(item.json());
                continue;
            }
            list.object(|o| {
                let kept = item.members().iter().filter(|(key, _)| key != "id");
                kept.for_each(|(key, value)| o.field(key, value.json()));
            });
        }
    })
}

/// Returns the body without reasoning, for an upstream that cannot decrypt it because another account encrypted it.
/// `None` when there is none.
pub fn without_reasoning(body: &Node<'_>) -> Option<Bytes> {
    let is_reasoning = |item: &&Node<'_>| item.str_at("type") == "reasoning";
    let items = body.items_at("input");
    items.iter().find(is_reasoning)?;
    with_input(body, |list| {
        items.iter().filter(|item| !is_reasoning(item)).for_each(|item| list.item(item.json()));
    })
}

/// Returns the body with other items in `input`; every byte around them stays.
pub(super) fn with_input(body: &Node<'_>, items: impl FnOnce(&mut Writer)) -> Option<Bytes> {
    let input = body.get("input")?;
    let mut list = Writer::with_capacity(input.raw().len());
    list.list(items);
    let place = input.place_in(body.raw())?;
    Some(Bytes::from([&body.raw()[..place.start], list.as_str(), &body.raw()[place.end..]].concat()))
}

fn has_own_id(item: &Node<'_>) -> bool {
    // A reference consists of nothing but its id.
    item.text_at("id").is_some_and(|id| is_own_id(&id)) && item.str_at("type") != "item_reference"
}

/// Whether no upstream can read the item as it is.
fn is_foreign(item: &Node<'_>) -> bool {
    match item.str_at("type").as_ref() {
        // Reasoning that we wrote without a signature means nothing to an upstream.
        "reasoning" => match item.text_at("encrypted_content").filter(|proof| !proof.is_empty()) {
            Some(proof) => signature::untag(&proof).is_some(),
            None => has_own_id(item),
        },
        // A search is useless without its id: its results are stored at its provider.
        "web_search_call" => has_own_id(item),
        _ => false,
    }
}
