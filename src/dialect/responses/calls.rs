//! Reads what an item says of a call, in a conversation as in an answer.

use crate::dialect::literal::Text;
use crate::dialect::tree::Node;

/// Returns the id of a call: `call_id`, or the item's `id`, which is the only one that old clients send.
pub(super) fn call_id<'a>(item: &Node<'a>) -> Option<Text<'a>> {
    let given = |key: &str| item.text_at(key).filter(|id| !id.is_blank());
    given("call_id").or_else(|| given("id"))
}

/// Returns the input of a call: its text, or the JSON text of a value that should have been a string.
pub(super) fn input<'a>(item: &Node<'a>, key: &str) -> Text<'a> {
    match item.get(key) {
        Some(input) => input.text().unwrap_or_else(|| Text::of(&input.json().compact())),
        None => Text::EMPTY,
    }
}
