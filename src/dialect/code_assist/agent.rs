//! Requests of an agent such as Antigravity: what they say of the agent, and the form that they must have.

use std::borrow::Cow;

use ring::digest::{SHA256, digest};

use super::schema::{Allowance, put_plain};
use crate::dialect::edit::edit;
use crate::dialect::gemini::member;
use crate::dialect::json_schema::VALUES;
use crate::dialect::literal::Json;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The newer name of a function's parameters. Agent requests do not know it, nor what JSON Schema has beyond Google's
/// schema.
const JSON_SCHEMA: &str = "parametersJsonSchema";
const PARAMETERS: &str = "parameters";

/// The members that describe the agent, beside the request.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    pub name: &'a str,
    /// `agent` or `image_gen`.
    pub kind: &'a str,
    pub request_id: &'a str,
}

impl Agent<'_> {
    pub(super) fn put(&self, envelope: &mut Writer) {
        envelope.field("userAgent", self.name);
        envelope.field("requestType", self.kind);
        envelope.field("requestId", self.request_id);
    }
}

/// Returns the request in the form that is accepted for agents: without safety settings, with plain schemas, and with
/// the name of its session if it `has_session`. For Anthropic's models calls are validated; for all others the limit
/// of the answer is removed. `random` names the session of a request without any text.
pub fn fit(body: &str, is_claude: bool, has_session: bool, random: u64) -> String {
    let plain = with_plain_schemas(body);
    let body = plain.as_deref().unwrap_or(body);
    let Ok(node) = Node::parse(body) else { return body.to_owned() };
    let removed: Vec<&str> = member::key(&node, "safetySettings").into_iter().collect();
    let mut set: Vec<(&str, String)> = Vec::new();
    if is_claude {
        let key = member::key(&node, "toolConfig").unwrap_or("toolConfig");
        set.push((key, validated(node.get(key))));
    } else if let Some(key) = member::key(&node, "generationConfig")
        && let Some(config) = node.get(key)
        && let Some(limit) = member::key(config, "maxOutputTokens")
    {
        set.push((key, edit(config.raw(), &[], &[limit]).into_owned()));
    }
    if has_session {
        let session = first_words(&node).map_or(random, |words| hash(&words));
        set.push(("sessionId", format!("\"-{}\"", session & i64::MAX as u64)));
    }
    let set: Vec<(&str, &str)> = set.iter().map(|(key, value)| (*key, value.as_str())).collect();
    edit(body, &set, &removed).into_owned()
}

/// Returns the first text of the user.
fn first_words<'a>(request: &Node<'a>) -> Option<Cow<'a, str>> {
    let mut contents = request.items_at("contents").iter();
    let first = contents.find(|content| content.get("role").is_none_or(|role| role.raw() == "\"user\""))?;
    let texts = first.items_at("parts").iter().map(|part| part.str_at("text"));
    texts.into_iter().find(|text| !text.is_empty())
}

