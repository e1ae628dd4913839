//! References to items of earlier answers (`item_reference`), and reasoning that is sent back by its id alone.
//!
//! An item id of ours names the answer that the item belongs to; items with ids of an upstream that stores nothing
//! are looked up by id among the answers kept here. [`items_referred_to`] finds the items first, so that the length
//! of the new body is known; then [`with_items`] puts them in place of the references.

use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;

use super::native::with_input;
use super::own_ids::{answer_of, is_own_id, is_own_item_id};
use crate::dialect::canonical::ConversionError;
use crate::dialect::json::{self, Member};
use crate::dialect::tree::Node;

/// The member that names the response from which a request goes on.
pub const PREVIOUS: &str = "previous_response_id";

/// Returns whether the input refers to items by their ids.
pub fn refers_to_items(body: &Node<'_>) -> bool {
    body.items_at("input").iter().any(is_reference)
}

/// Whether an item refers to another. OpenAI takes one without its type, too.
fn is_reference(item: &Node<'_>) -> bool {
    let is_id_alone = || item.members().len() == 1 && item.text_at("id").is_some_and(|id| is_own_id(&id));
    item.str_at("type") == "item_reference" || is_id_alone()
}

/// Whether an item is reasoning of an answer of ours without its content. OpenAI finds such reasoning by its id, too.
fn is_bare_reasoning(item: &Node<'_>) -> bool {
    item.str_at("type") == "reasoning"
        && item.text_at("encrypted_content").is_none_or(|content| content.is_empty())
        && item.text_at("id").is_some_and(|id| is_own_id(&id))
}

/// An item as JSON, and its place in the input.
pub type ItemReferredTo = (usize, Arc<str>);

/// Finds the items of answers stored here that a body refers to. A reference with an upstream's id that is not found stays,
/// because the upstream may have the item; so does reasoning that is not found. `find` returns an item as JSON by its id
/// and, where the id is one of ours, the hex digits that name its answer. `longest` limits the length of all items
/// together, in bytes.
///
/// # Errors
///
/// When an item with an id of ours is not found, or the items are longer than `longest`.
pub fn items_referred_to(
    body: &Node<'_>,
    longest: usize,
    mut find: impl FnMut(&str, Option<&str>) -> Option<Arc<str>>,
) -> Result<Vec<ItemReferredTo>, ConversionError> {
    let items = body.items_at("input");
    let mut found = Vec::new();
    let mut length = 0;
    let may_be_found = |item: &Node<'_>| is_reference(item) || is_bare_reasoning(item);
    for (place, item) in items.iter().enumerate().filter(|(_, item)| may_be_found(item)) {
        let Some(id) = item.text_at("id") else { continue };
        let is_own = is_own_id(&id);
        let answer = answer_of(id.literal());
        let whole = (answer.is_some() || !is_own).then(|| find(&id.decode(), answer)).flatten();
        let Some(whole) = whole else {
            if !is_own || !is_reference(item) {
                continue;
            }
            let problem = format!(
                "refers to an item that is not stored (any more): send the item itself instead. Items of \
                 answers requested with \"store\": false cannot be referred to ({})",
                id.decode()
            );
            return Err(ConversionError::invalid(format!("input[{place}].id"), &problem));
        };
        length += whole.len();
        if length > longest {
            return Err(ConversionError::invalid(
                "input",
                "refers to items that together are longer than a request may be",
            ));
        }
        found.push((place, whole));
    }
    Ok(found)
}

/// Returns the body with the found items in place of the references to them.
pub fn with_items(body: &Node<'_>, found: &[ItemReferredTo]) -> Option<Bytes> {
    let mut next = found.iter().peekable();
    with_input(body, |list| {
        for (place, item) in body.items_at("input").iter().enumerate() {
            match next.next_if(|(found, _)| *found == place).and_then(|(_, whole)| Node::parse(whole).ok()) {
                Some(whole) => list.item(whole.json()),
                None => list.item(item.json()),
            }
        }
    })
}

/// An item without its content, which an upstream finds by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareItem {
    pub id: String,
    /// Whether the upstream cannot do without the item: a reference, or a picture to go on with. It can do without reasoning
    /// and searches that lack their content; conversations that are sent back as they came have such items.
    pub is_needed: bool,
}

/// Returns the items that an upstream would have to find by their ids, except those with ids of ours. Where a member is
/// given twice, both values count: an upstream may read either.
pub fn bare_items(body: &str) -> Vec<BareItem> {
    let mut found = Vec::new();
    // A body that is no object has no members.
    let _ = json::walk(body, |scan, key, depth| {
        if !key.name().eq_ignore_ascii_case("input") || scan.peek() != Some(b'[') {
            return scan.value(depth);
        }
        scan.array(depth + 1, |scan, depth| {
            bare_item(scan.literal(depth)?, &mut found);
            Ok(())
        })
    });
    found
}

/// Whether a body may have items with ids: most have none, and need not be read for them.
pub fn may_have_item_ids(body: &[u8]) -> bool {
    // The letters of the name may be escaped, as \u0069 and \u0064.
    [&b"\"id\""[..], b"\\u006"].iter().any(|name| memmem::find(body, name).is_some())
}

