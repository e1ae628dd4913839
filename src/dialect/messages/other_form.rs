//! Asks for thinking or for a schema in another form, when the first form was refused.
//!
//! The newest models refuse budgets and older ones refuse adaptive thinking, each with a 400 that names the type.
//! Schemas are accepted only when all their objects are closed and they use few other keywords ("Structured
//! outputs"), and some models accept none: those get the schema in words. A body may then be sent once more in the
//! other form; in a client's own body only the form of thinking is changed.

use bytes::Bytes;

use crate::dialect::canonical::{Effort, Format};
use crate::dialect::edit::edit;
use crate::dialect::effort::budget_within;
use crate::dialect::json_schema::{NAMED_SCHEMAS, VALUES, is_kind, unfolded};
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::writer::Writer;
use crate::error_words::requests;

/// Schema keywords that the API does not check answers against ("JSON Schema limitations"); the model is told of them
/// in words.
const LIMITS: [&str; 11] = [
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minLength",
    "minProperties",
    "multipleOf",
    "uniqueItems",
];

/// Returns whether an upstream refused a request for the way it asks for thinking.
pub fn refuses_thinking_form(status: u16, error: &UpstreamError) -> bool {
    status == 400 && requests::is_of_thinking_form(&error.message.to_ascii_lowercase())
}

/// Returns the body with a budget instead of adaptive thinking, or the reverse; `None` when it asks for neither.
/// `asked` is the effort that the client named. It is kept if the budget in the body follows from it under the answer's
/// token limit.
pub fn in_other_thinking_form(body: &Node<'_>, asked: Option<Effort>) -> Option<Bytes> {
    let thinking = body.get("thinking")?;
    let config = body.get("output_config");
    let effort = config.and_then(|config| Effort::parse(&config.str_at("effort")));
    let max_tokens = body.u64_at("max_tokens").unwrap_or(0);
    let (budget, effort) = match thinking.str_at("type").as_ref() {
        "adaptive" => (budget_within(effort.unwrap_or(Effort::High).budget(), max_tokens), None),
        "enabled" => {
            let budget = thinking.u64_at("budget_tokens")?;
            let asked = asked.filter(|asked| budget_within(asked.budget(), max_tokens) == Some(budget));
            // All models with adaptive thinking know the efforts from low to high.
            let effort = asked.unwrap_or_else(|| Effort::of_budget(budget)).clamp(Effort::Low, Effort::High);
            (None, Some(effort))
        }
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
                // Models with a budget show their thinking; the newest models show it only on request.
                ("thinking", None, Some(_)) => o.object_at("thinking", |o| {
                    o.field("type", "adaptive");
                    o.field("display", thinking.text_at("display").unwrap_or(Text::plain("summarized")));
                }),
                // The limit leaves too few tokens for thinking.
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

/// Returns whether an upstream refused a request for the schema of the answer.
pub fn refuses_schema(status: u16, error: &UpstreamError) -> bool {
    status == 400 && requests::is_of_schema(&error.message.to_ascii_lowercase())
}

/// Returns the body with every object of its schema closed, and limits moved into descriptions; `None` when it has no
/// schema, one that is too large, or nothing changes.
pub fn with_schema_closed(body: &Node<'_>) -> Option<Bytes> {
    let config = body.get("output_config")?;
    let format = config.get("format")?;
    let mut schema = Writer::new();
    let given = unfolded(format.get("schema")?.raw(), "output_config.format").ok()?;
    if !put_closed(&mut schema, &given) {
        return None;
    }
    let format = edit(format.raw(), &[("schema", schema.as_str())], &[]);
    let config = edit(config.raw(), &[("format", &format)], &[]);
    Some(Bytes::from(edit(body.raw(), &[("output_config", &config)], &[]).into_owned()))
}

/// Writes a schema whose objects allow only the members that they name, with limits in the descriptions; returns
/// whether anything changed.
fn put_closed(json: &mut Writer, schema: &Node<'_>) -> bool {
    if schema.is_array() {
        let mut changed = false;
        json.list(|list| schema.items().iter().for_each(|item| changed |= put_closed(list, item)));
        return changed;
    }
    if !schema.is_object() {
        json.item(schema.json());
        return false;
    }
    let is_open = is_kind(schema, "object") && schema.bool_at("additionalProperties") != Some(false);
    let described = described_limits(schema);
    let mut changed = is_open || described.is_some();
    json.object(|o| {
        let stays = |key: &str| match key {
            "additionalProperties" => !is_open,
            "description" => described.is_none(),
            key => described.is_none() || !is_limit(schema, key),
        };
        for (key, value) in schema.members().iter().filter(|(key, _)| stays(key)) {
            if VALUES.contains(&key.as_ref()) {
                o.field(key, value.json());
            } else if NAMED_SCHEMAS.contains(&key.as_ref()) && value.is_object() {
                o.object_at(key, |named| {
                    for (name, schema) in value.members() {
                        named.value_at(name, |value_of| changed |= put_closed(value_of, schema));
                    }
                });
            } else {
                o.value_at(key, |value_of| changed |= put_closed(value_of, value));
            }
        }
        o.field_if("description", described.as_deref());
        if is_open {
            o.field("additionalProperties", false);
        }
    });
    changed
}

/// Returns whether a member of a schema is a limit that the API does not know; of `minItems` it knows 0 and 1.
fn is_limit(schema: &Node<'_>, key: &str) -> bool {
    LIMITS.contains(&key) || key == "minItems" && schema.u64_at(key).is_some_and(|items| items > 1)
}

/// Returns the description of a schema together with its limits; `None` when it has no limits.
fn described_limits(schema: &Node<'_>) -> Option<String> {
    let limits = schema.members().iter().filter(|(key, value)| is_limit(schema, key) && !value.is_object());
    let limits: Vec<_> = limits.map(|(key, value)| format!("{key}: {}", value.raw())).collect();
    if limits.is_empty() {
        return None;
    }
    let limits = limits.join(", ");
    Some(match schema.str_at("description").as_ref() {
        "" => limits,
        description => format!("{description} ({limits})"),
    })
}

/// Returns the body with its schema in words among the system texts; `None` when it has no schema.
pub fn with_schema_in_words(body: &Node<'_>) -> Option<Bytes> {
    let config = body.get("output_config")?;
    let sentence = Format::schema_in_words(&config.path(&["format", "schema"])?.json());
    let mut system = Writer::new();
    system.list(|list| {
        body.items_at("system").iter().for_each(|block| list.item(block.json()));
        list.object(|o| {
            o.field("type", "text");
            o.field("text", &sentence);
        });
    });
    let config = edit(config.raw(), &[], &["format"]);
    let config = Some(("output_config", config.as_ref())).filter(|(_, config)| *config != "{}");
    let removed = config.is_none().then_some("output_config");
    let set: Vec<_> = [("system", system.as_str())].into_iter().chain(config).collect();
    Some(Bytes::from(edit(body.raw(), &set, removed.as_slice()).into_owned()))
}
