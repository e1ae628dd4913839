//! What an item says of a call: alike in a conversation and in an answer.

use crate::dialect::literal::Text;
use crate::dialect::tree::Node;

/// Old clients know the id of the item alone.
pub(super) fn call_id<'a>(item: &Node<'a>) -> Option<Text<'a>> {
    let given = |key: &str| item.text_at(key).filter(|id| !id.is_blank());
    given("call_id").or_else(|| given("id"))
}

/// The input of a call: its text, or the text of an object that should have been one.
pub(super) fn input<'a>(item: &Node<'a>, key: &str) -> Text<'a> {
    match item.get(key) {
        Some(input) => input.text().unwrap_or_else(|| Text::of(&input.json().compact())),
        None => Text::EMPTY,
    }
}
