//! The input items of a request, as they are listed for the answer that it got.

use std::borrow::Cow;

use crate::dialect::edit::edit;
use crate::dialect::literal::Json;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// An input item, and the id that it is listed under.
pub struct InputItem<'a> {
    pub id: Cow<'a, str>,
    pub json: Json<'a>,
}

/// Returns the input items of the request, each with an id; a text becomes a message of the user.
pub fn input_items<'n>(request: &'n Node<'_>, response_id: &str) -> Vec<InputItem<'n>> {
    let name = response_id.strip_prefix("resp_").unwrap_or(response_id);
    let Some(input) = request.get("input") else { return Vec::new() };
    if let Some(text) = input.text() {
        let id = format!("input_{name}_0");
        let mut message = Writer::new();
        message.object(|o| {
            o.field("type", "message");
            o.field("role", "user");
            o.array("content", |a| {
                a.object(|o| {
                    o.field("type", "input_text");
                    o.field("text", text);
                });
            });
            o.field("id", &id);
        });
        return vec![InputItem { id: id.into(), json: Json::checked(message.as_str()).into_owned() }];
    }
    let with_id = |(place, item): (usize, &'n Node<'_>)| match item.get("id").and_then(Node::str) {
        Some(id) => InputItem { id, json: item.json() },
        None => {
            let id = format!("input_{name}_{place}");
            let quoted = format!("\"{id}\"");
            let json = if item.is_object() {
                Json::checked(&edit(item.raw(), &[("id", &quoted)], &[])).into_owned()
            } else {
                item.json()
            };
            InputItem { id: id.into(), json }
        }
    };
    input.items().iter().enumerate().map(with_id).collect()
}
