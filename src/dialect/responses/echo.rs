//! The members of a request that its answer repeats.

use crate::dialect::literal::compact;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The members that are copied as they were sent, without line breaks, because an event is one line.
const COPIED: [&str; 17] = [
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "store",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Returns the members that an answer repeats, as JSON. What the client left out or set to null has the dialect's
/// default in the answer ([`Head`](super::answer::Head)).
pub fn echo(body: &Node<'_>) -> Vec<(&'static str, String)> {
    let mut echo: Vec<(&'static str, String)> = Vec::new();
    for key in COPIED {
        echo.extend(body.get(key).map(|value| (key, compact(value.raw()).into_owned())));
    }
    if let Some(reasoning) = body.get("reasoning").filter(|reasoning| reasoning.is_object()) {
        // The types of the clients' SDKs require both members.
        let mut json = Writer::new();
        json.object(|o| {
            o.field("effort", reasoning.json_at("effort"));
            o.field("summary", reasoning.json_at("summary"));
        });
        echo.push(("reasoning", compact(json.as_str()).into_owned()));
    }
    if let Some(text) = body.get("text").filter(|text| text.is_object()) {
        let mut json = Writer::new();
        json.object(|o| {
            match text.get("format") {
                Some(format) => o.field("format", format.json()),
                None => o.object_at("format", |o| o.field("type", "text")),
            }
            o.field_if("verbosity", text.json_at("verbosity"));
        });
        echo.push(("text", compact(json.as_str()).into_owned()));
    }
    echo
}
