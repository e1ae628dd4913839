//! Adapts bodies that go from a client of this dialect to an upstream of this dialect without conversion.
//!
//! Some clients use OpenAI's members for the amount of thinking. Google refuses members that it does not know, and
//! has its own for that. Its newest models require the signatures that their calls came with; calls of another
//! provider had none, and get a placeholder once that is refused. Every other byte is kept.

use bytes::Bytes;

use super::request_write::{thinks, write_thinking};
use super::{member, request_read::openai_reasoning};
use crate::dialect::canonical::{Effort, Reasoning};
use crate::dialect::edit::edit;
use crate::dialect::effort::{GeminiThinking, OPENAI_WORDS, gemini_thinking};
use crate::dialect::literal::Json;
use crate::dialect::signature::{NO_GEMINI_SIGNATURE, untag_bytes};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;
use crate::subslice::place_in;

/// The key of the object with the thinking options, in lower case and without underscores.
const CONFIG: &str = "generationconfig";
/// The key of a request whose tokens are to be counted, in lower case and without underscores.
const REQUEST: &str = "generatecontentrequest";
/// The key of a signature, in lower case and without underscores.
const SIGNATURE: &str = "thoughtsignature";

/// Returns the body with Google's members for the thinking of `model` in place of OpenAI's; `None` when it has none
/// of OpenAI's.
pub fn with_own_thinking(body: &Node<'_>, model: &str) -> Option<String> {
    OPENAI_WORDS.iter().find(|word| body.member(word).is_some())?;
    let wanted = openai_reasoning(body);
    let config = body.members().iter().find(|(key, _)| key.replace('_', "").eq_ignore_ascii_case(CONFIG));
    let says_itself = config.is_some_and(|(_, config)| member::get(config, "thinkingConfig").is_some());
    let thinking = wanted.filter(|_| !says_itself).and_then(|wanted| thinking_of(&wanted, model));
    let Some(thinking) = thinking else {
        return Some(edit(body.raw(), &[], &OPENAI_WORDS).into_owned());
    };
    let mut json = Writer::new();
    json.object(|o| {
        let given = config.map_or(&[][..], |(_, config)| config.members());
        given.iter().for_each(|(key, value)| o.field(key, value.json()));
        write_thinking(o, Some(thinking.0), thinking.1);
    });
    let key = config.map_or("generationConfig", |(key, _)| key.as_ref());
    Some(edit(body.raw(), &[(key, json.as_str())], &OPENAI_WORDS).into_owned())
}

/// The members in which a request stands, or several do, in lower case and without underscores.
const REQUESTS: [&str; 5] = [REQUEST, "requests", "request", "batch", "inputconfig"];
/// The deepest such member: `batch.inputConfig.requests.requests[].request`.
const MAX_LEVEL: usize = 6;

/// Returns the body with `model` wherever a request names the model `asked`, with or without `models/`; `None` where
/// none does.
pub fn with_model(body: &Node<'_>, asked: &str, model: &str) -> Option<String> {
    let mut named = Vec::new();
    find_named(body, asked, 0, &mut named);
    let mut out = String::with_capacity(body.raw().len() + 64);
    let mut copied = 0;
    for name in &named {
        // Names are found in the order in which they stand.
        let place = place_in(*name, body.raw())?;
        out.push_str(&body.raw()[copied..place.start]);
        let is_resource = name.starts_with("\"models/") && !model.starts_with("tunedModels/");
        let written = if is_resource { format!("models/{model}") } else { model.to_owned() };
        out.push_str(&serde_json::Value::from(written).to_string());
        copied = place.end;
    }
    out.push_str(&body.raw()[copied..]);
    (!named.is_empty()).then_some(out)
}

