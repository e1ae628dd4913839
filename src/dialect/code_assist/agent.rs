//! Requests of an agent such as Antigravity: what they say of the agent, and the form that they must have.

use std::borrow::Cow;

use ring::digest::{SHA256, digest};

use super::schema::{Allowance, put_plain};
use crate::dialect::canonical::ConversionError;
use crate::dialect::edit::edit;
use crate::dialect::gemini::member;
use crate::dialect::json_schema::unfolded;
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

/// What the form of an agent's request depends on.
#[derive(Clone, Copy, Debug)]
pub struct AgentTarget {
    /// Whether the model is one of Anthropic's: its calls are validated. For all others the limit of the answer is removed.
    pub is_claude: bool,
    /// Whether the request names its session.
    pub has_session: bool,
    /// The name of the session of a request without any text.
    pub random: u64,
}

/// Returns the request in the form that is accepted for agents: without safety settings, and with plain schemas.
///
/// # Errors
/// A schema that is too large to be converted.
pub fn fit(body: &str, target: AgentTarget) -> Result<String, ConversionError> {
    let AgentTarget { is_claude, has_session, random } = target;
    let plain = with_plain_schemas(body)?;
    let body = plain.as_deref().unwrap_or(body);
    let Ok(node) = Node::parse(body) else { return Ok(body.to_owned()) };
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
    Ok(edit(body, &set, &removed).into_owned())
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
///
/// # Errors
/// A schema that is too large to be converted.
pub fn with_plain_schemas(body: &str) -> Result<Option<String>, ConversionError> {
    let uses = |name: &str| memchr::memmem::find(body.as_bytes(), name.as_bytes()).is_some();
    if !uses(JSON_SCHEMA) && !uses("parameters_json_schema") {
        return Ok(None);
    }
    let Ok(node) = Node::parse(body) else { return Ok(None) };
    let part = |name: &str| member::key(&node, name).and_then(|key| Some((key, node.get(key)?)));
    if let Some((key, counted)) = part("generateContentRequest") {
        let request = with_plain_schemas(counted.raw())?;
        return Ok(request.map(|request| edit(body, &[(key, &request)], &[]).into_owned()));
    }
    let Some((key, all)) = part("tools") else { return Ok(None) };
    let mut allowance = Allowance::of(all.raw().len());
    let mut tools = Vec::new();
    for tool in all.items() {
        tools.push(match member::key(tool, "functionDeclarations") {
            None => Cow::Borrowed(tool.raw()),
            Some(key) => {
                let declared = declarations(tool, key, &mut allowance)?;
                Cow::Owned(edit(tool.raw(), &[(key, &declared)], &[]).into_owned())
            }
        });
    }
    let tools = format!("[{}]", tools.join(","));
    Ok(Some(edit(body, &[(key, &tools)], &[]).into_owned()))
}

fn declarations(tool: &Node<'_>, key: &str, allowance: &mut Allowance) -> Result<String, ConversionError> {
    let mut declared = Writer::new();
    let mut unfit = None;
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
                        match unfolded(value.raw(), "tools") {
                            Ok(schema) => o.value_at(PARAMETERS, |json| put_plain(json, &schema, allowance)),
                            Err(error) => unfit = Some(error),
                        }
                    }
                }
            });
        }
    });
    unfit.map_or_else(|| Ok(declared.into_string()), Err)
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
            let target = AgentTarget { is_claude, has_session: true, random: 7 };
            assert_eq!(fit(&body, target), Ok(wanted), "{body}");
        }
        assert_eq!(
            fit(r#"{"contents":[]}"#, AgentTarget { is_claude: false, has_session: false, random: 7 })
                .as_deref(),
            Ok(r#"{"contents":[]}"#),
            "a picture has no session"
        );
        assert_eq!(
            fit("{\"contents\":[]}", AgentTarget { is_claude: false, has_session: true, random: u64::MAX }),
            Ok(format!("{{\"contents\":[],\"sessionId\":\"-{}\"}}", i64::MAX))
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
            assert_eq!(with_plain_schemas(body).unwrap().as_deref(), wanted, "{body}");
        }
        let long = "0,".repeat(100_001);
        let function = format!(r#"{{"parametersJsonSchema":{{"required":[{long}0]}}}}"#);
        let refused =
            with_plain_schemas(&format!(r#"{{"tools":[{{"functionDeclarations":[{function}]}}]}}"#));
        let wanted = "must have no schema of more than 100000 members and elements";
        assert_eq!(refused, Err(ConversionError::invalid("tools", wanted)));
    }
}
