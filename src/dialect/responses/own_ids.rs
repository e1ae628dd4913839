//! The ids of items in answers that we wrote.

use crate::dialect::literal::Text;

/// The prefixes of item ids that we made. The name of the answer follows, then the item's place in its output; ids of
/// older answers have the place alone.
const PREFIXES: [&str; 4] = ["msg_sy", "rs_sy", "fc_sy", "ws_sy"];

/// The number of hex digits that name an answer.
const ANSWER_DIGITS: usize = 32;

/// Returns whether an item's id is one of ours.
pub(super) fn is_own_id(id: &Text<'_>) -> bool {
    is_own_item_id(id.literal())
}

/// Returns whether an item's id, decoded, is one of ours.
pub(super) fn is_own_item_id(id: &str) -> bool {
    let number = PREFIXES.iter().find_map(|prefix| id.strip_prefix(prefix));
    is_place(number) || answer_of(id).is_some()
}

/// Returns the hex digits in an item's id that name its answer; `None` for any other id.
pub fn answer_of(item_id: &str) -> Option<&str> {
    let rest = PREFIXES.iter().find_map(|prefix| item_id.strip_prefix(prefix))?;
    let (answer, place) = rest.split_at_checked(ANSWER_DIGITS)?;
    let is_hex = answer.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && is_place(Some(place))).then_some(answer)
}

fn is_place(number: Option<&str>) -> bool {
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