fn find_named<'a>(node: &Node<'a>, asked: &str, level: usize, named: &mut Vec<&'a str>) {
    if level > MAX_LEVEL {
        return;
    }
    node.items().iter().for_each(|item| find_named(item, asked, level + 1, named));
    for (key, value) in node.members() {
        let names_it = |name: &str| name.strip_prefix("models/").unwrap_or(name) == asked;
        if key == "model" && value.str().is_some_and(|name| names_it(&name)) {
            named.push(value.raw());
        } else if REQUESTS.contains(&key.replace('_', "").to_lowercase().as_str()) {
            find_named(value, asked, level + 1, named);
        }
    }
}

/// Returns the body with a placeholder for each missing signature of a call; `None` when none is missing. The
/// signature of the first call of a turn stands for all its calls.
pub fn with_placeholders(body: &Node<'_>) -> Option<String> {
    let contents = member::get(body, "contents")?;
    let mut json = Writer::with_capacity(contents.raw().len() + 128);
    let mut changed = false;
    json.list(|list| {
        for content in contents.items() {
            let parts = content.items_at("parts");
            let first = parts.iter().position(|part| member::get(part, "functionCall").is_some());
            let unsigned = first.filter(|at| member::get(&parts[*at], "thoughtSignature").is_none());
            let Some(unsigned) = unsigned else {
                list.item(content.json());
                continue;
            };
            changed = true;
            let parts = |list: &mut Writer| {
                for (at, part) in parts.iter().enumerate() {
                    if at == unsigned {
                        list.object(|o| {
                            part.members().iter().for_each(|(key, value)| o.field(key, value.json()));
                            o.field("thoughtSignature", NO_GEMINI_SIGNATURE);
                        })
                    } else {
                        list.item(part.json())
                    }
                }
            };
            list.object(|o| {
                for (key, value) in content.members() {
                    match key.as_ref() {
                        "parts" => o.array("parts", parts),
                        _ => o.field(key, value.json()),
                    }
                }
            });
        }
    });
    changed.then(|| edit(body.raw(), &[("contents", json.as_str())], &[]).into_owned())
}

/// Returns the body without the thoughts of other providers' models, which we gave to the client in place of
/// signatures; `None` when there are none. Google refuses what it did not sign.
pub fn without_foreign_thinking(body: &Node<'_>) -> Option<Bytes> {
    // A request to count tokens may contain a whole request.
    let request = body.members().iter().find(|(key, _)| key.replace('_', "").eq_ignore_ascii_case(REQUEST));
    if let Some((key, request)) = request {
        let cleaned = without_foreign_thinking(request)?;
        let cleaned = String::from_utf8_lossy(&cleaned);
        return Some(Bytes::from(edit(body.raw(), &[(key.as_ref(), &cleaned)], &[]).into_owned()));
    }
    let contents = member::get(body, "contents")?;
    let is_foreign = |part: &Node<'_>| {
        let proof = member::get(part, "thoughtSignature").and_then(Node::text);
        proof.is_some_and(|proof| untag_bytes(&proof).is_some())
    };
    let has_foreign = |content: &&Node<'_>| content.items_at("parts").iter().any(is_foreign);
    contents.items().iter().find(has_foreign)?;
    let mut json = Writer::with_capacity(contents.raw().len());
    let put_part = |list: &mut Writer, part: &Node<'_>| {
        let rest =
            || part.members().iter().filter(|(key, _)| !key.replace('_', "").eq_ignore_ascii_case(SIGNATURE));
        let says_nothing =
            rest().all(|(key, value)| key == "text" && value.str().is_some_and(|text| text.is_empty()));
        match is_foreign(part) {
            false => list.item(part.json()),
            true if says_nothing => {}
            true => list.object(|o| rest().for_each(|(key, value)| o.field(key, value.json()))),
        }
    };
    json.list(|list| {
        for content in contents.items() {
            if !has_foreign(&content) {
                list.item(content.json());
                continue;
            }
            let mut parts = Writer::new();
            parts.list(|list| content.items_at("parts").iter().for_each(|part| put_part(list, part)));
            list.item(Json::checked(&edit(content.raw(), &[("parts", parts.as_str())], &[])));
        }
    });
    Some(Bytes::from(edit(body.raw(), &[("contents", json.as_str())], &[]).into_owned()))
}

