//! The other form of asking for thinking, for a model whose name was misleading (proxy-conversion.md 2.3).
//!
//! The newest models refuse budgets and older ones refuse adaptive thinking, each with a 400 that
//! names the type. A body that we wrote may then be sent once more in the other form.

use bytes::Bytes;

use crate::dialect::canonical::Effort;
use crate::dialect::effort::budget_within;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::writer::Writer;

/// Whether an upstream refused a request for the way it asks for thinking.
pub fn refuses_thinking_form(status: u16, error: &UpstreamError) -> bool {
    let said = error.message.to_ascii_lowercase();
    let names_form = ["adaptive", "enabled", "budget_tokens", "thinking.type", "effort"];
    status == 400
        && (said.contains("thinking") || said.contains("output_config"))
        && names_form.iter().any(|word| said.contains(word))
        // These are about other things: a budget too large, a block that is missing.
        && !["max_tokens", "must start with", "signature", "tool_choice"].iter().any(|word| said.contains(word))
}

/// The body with a budget instead of adaptive thinking, or the reverse; `None` when it asks for neither.
pub fn in_other_thinking_form(body: &Node<'_>) -> Option<Bytes> {
    let thinking = body.get("thinking")?;
    let config = body.get("output_config");
    let effort = config.and_then(|config| Effort::parse(&config.str_at("effort")));
    let (budget, effort) = match thinking.str_at("type").as_ref() {
        "adaptive" => {
            let wanted = effort.unwrap_or(Effort::High).budget();
            (budget_within(wanted, body.u64_at("max_tokens").unwrap_or(0)), None)
        }
        // All that think adaptively know efforts up to high.
        "enabled" => (None, Some(Effort::of_budget(thinking.u64_at("budget_tokens")?).min(Effort::High))),
        _ => return None,
    };
    let mut json = Writer::with_capacity(body.raw().len() + 64);
    json.object(|o| {
        for (key, value) in body.members() {
            match (key.as_ref(), budget, effort) {
                ("output_config", ..) => {}
                ("thinking", Some(budget), _) => o.object_at("thinking", |o| {
                    o.field("type", "enabled");
                    o.field("budget_tokens", budget);
                }),
                ("thinking", None, Some(_)) => o.object_at("thinking", |o| o.field("type", "adaptive")),
                // Too few tokens to think with.
                ("thinking", None, None) => {}
                _ => o.field(key, value.json()),
            }
        }
        let others = || config.iter().flat_map(|config| config.members()).filter(|(key, _)| key != "effort");
        if effort.is_some() || others().next().is_some() {
            o.object_at("output_config", |o| {
                o.field_if("effort", effort.map(Effort::word));
                others().for_each(|(key, value)| o.field(key, value.json()));
            });
        }
    });
    Some(json.into_bytes())
}
