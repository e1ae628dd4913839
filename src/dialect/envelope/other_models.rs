//! The models that a request names beside its own.

use std::borrow::Cow;

use super::{EnvelopeError, MAX_MODEL_BYTES};
use crate::dialect::json::{self, Scan, Stopped};
use crate::dialect::tree::Node;

/// The largest number of other models that a request may name, and the longest list of them in bytes.
pub const MAX_OTHER_MODELS: usize = 32;
const MAX_BYTES: usize = MAX_OTHER_MODELS * MAX_MODEL_BYTES;

/// Members that name models which may serve the request in place of its own; some sites accept any letter case.
const OTHER_MODELS: [&str; 4] =
    ["models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"];
/// Members with a list of tools that an upstream runs itself, some with a model of their own: Anthropic's advisor,
/// OpenAI's image generation, OpenRouter's plugins.
const TOOLS: [&str; 2] = ["tools", "plugins"];
/// Members of such a tool that name its models.
const MODELS_OF_TOOL: [&str; 2] = ["model", "allowed_models"];

/// Returns the member of [`OTHER_MODELS`] with this name, in any letter case. In a form, a list's name may end in `[]`.
pub fn other_models(name: &str) -> Option<&'static str> {
    one_of(&OTHER_MODELS, name.strip_suffix("[]").unwrap_or(name))
}

/// Returns the models that the tools of a body name, for keys that may ask for some models only. There are none in a body
/// that is not JSON.
///
/// # Errors
/// More models than a request may name.
pub fn models_of_tools(body: &str) -> Result<Vec<String>, EnvelopeError> {
    let mut lists = Vec::new();
    let walked = json::walk(body, |scan, key, depth| match one_of(&TOOLS, &key.name()) {
        Some(member) if scan.peek() == Some(b'[') => {
            scan.array(depth + 1, |scan, depth| of_tool(scan, depth, member, &mut lists))
        }
        Some(member) => of_tool(scan, depth, member, &mut lists),
        None => scan.value(depth),
    });
    if walked.is_err() {
        return Ok(Vec::new());
    }
    named_in(&lists)
}

/// Collects the lists of models in the tool that comes next.
fn of_tool<'a>(
    scan: &mut Scan<'a>,
    depth: usize,
    member: &'static str,
    lists: &mut Vec<(&'static str, &'a str)>,
) -> Result<(), Stopped> {
    if scan.peek() != Some(b'{') {
        return scan.value(depth);
    }
    scan.object(depth + 1, |scan, key, depth| {
        let names_models = one_of(&MODELS_OF_TOOL, &key.name()).is_some();
        let value = scan.literal(depth)?;
        lists.extend(names_models.then_some((member, value)));
        Ok(())
    })
}

fn one_of(members: &[&'static str], name: &str) -> Option<&'static str> {
    members.iter().copied().find(|member| member.eq_ignore_ascii_case(name))
}

/// Returns the models in lists, each given with the member that it belongs to.
///
/// # Errors
/// More models than a request may name, or a list that is too long.
pub(super) fn named_in(lists: &[(&'static str, &str)]) -> Result<Vec<String>, EnvelopeError> {
    let mut models = Vec::new();
    for (member, list) in lists {
        if list.len() <= MAX_BYTES {
            models.extend(names_in(list));
        }
        if list.len() > MAX_BYTES || models.len() > MAX_OTHER_MODELS {
            let problem = format!("may name at most {MAX_OTHER_MODELS} models, in {MAX_BYTES} bytes");
            return Err(EnvelopeError::field(member, &problem));
        }
    }
    Ok(models)
}

/// Returns the models that a list names, as strings or as the `model` of objects. An entry in any other form is
/// returned as its raw text, so that it matches no model of a downstream key that is restricted to some models.
fn names_in(list: &str) -> Vec<String> {
    let name = |entry: &Node<'_>| {
        let named = entry.str().or_else(|| entry.get("model")?.str());
        named.map_or_else(|| entry.raw().to_owned(), Cow::into_owned)
    };
    match Node::parse(list) {
        Ok(node) if node.is_array() => node.items().iter().map(name).collect(),
        Ok(node) if node.raw() == "null" => Vec::new(),
        Ok(node) => vec![name(&node)],
        Err(_) => vec![list.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_of_tools_are_found_where_an_upstream_looks_for_them() {
        for (body, wanted) in [
            (r#"{"tools":[{"type":"advisor_20260301","model":"a"},{"model":"b"}]}"#, &["a", "b"][..]),
            (r#"{"Tools":[{"Model":"a"}],"plugins":[{"allowed_models":["b","c"]}]}"#, &["a", "b", "c"]),
            (r#"{"plugins":{"model":"\u0061"},"tools":["model",[{"model":"b"}],{"model":null}]}"#, &["a"]),
            (r#"{"tools":[{"function":{"model":"a"},"parameters":{"model":"b"}}],"model":"c"}"#, &[]),
            (r#"{"tools":[{"model":["a",{"b":1}]}]}"#, &["a", r#"{"b":1}"#]),
            ("--boundary", &[]),
        ] {
            assert_eq!(models_of_tools(body).unwrap(), wanted, "{body}");
        }
        let tools = vec![r#"{"model":"a"}"#; MAX_OTHER_MODELS + 1].join(",");
        let refused = models_of_tools(&format!(r#"{{"tools":[{tools}]}}"#)).unwrap_err();
        assert_eq!(refused.field, Some("tools"));
    }
}
