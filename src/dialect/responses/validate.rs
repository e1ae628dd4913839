//! Refuses tool outputs without a call.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::dialect::canonical::ConversionError;
use crate::dialect::tree::Node;

/// Checks that every output of a tool belongs to a call. The calls may be stored elsewhere when the body refers to an
/// item, a response or a conversation that an upstream keeps.
///
/// Meant for clients that send the whole conversation with each request, which Codex and WebSocket clients do not.
pub fn validate(body: &Node<'_>) -> Result<(), ConversionError> {
    let items = body.items_at("input");
    let kind = |item: &Node<'_>| item.str_at("type").into_owned();
    let refers_elsewhere = ["previous_response_id", "conversation"].iter().any(|key| body.get(key).is_some())
        || items.iter().any(|item| kind(item) == "item_reference");
    let ids = |item| -> Vec<Cow<'_, str>> {
        let item: &Node<'_> = item;
        ["call_id", "id"].iter().filter_map(|key| item.get(key)?.str()).collect()
    };
    let called: HashSet<Cow<'_, str>> =
        items.iter().filter(|item| kind(item).ends_with("_call")).flat_map(ids).collect();
    for (index, item) in items.iter().enumerate() {
        if !matches!(kind(item).as_str(), "function_call_output" | "custom_tool_call_output") {
            continue;
        }
        let field = format!("input[{index}].call_id");
        let call_id = item.str_at("call_id");
        if call_id.trim().is_empty() {
            return Err(ConversionError::invalid(
                field,
                "is required: it must name the call that this is the output of",
            ));
        }
        if !refers_elsewhere && !called.contains(&call_id) {
            return Err(ConversionError::invalid(field, "does not match any call in this input"));
        }
    }
    Ok(())
}