fn bare_item(item: &str, found: &mut Vec<BareItem>) {
    let (mut ids, mut kinds) = (Vec::new(), Vec::new());
    let (mut has_content, mut has_reasoning) = (false, false);
    json::members_before_cut(item, |Member { key, value, .. }| match key.as_ref() {
        "id" => ids.extend(json::string(value)),
        "type" => kinds.extend(json::string(value)),
        "status" => {}
        "encrypted_content" if !matches!(value, "null" | "\"\"") => {
            (has_content, has_reasoning) = (true, true)
        }
        _ => has_content = true,
    });
    let is_of = |kind: &str| kinds.iter().any(|named| named == kind);
    let is_bare = !has_content || is_of("item_reference") || is_of("reasoning") && !has_reasoning;
    if is_bare {
        let is_needed =
            kinds.is_empty() || ["item_reference", "message", "image_generation_call"].into_iter().any(is_of);
        let ids = ids.into_iter().filter(|id| !is_own_item_id(id));
        found.extend(ids.map(|id| BareItem { id, is_needed }));
    }
}

/// Returns the ids of the items in an answer's output, also from the beginning of one.
pub fn item_ids(answer: &str) -> Vec<String> {
    let mut ids = Vec::new();
    // What is cut off is no JSON, and is read up to the cut.
    let _ = json::walk(answer, |scan, key, depth| {
        if key.name() != "output" || scan.peek() != Some(b'[') {
            return scan.value(depth);
        }
        scan.array(depth + 1, |scan, depth| {
            if scan.peek() != Some(b'{') {
                return scan.value(depth);
            }
            scan.object(depth + 1, |scan, key, depth| {
                let value = scan.literal(depth)?;
                if key.name() == "id" {
                    ids.extend(json::string(value));
                }
                Ok(())
            })
        })
    });
    ids
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ANSWER: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn items_without_their_content_are_found_and_those_that_an_upstream_needs_told_apart() {
        for (item, found) in [
            (r#"{"type":"item_reference","id":"a"}"#, &[("a", true)][..]),
            (r#"{"\u0069d":"a"}"#, &[("a", true)]),
            (r#"{"id":"a","id":"b","type":"message","status":"completed"}"#, &[("a", true), ("b", true)]),
            (r#"{"type":"image_generation_call","id":"a"}"#, &[("a", true)]),
            (r#"{"type":"message","type":"item_reference","id":"a","content":"x"}"#, &[("a", true)]),
            (r#"{"type":"reasoning","id":"a","summary":[],"encrypted_content":null}"#, &[("a", false)]),
            (r#"{"type":"web_search_call","id":"a","status":"completed"}"#, &[("a", false)]),
            (r#"{"type":"reasoning","id":"a","summary":[],"encrypted_content":"gAAA"}"#, &[]),
            (r#"{"type":"message","id":"a","role":"user","content":"x"}"#, &[]),
            (r#"{"type":"item_reference","id":"msg_sy0123456789abcdef0123456789abcdef0"}"#, &[]),
            (r#"{"role":"user","content":"x"}"#, &[]),
        ] {
            let body = format!(r#"{{"model":"m","tools":[{{"id":"t"}}],"Input":[{item}]}}"#);
            let bare = bare_items(&body);
            let bare: Vec<_> = bare.iter().map(|item| (item.id.as_str(), item.is_needed)).collect();
            assert_eq!(bare, found, "{item}");
            assert!(bare.is_empty() || may_have_item_ids(body.as_bytes()), "{item}");
        }
    }

    #[test]
    fn the_ids_of_an_output_are_read_up_to_where_it_is_cut_off() {
        let whole = r#"{"id":"resp_1","output":[{"type":"message","id":"a","content":[{"id":"no"}]},{"id":"b"}],"x":1}"#;
        assert_eq!(item_ids(whole), ["a", "b"]);
        let cut = &whole[..whole.find("\"no").expect("there")];
        assert_eq!(item_ids(cut), ["a"]);
        assert!(item_ids("event: response.created").is_empty() && item_ids("[]").is_empty());
    }

    fn resolved(input: Value, longest: usize) -> Result<Option<Value>, String> {
        let body = json!({"input": input, "model": "m"}).to_string();
        let find = |id: &str, answer: Option<&str>| {
            let is_stored = match answer {
                Some(answer) => answer == ANSWER && id.starts_with("msg_"),
                None => id == "msg_of_an_upstream",
            };
            is_stored.then(|| json!({"id": id, "type": "message"}).to_string().into())
        };
        let body = Node::parse(&body).unwrap();
        let found = items_referred_to(&body, longest, find).map_err(|error| match error {
            ConversionError::Invalid { field, .. } | ConversionError::Unsupported { field, .. } => field,
        })?;
        let read = |body: Bytes| serde_json::from_slice::<Value>(&body).unwrap()["input"].clone();
        Ok((!found.is_empty()).then(|| with_items(&body, &found).map(read).unwrap()))
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
        let stored = |kind: &str| json!({"type": kind, "id": "msg_of_an_upstream"});
        let [referred, message] = ["item_reference", "message"].map(stored);
        assert_eq!(resolved(json!([theirs, referred]), 1000), Ok(Some(json!([theirs, message]))));
        assert_eq!(resolved(json!("x"), 1000), Ok(None));
        assert_eq!(resolved(json!([said, {"id": id}]), 1000), Ok(Some(json!([said, whole]))));
        assert_eq!(resolved(json!([ours, ours]), 100), Err("input".to_owned()));
        for gone in
            [format!("rs_sy{ANSWER}0"), format!("msg_sy{}0", ANSWER.replace('0', "9")), "msg_sy4".to_owned()]
        {
            let gone = json!({"type": "item_reference", "id": gone});
            assert_eq!(resolved(json!([said, gone]), 1000), Err("input[1].id".to_owned()));
        }
    }
}
