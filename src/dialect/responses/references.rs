//! References to items of earlier answers (`item_reference`).
//!
//! The id of an item that we wrote leads to the answer it belongs to. Whoever keeps the answers gives the items back, and
//! the body has them in place of its references.

use bytes::Bytes;

use super::own_ids::{answer_of, is_own_id, with_input};
use crate::dialect::canonical::ConversionError;
use crate::dialect::tree::Node;

/// The body with the items of our answers that it refers to; `None` where it refers to none. References to items of an
/// upstream's stay. `find` gives an item as JSON by its id and the hex digits that name its answer; `longest` bounds
/// the items together, in bytes.
///
/// # Errors
///
/// An item that is not found, or more of them than fit.
pub fn with_items_referred_to(
    body: &Node<'_>,
    longest: usize,
    mut find: impl FnMut(&str, &str) -> Option<String>,
) -> Result<Option<Bytes>, ConversionError> {
    let items = body.items_at("input");
    let mut found = Vec::new();
    let mut length = 0;
    for (place, item) in items.iter().enumerate().filter(|(_, item)| item.str_at("type") == "item_reference")
    {
        let Some(id) = item.text_at("id").filter(is_own_id) else { continue };
        let whole = answer_of(id.literal()).and_then(|answer| find(id.literal(), answer));
        let Some(whole) = whole else {
            let problem = format!(
                "refers to an item that is not stored (any more): send the item itself in its place. Answers that \
                 were asked for with \"store\": false cannot be referred to ({})",
                id.decode()
            );
            return Err(ConversionError::invalid(format!("input[{place}].id"), &problem));
        };
        length += whole.len();
        if length > longest {
            return Err(ConversionError::invalid("input", "refers to more than a request may hold"));
        }
        found.push((place, whole));
    }
    if found.is_empty() {
        return Ok(None);
    }
    let parsed: Vec<_> =
        found.iter().filter_map(|(place, item)| Some((*place, Node::parse(item).ok()?))).collect();
    let mut next = parsed.iter().peekable();
    Ok(with_input(body, |list| {
        for (place, item) in items.iter().enumerate() {
            let whole = next.next_if(|(found, _)| *found == place);
            list.item(whole.map_or(item.json(), |(_, whole)| whole.json()));
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ANSWER: &str = "0123456789abcdef0123456789abcdef";

    fn resolved(input: Value, longest: usize) -> Result<Option<Value>, String> {
        let body = json!({"input": input, "model": "m"}).to_string();
        let find = |id: &str, answer: &str| {
            (answer == ANSWER && id.starts_with("msg_"))
                .then(|| json!({"id": id, "type": "message"}).to_string())
        };
        let done = with_items_referred_to(&Node::parse(&body).unwrap(), longest, find);
        let read = |body: Bytes| serde_json::from_slice::<Value>(&body).unwrap()["input"].clone();
        done.map(|body| body.map(read)).map_err(|error| match error {
            ConversionError::Invalid { field, .. } | ConversionError::Unsupported { field, .. } => field,
        })
    }

    #[test]
    fn references_to_our_items_become_the_items_and_others_stay() {
        let (id, said) = (format!("msg_sy{ANSWER}0"), json!({"role": "user", "content": "x"}));
        let (theirs, whole) =
            (json!({"type": "item_reference", "id": "msg_1"}), json!({"id": id, "type": "message"}));
        let ours = json!({"type": "item_reference", "id": id});
        assert_eq!(
            resolved(json!([said, ours, theirs, ours]), 1000),
            Ok(Some(json!([said, whole, theirs, whole])))
        );
        assert_eq!(resolved(json!([said, theirs, whole]), 1000), Ok(None));
        assert_eq!(resolved(json!("x"), 1000), Ok(None));
        assert_eq!(resolved(json!([ours, ours]), 100), Err("input".to_owned()));
        for gone in
            [format!("rs_sy{ANSWER}0"), format!("msg_sy{}0", ANSWER.replace('0', "9")), "msg_sy4".to_owned()]
        {
            let gone = json!({"type": "item_reference", "id": gone});
            assert_eq!(resolved(json!([said, gone]), 1000), Err("input[1].id".to_owned()));
        }
    }
}