/// Returns one number for all requests of a conversation, because they all begin with these words.
fn hash(words: &str) -> u64 {
    let digest = digest(&SHA256, words.as_bytes());
    digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the tool configuration with validated calls and everything else that was in it.
fn validated(config: Option<&Node<'_>>) -> String {
    let raw = config.filter(|config| config.is_object()).map_or("{}", Node::raw);
    let calling = config.and_then(|config| Some((member::key(config, "functionCallingConfig")?, config)));
    let (key, inner) = match calling {
        Some((key, config)) => {
            (key, config.get(key).filter(|inner| inner.is_object()).map_or("{}", Node::raw))
        }
        None => ("functionCallingConfig", "{}"),
    };
    let inner = edit(inner, &[("mode", "\"VALIDATED\"")], &[]);
    edit(raw, &[(key, &inner)], &[]).into_owned()
}

/// Returns the request with the older name and form for the parameters of its functions; `None` where no newer one is
/// used. A request to count tokens may contain a whole request.
pub fn with_plain_schemas(body: &str) -> Option<String> {
    let uses = |name: &str| memchr::memmem::find(body.as_bytes(), name.as_bytes()).is_some();
    if !uses(JSON_SCHEMA) && !uses("parameters_json_schema") {
        return None;
    }
    let node = Node::parse(body).ok()?;
    let counted = member::key(&node, "generateContentRequest");
    if let Some(key) = counted {
        let request = with_plain_schemas(node.get(key)?.raw())?;
        return Some(edit(body, &[(key, &request)], &[]).into_owned());
    }
    let key = member::key(&node, "tools")?;
    let all = node.get(key)?;
    let mut allowance = Allowance::of(all.raw().len());
    let mut tools = Writer::with_capacity(body.len());
    tools.list(|list| {
        for tool in all.items() {
            match member::key(tool, "functionDeclarations") {
                None => list.item(tool.json()),
                Some(key) => {
                    let declared = declarations(tool, key, &mut allowance);
                    list.item(Json::checked(&edit(tool.raw(), &[(key, &declared)], &[])));
                }
            }
        }
    });
    Some(edit(body, &[(key, tools.as_str())], &[]).into_owned())
}

fn declarations(tool: &Node<'_>, key: &str, allowance: &mut Allowance) -> String {
    let mut declared = Writer::new();
    declared.list(|list| {
        for function in tool.items_at(key) {
            let newer = member::key(function, JSON_SCHEMA);
            let has_older = function.member(PARAMETERS).is_some();
            list.object(|o| {
                for (name, value) in function.members() {
                    let is_newer = newer == Some(name.as_ref());
                    if !is_newer {
                        o.field(name, value.json());
                    } else if !has_older {
                        o.value_at(PARAMETERS, |json| put_plain(json, &value.unfolded(&VALUES), allowance));
                    }
                }
            });
        }
    });
    declared.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_made_fit_and_keeps_every_other_byte() {
        let session = |words: &str| format!("-{}", hash(words) & i64::MAX as u64);
        let said = r#""contents":[{"role":"user","parts":[{"text":"Go"}]}]"#;
        let go = session("Go");
        for (body, is_claude, wanted) in [
            (
                format!(r#"{{{said},"safetySettings":[1],"generationConfig":{{"topK":1.0,"maxOutputTokens":9}}}}"#),
                false,
                format!(r#"{{{said},"generationConfig":{{"topK":1.0}},"sessionId":"{go}"}}"#),
            ),
            (
                format!(r#"{{{said},"safety_settings":[],"generationConfig":{{"maxOutputTokens":9}}}}"#),
                true,
                format!(
                    r#"{{{said},"generationConfig":{{"maxOutputTokens":9}},"toolConfig":{{"functionCallingConfig":{{"mode":"VALIDATED"}}}},"sessionId":"{go}"}}"#
                ),
            ),
            (
                r#"{"contents":[],"tool_config":{"function_calling_config":{"mode":"ANY","allowedFunctionNames":["f"]}}}"#.to_owned(),
                true,
                r#"{"contents":[],"tool_config":{"function_calling_config":{"mode":"VALIDATED","allowedFunctionNames":["f"]}},"sessionId":"-7"}"#.to_owned(),
            ),
        ] {
            assert_eq!(fit(&body, is_claude, true, 7), wanted, "{body}");
        }
        assert_eq!(
            fit(r#"{"contents":[]}"#, false, false, 7),
            r#"{"contents":[]}"#,
            "a picture has no session"
        );
        assert_eq!(
            fit("{\"contents\":[]}", false, true, u64::MAX),
            format!("{{\"contents\":[],\"sessionId\":\"-{}\"}}", i64::MAX)
        );
    }

    #[test]
    fn the_newer_name_of_parameters_becomes_the_older_one() {
        for (body, wanted) in [
            (
                r#"{"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object","a":1.0,"additionalProperties":false}},{"name":"g"}]},{"googleSearch":{}}],"z":1}"#,
                Some(
                    r#"{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object"}},{"name":"g"}]},{"googleSearch":{}}],"z":1}"#,
                ),
            ),
            (
                r#"{"generateContentRequest":{"tools":[{"function_declarations":[{"parameters_json_schema":{"type":"object"}}]}]}}"#,
                Some(
                    r#"{"generateContentRequest":{"tools":[{"function_declarations":[{"parameters":{"type":"object"}}]}]}}"#,
                ),
            ),
            (
                r#"{"tools":[{"functionDeclarations":[{"parameters":1,"parametersJsonSchema":2}]}]}"#,
                Some(r#"{"tools":[{"functionDeclarations":[{"parameters":1}]}]}"#),
            ),
            (r#"{"contents":[{"parts":[{"text":"parametersJsonSchema"}]}]}"#, None),
            (r#"{"tools":[]}"#, None),
        ] {
            assert_eq!(with_plain_schemas(body).as_deref(), wanted, "{body}");
        }
    }
}