/// Returns the thinking to ask of the model, and whether that is to switch it off.
fn thinking_of(wanted: &Reasoning<'_>, model: &str) -> Option<(GeminiThinking, bool)> {
    let model = model.to_ascii_lowercase();
    let thinking = gemini_thinking(wanted, &model).filter(|_| thinks(&model))?;
    Some((thinking, wanted.wanted_effort() == Some(Effort::None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_nobody_signed_get_a_placeholder() {
        let body = |call: &str| {
            format!(
                r#"{{"contents":[{{"parts":[{{"text":"a"}},{{"functionCall":{{"name":"f"}}{call}}},{{"functionCall":{{"name":"g"}}}}],"role":"model"}},{{"parts":[]}}],"safetySettings":[]}}"#
            )
        };
        let signed = body(r#","thoughtSignature":"skip_thought_signature_validator""#);
        let placed = |body: &str| with_placeholders(&Node::parse(body).unwrap());
        assert_eq!(placed(&body("")), Some(signed.clone()));
        for body in [signed, body(r#","thought_signature":"c2ln""#), "{}".to_owned()] {
            assert_eq!(placed(&body), None, "{body}");
        }
    }

    #[test]
    fn thoughts_of_other_providers_stay_here() {
        use crate::dialect::literal::Text;
        use crate::dialect::signature::{Signature, tag_in_bytes};
        let tag = tag_in_bytes(&[(Text::of("t"), Signature::Anthropic(Text::of("S")))]).unwrap();
        let tag = tag.literal();
        let body = format!(
            r#"{{"contents":[{{"role":"user","parts":[{{"text":"x"}}]}},{{"role":"model","parts":[{{"functionCall":{{"name":"f"}},"thoughtSignature":"{tag}"}},{{"text":"","thoughtSignature":"{tag}"}},{{"text":"a","thoughtSignature":"Cq=="}}]}}],"z":1.0}}"#
        );
        let wanted = r#"{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}},{"text":"a","thoughtSignature":"Cq=="}]}],"z":1.0}"#;
        let cleaned = without_foreign_thinking(&Node::parse(&body).unwrap());
        assert_eq!(cleaned.as_deref(), Some(wanted.as_bytes()));
        assert_eq!(without_foreign_thinking(&Node::parse(wanted).unwrap()), None);
    }

    #[test]
    fn openais_words_become_googles() {
        for (body, model, wanted) in [
            (
                r#"{"contents":[],"reasoning_effort":"low"}"#,
                "gemini-2.5-flash",
                Some(
                    r#"{"contents":[],"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024}}}"#,
                ),
            ),
            (
                r#"{"generation_config":{"topK":1.0},"reasoning":{"effort":"high"}}"#,
                "gemini-3-pro",
                Some(
                    r#"{"generation_config":{"topK":1.0,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"high"}}}"#,
                ),
            ),
            (
                r#"{"generationConfig":{"thinkingConfig":{"thinkingBudget":5}},"reasoning_effort":"low"}"#,
                "gemini-2.5-flash",
                Some(r#"{"generationConfig":{"thinkingConfig":{"thinkingBudget":5}}}"#),
            ),
            (
                r#"{"reasoning_effort":"none"}"#,
                "gemini-2.5-flash",
                Some(r#"{"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}"#),
            ),
            (r#"{"contents":[],"reasoning_effort":"low"}"#, "gemini-2.0-flash", Some(r#"{"contents":[]}"#)),
            (r#"{"contents":[],"reasoning_effort":null}"#, "gemini-3-pro", Some(r#"{"contents":[]}"#)),
            (r#"{"contents":[{"reasoning":1}]}"#, "gemini-3-pro", None),
        ] {
            assert_eq!(with_own_thinking(&Node::parse(body).unwrap(), model).as_deref(), wanted, "{body}");
        }
    }
}
