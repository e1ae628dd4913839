//! Members that a request can do without, for an upstream that refuses one of them by name.
//!
//! Anthropic and OpenAI add members all the time, and many upstreams that speak their dialects refuse unknown ones. The
//! members listed here change what an answer costs or how it is made, not the question it answers.

use bytes::Bytes;

use super::Dialect;
use super::chat;
use super::edit::edit;
use super::gemini::member;
use super::literal::Json;
use super::messages;
use super::tree::Node;
use super::upstream_error::UpstreamError;
use super::writer::Writer;
use crate::error_words::requests;

/// The lifetime of a cached prompt.
const TTL: &str = "ttl";
/// The mark up to which a prompt is to be cached.
const MARK: &str = "cache_control";
const THINKING: &str = "thinking";
const CONTEXT: &str = "context_management";
const CONFIG: &str = "output_config";
const CACHE_KEY: &str = "prompt_cache_key";
const REASONING: &str = "reasoning";
/// The summary of reasoning, which OpenAI gives only to organizations that it has verified.
const SUMMARY: &str = "reasoning.summary";
const INCLUDE: &str = "include";
/// A schema for the answer whose objects may have more members than it names, or that limits sizes.
pub const OPEN_OBJECTS: &str = "additionalProperties";
/// The encrypted reasoning in `include`, which a model that does not reason does not have.
const ENCRYPTED: &str = "reasoning.encrypted_content";
/// The strictness of a tool.
const STRICT: &str = "strict";
/// The effort in `output_config`, which refusals name by itself.
const EFFORT: &str = "effort";
/// The older and the newer name of the output limit; many upstreams accept only one of them.
const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Members that count as refused whenever an upstream names them. `ttl` goes before `cache_control`: a mark without its
/// lifetime is still a mark.
const NAMED: [&str; 5] = [TTL, MARK, CONTEXT, THINKING, CACHE_KEY];
/// Members of a messages request that count as refused only if the upstream calls them unknown: otherwise their value
/// may be what is wrong.
const OF_MESSAGES: [&str; 9] =
    [EFFORT, CONFIG, "service_tier", "metadata", "speed", "inference_geo", "top_k", "top_p", "temperature"];
const OF_TOOLS: [&str; 4] = ["eager_input_streaming", "defer_loading", "input_examples", STRICT];
const OF_CHAT: [&str; 20] = [
    LIMITS[0],
    // Of OpenRouter, whose providers send it to everyone.
    "usage",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "metadata",
    "user",
    "verbosity",
    "reasoning_effort",
    "stream_options",
    "seed",
    "prediction",
    "logit_bias",
    "parallel_tool_calls",
    "presence_penalty",
    "frequency_penalty",
    "top_k",
    "top_p",
    "temperature",
];
/// Members of messages of a chat request, and of the calls in them. Clients send back what another upstream gave them.
const OF_CHAT_MESSAGES: [&str; 6] = [
    "reasoning_content",
    "reasoning_details",
    "reasoning_signature",
    REASONING,
    "extra_content",
    "provider_specific_fields",
];
/// Members of a responses request; anything else that such an upstream does not know is left out step by step.
const OF_RESPONSES: [&str; 9] = [
    "prompt_cache_retention",
    "safety_identifier",
    "parallel_tool_calls",
    "service_tier",
    "truncation",
    REASONING,
    INCLUDE,
    "top_p",
    "temperature",
];

/// Google's words for what it refuses, with the members of `generationConfig` that ask for it.
const OF_GEMINI: [(&str, &[&str]); 2] =
    [(THINKING, &["thinkingConfig"]), ("penalty", &["frequencyPenalty", "presencePenalty"])];
/// Vertex's names for parts of `thinkingConfig`.
const OF_THINKING: [&str; 2] = ["thinking_level", "thinking_budget"];
/// The ids of calls and their results; Vertex matches these by order instead.
const CALL_ID: &str = "functionCall.id";
/// Google's web search, which many upstreams do not allow beside functions.
const SEARCH: &str = "googleSearch";

/// Returns the members that a refusal may be about, the likeliest first.
pub fn refused(dialect: Dialect, status: u16, error: &UpstreamError) -> Vec<&'static str> {
    if !matches!(status, 400 | 422) {
        return Vec::new();
    }
    let said = error.message.to_ascii_lowercase();
    let is_said = |member: &str| {
        names(&said, member) || error.param.as_deref().is_some_and(|param| names(param, member))
    };
    let is_named = |member: &str| match member {
        _ if is_said(member) => true,
        INCLUDE => said.contains("encrypted content"),
        SUMMARY => said.contains("reasoning summaries"),
        THINKING if dialect == Dialect::Gemini => OF_THINKING.iter().any(|name| is_said(name)),
        // A strict tool is refused for parts of its schema that only other tools may have.
        STRICT => said.starts_with("tools.") && requests::is_of_words_in_schema(&said),
        _ => LIMITS[0] == member && is_said(LIMITS[1]),
    };
    // A thinking budget that leaves no room for the answer is the client's mistake.
    let is_of_limit = |member: &str| member == THINKING && said.contains("max_tokens");
    let is_unknown = requests::is_of_unknown_member(&said);
    let of_dialect: &[&[&'static str]] = match dialect {
        Dialect::Messages => &[&OF_TOOLS, &OF_MESSAGES],
        Dialect::Chat => &[&OF_CHAT_MESSAGES, &OF_CHAT],
        Dialect::Responses => &[&OF_RESPONSES],
        Dialect::Gemini if is_unknown => {
            let id = Some(CALL_ID).filter(|_| requests::is_of_call_id(&said));
            return id
                .into_iter()
                .chain(OF_GEMINI.map(|(word, _)| word).into_iter().filter(|word| is_named(word)))
                .collect();
        }
        _ => return Vec::new(),
    };
    let summary = Some(SUMMARY).filter(|member| dialect == Dialect::Responses && is_named(member));
    let named = NAMED.iter().copied().filter(|member| is_named(member) && !is_of_limit(member));
    let others = of_dialect.iter().flat_map(|members| members.iter().copied());
    summary.into_iter().chain(named).chain(others.filter(|member| is_unknown && is_named(member))).collect()
}

/// Returns the member to leave out when Google refuses what a conversion asked for: a thinking budget, or a search beside
/// functions. A client that asked for it itself is told of the refusal instead.
pub fn refused_of_conversion(dialect: Dialect, status: u16, error: &UpstreamError) -> Option<&'static str> {
    if dialect != Dialect::Gemini || status != 400 {
        return None;
    }
    let said = error.message.to_ascii_lowercase();
    if requests::is_of_search_beside_functions(&said) {
        Some(SEARCH)
    } else {
        requests::is_of_thinking_budget(&said).then_some(THINKING)
    }
}

/// Whether a text contains a name as a whole word.
fn names(text: &str, name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_letter) && !text[at + name.len()..].starts_with(is_letter))
}

/// Returns the body without a member; `None` when it has no such member, or cannot do without it.
pub fn without(dialect: Dialect, body: &Node<'_>, member: &'static str) -> Option<Bytes> {
    let alone = [member];
    let removed: &[&str] = match member {
        TTL | MARK => return without_marks(body, member == MARK),
        OPEN_OBJECTS => return messages::with_schema_closed(body),
        _ if OF_TOOLS.contains(&member) && dialect == Dialect::Messages => {
            return without_in_tools(body, member);
        }
        EFFORT if dialect == Dialect::Messages => return without_effort(body),
        REASONING if dialect == Dialect::Chat => return without_reasoning_of_chat(body),
        _ if OF_CHAT_MESSAGES.contains(&member) && dialect == Dialect::Chat => {
            return chat::without_in_messages(body, member);
        }
        _ if member == LIMITS[0] => return with_other_limit(body),
        CALL_ID => return without_call_ids(body),
        SEARCH => return without_search(body),
        _ if dialect == Dialect::Gemini => return without_in_config(body, member),
        SUMMARY => return without_summary(body),
        REASONING => return without_reasoning(body),
        INCLUDE => return without_encrypted(body),
        // What happens to earlier thinking (`context_management`) can be said only with thinking on.
        THINKING => &[THINKING, CONTEXT],
        // The request cannot do without the format of its answer.
        CONFIG if body.path(&[CONFIG, "format"]).is_some() => return None,
        _ => &alone,
    };
    body.get(member)?;
    Some(Bytes::from(edit(body.raw(), &[], removed).into_owned()))
}

/// Removes `reasoning` and the encrypted reasoning to include: a model that does not reason has none.
fn without_reasoning(body: &Node<'_>) -> Option<Bytes> {
    body.get(REASONING)?;
    let left = edit(body.raw(), &[], &[REASONING]).into_owned();
    let included = Node::parse(&left).ok().and_then(|left| without_encrypted(&left));
    Some(included.unwrap_or_else(|| Bytes::from(left)))
}

/// Removes the reasoning of earlier answers; aggregators' wish for reasoning becomes the effort that OpenAI takes.
fn without_reasoning_of_chat(body: &Node<'_>) -> Option<Bytes> {
    let Some(wish) = body.get(REASONING) else { return chat::without_in_messages(body, REASONING) };
    let name = "reasoning_effort";
    let effort = wish.get(EFFORT).filter(|_| body.get(name).is_none());
    let set: Vec<_> = effort.map(|effort| (name, effort.raw())).into_iter().collect();
    let left = edit(body.raw(), &set, &[REASONING]).into_owned();
    let silent = Node::parse(&left).ok().and_then(|left| chat::without_in_messages(&left, REASONING));
    Some(silent.unwrap_or_else(|| Bytes::from(left)))
}

/// Removes `reasoning.summary`; the model thinks as much as before.
fn without_summary(body: &Node<'_>) -> Option<Bytes> {
    let reasoning = body.get(REASONING)?;
    reasoning.get("summary")?;
    let left = edit(reasoning.raw(), &[], &["summary"]);
    Some(Bytes::from(edit(body.raw(), &[(REASONING, &left)], &[]).into_owned()))
}

/// Removes the encrypted reasoning from `include` and keeps its other entries.
fn without_encrypted(body: &Node<'_>) -> Option<Bytes> {
    let is_other = |item: &&Node<'_>| item.str().is_none_or(|item| item != ENCRYPTED);
    let included = body.items_at(INCLUDE);
    let others: Vec<_> = included.iter().filter(is_other).collect();
    if others.len() == included.len() {
        return None;
    }
    let mut list = Writer::new();
    list.list(|list| others.iter().for_each(|item| list.item(item.json())));
    let body = if others.is_empty() {
        edit(body.raw(), &[], &[INCLUDE])
    } else {
        edit(body.raw(), &[(INCLUDE, list.as_str())], &[])
    };
    Some(Bytes::from(body.into_owned()))
}

/// Removes the effort from `output_config` and keeps its other members.
fn without_effort(body: &Node<'_>) -> Option<Bytes> {
    let config = body.get(CONFIG)?;
    config.get(EFFORT)?;
    let left = edit(config.raw(), &[], &[EFFORT]);
    let body = match config.members().len() {
        1 => edit(body.raw(), &[], &[CONFIG]),
        _ => edit(body.raw(), &[(CONFIG, &left)], &[]),
    };
    Some(Bytes::from(body.into_owned()))
}

/// Renames the output limit to its other name; `None` where a body has neither name, or both.
fn with_other_limit(body: &Node<'_>) -> Option<Bytes> {
    let [older, newer] = LIMITS;
    let (name, other, limit) = match (body.get(older), body.get(newer)) {
        (Some(limit), None) => (older, newer, limit),
        (None, Some(limit)) => (newer, older, limit),
        _ => return None,
    };
    Some(Bytes::from(edit(body.raw(), &[(other, limit.raw())], &[name]).into_owned()))
}

/// Removes the members of `generationConfig` that ask for what Google calls by this word.
fn without_in_config(body: &Node<'_>, word: &str) -> Option<Bytes> {
    let (_, members) = OF_GEMINI.iter().find(|(known, _)| *known == word)?;
    let name = member::key(body, "generationConfig")?;
    let config = body.get(name)?;
    let removed: Vec<_> = members.iter().filter_map(|member| member::key(config, member)).collect();
    if removed.is_empty() {
        return None;
    }
    let left = edit(config.raw(), &[], &removed);
    Some(Bytes::from(edit(body.raw(), &[(name, &left)], &[]).into_owned()))
}

/// Removes the ids of calls and of their results from the contents.
fn without_call_ids(body: &Node<'_>) -> Option<Bytes> {
    let mut changed = false;
    let mut contents = Writer::new();
    contents.list(|list| {
        for content in body.items_at("contents") {
            let Some(parts) = content.get("parts").filter(|parts| parts.is_array()) else {
                list.item(content.json());
                continue;
            };
            let mut left = Writer::new();
            left.list(|list| parts.items().iter().for_each(|part| changed |= put_without_id(list, part)));
            list.item(Json::checked(&edit(content.raw(), &[("parts", left.as_str())], &[])));
        }
    });
    changed.then(|| Bytes::from(edit(body.raw(), &[("contents", contents.as_str())], &[]).into_owned()))
}

/// Writes a part without the id of its call; returns whether it had one.
fn put_without_id(list: &mut Writer, part: &Node<'_>) -> bool {
    let names = ["functionCall", "functionResponse"].map(|name| member::key(part, name));
    let call = names.into_iter().flatten().find_map(|name| Some((name, part.get(name)?)));
    let Some((name, call)) = call.filter(|(_, call)| call.get("id").is_some()) else {
        list.item(part.json());
        return false;
    };
    let left = edit(call.raw(), &[], &["id"]);
    list.item(Json::checked(&edit(part.raw(), &[(name, &left)], &[])));
    true
}

/// Removes the search, and the member that allows it beside functions.
fn without_search(body: &Node<'_>) -> Option<Bytes> {
    const ALLOWED: &str = "includeServerSideToolInvocations";
    let is_other = |tool: &&Node<'_>| member::get(tool, SEARCH).is_none();
    let tools = body.items_at("tools");
    let others: Vec<_> = tools.iter().filter(is_other).collect();
    if others.is_empty() || others.len() == tools.len() {
        return None;
    }
    let mut list = Writer::new();
    list.list(|list| others.iter().for_each(|tool| list.item(tool.json())));
    let config = body.get("toolConfig").map(|config| edit(config.raw(), &[], &[ALLOWED]));
    let config = config.as_deref().map(|left| ("toolConfig", left));
    let set: Vec<_> = [("tools", list.as_str())].into_iter().chain(config).collect();
    Some(Bytes::from(edit(body.raw(), &set, &[]).into_owned()))
}

fn without_in_tools(body: &Node<'_>, member: &str) -> Option<Bytes> {
    let tools = body.items_at("tools");
    tools.iter().find(|tool| tool.get(member).is_some())?;
    let mut list = Writer::new();
    list.list(|list| {
        for tool in tools {
            let kept = tool.members().iter().filter(|(key, _)| key != member);
            list.object(|o| kept.for_each(|(key, value)| o.field(key, value.json())));
        }
    });
    Some(Bytes::from(edit(body.raw(), &[("tools", list.as_str())], &[]).into_owned()))
}

/// Members in which marks stand. Elsewhere, in a tool's parameters or a call's arguments, members of these names may
/// mean something else.
const MARKED: [&str; 4] = ["system", "messages", "tools", "content"];

/// Removes all marks (`whole`), or only their lifetimes.
fn without_marks(body: &Node<'_>, whole: bool) -> Option<Bytes> {
    let mut json = Writer::with_capacity(body.raw().len());
    put_without_marks(&mut json, body, whole).then(|| json.into_bytes())
}

fn put_without_marks(json: &mut Writer, node: &Node<'_>, whole: bool) -> bool {
    let mut changed = false;
    if node.is_array() {
        json.list(|list| {
            node.items().iter().for_each(|item| changed |= put_without_marks(list, item, whole))
        });
    } else if node.is_object() {
        json.object(|o| {
            for (key, value) in node.members() {
                match key.as_ref() {
                    MARK if whole => changed = true,
                    MARK if value.get(TTL).is_some() => {
                        let kept = value.members().iter().filter(|(key, _)| key != TTL);
                        o.object_at(key, |o| kept.for_each(|(key, value)| o.field(key, value.json())));
                        changed = true;
                    }
                    key if MARKED.contains(&key) => {
                        o.value_at(key, |json| changed |= put_without_marks(json, value, whole));
                    }
                    key => o.field(key, value.json()),
                }
            }
        });
    } else {
        json.item(node.json());
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_at(dialect: Dialect, message: &str) -> Vec<&'static str> {
        refused(dialect, 400, &UpstreamError::new(message))
    }

    #[test]
    fn a_refusal_is_about_what_it_names() {
        use Dialect::{Chat, Gemini, Messages, Responses};
        for (dialect, said, about) in [
            (
                Messages,
                "messages.0.content.1.cache_control.ttl: Extra inputs are not permitted",
                &["ttl", "cache_control"][..],
            ),
            (
                Messages,
                "A maximum of 4 blocks with cache_control may be provided. Found 5.",
                &["cache_control"],
            ),
            (Messages, "context_management: Extra inputs are not permitted", &["context_management"]),
            (Messages, "tools.0.custom.defer_loading: Extra inputs are not permitted", &["defer_loading"]),
            (Messages, "output_config.effort: Extra inputs are not permitted", &["effort", "output_config"]),
            (Messages, "This model does not support the effort parameter.", &["effort"]),
            (
                Chat,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                &["max_tokens"],
            ),
            (Chat, "Unrecognized request argument supplied: max_completion_tokens", &["max_tokens"]),
            (Chat, "max_tokens is too large: 99999. This model supports at most 4096 completion tokens", &[]),
            (
                Chat,
                "The 'metadata' parameter is only allowed when 'store' is enabled.",
                &["store", "metadata"],
            ),
            (Gemini, "Thinking is not enabled for this model", &["thinking"]),
            (Gemini, "Penalty is not enabled for models/gemini-2.5-pro", &["penalty"]),
            (
                Gemini,
                "Unable to submit request because thinking_level is not supported by this model.",
                &["thinking"],
            ),
            (
                Gemini,
                r#"Invalid JSON payload received. Unknown name "id" at 'contents[1].parts[0].function_call': Cannot find field."#,
                &["functionCall.id"],
            ),
            (
                Gemini,
                r#"Invalid JSON payload received. Unknown name "id" at 'tools[0].function_declarations[0]': Cannot find field."#,
                &[],
            ),
            (
                Responses,
                "Your organization must be verified to generate reasoning summaries. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization.",
                &["reasoning.summary"],
            ),
            (
                Responses,
                "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
                &["reasoning.summary", "reasoning"],
            ),
            (Responses, "Your organization must be verified to stream this model.", &[]),
            (Gemini, "The thinking budget 0 is invalid. Please choose a value between 128 and 32768.", &[]),
            (Gemini, "Developer instruction is not enabled for models/gemma-3", &[]),
            (Messages, "`max_tokens` must be greater than `thinking.budget_tokens`", &[]),
            (Messages, "top_k: must be positive", &[]),
            (
                Messages,
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
                &["top_p", "temperature"],
            ),
            (Messages, "`temperature` is deprecated for this model.", &["temperature"]),
            (
                Chat,
                "Unsupported value: 'temperature' does not support 0.2 with this model.",
                &["temperature"],
            ),
            (Chat, "Unsupported parameter: 'presence_penalty'", &["presence_penalty"]),
            (Messages, "prompt is too long: 250000 tokens > 200000 maximum", &[]),
            (Messages, "rethinking_all", &[]),
            (Chat, "Unrecognized request argument supplied: prompt_cache_key", &["prompt_cache_key"]),
            (Chat, "Unsupported parameter: 'stream_options'", &["stream_options"]),
            (Responses, "Unsupported parameter: 'metadata'", &[]),
            (
                Responses,
                "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                &["reasoning"],
            ),
            (Responses, "Unknown parameter: 'input[1].reasoning_content'.", &[]),
            (Chat, "Unknown parameter: 'messages[2].reasoning_content'.", &["reasoning_content"]),
            (Chat, "Unknown parameter: 'messages[2].tool_calls[0].extra_content'.", &["extra_content"]),
            (Chat, "Missing `reasoning_content` field in the assistant message at index 2", &[]),
            (Responses, "Encrypted content is not supported with this model.", &["include"]),
            (
                Messages,
                "tools.0.custom: For 'integer' type, properties maximum, minimum are not supported",
                &["strict"],
            ),
        ] {
            assert_eq!(refused_at(dialect, said), about, "{said}");
        }
        let param =
            UpstreamError { param: Some("prompt_cache_key".into()), ..UpstreamError::new("Invalid field") };
        assert_eq!(refused(Responses, 422, &param), ["prompt_cache_key"]);
        assert!(refused(Responses, 500, &param).is_empty());
    }

    #[test]
    fn only_members_of_the_dialect_are_left_out() {
        let body = concat!(
            r#"{"thinking":{"type":"adaptive"},"context_management":{},"cache_control":{"type":"ephemeral","ttl":"1h"},"#,
            r#""tools":[{"name":"f","strict":true,"input_schema":{"properties":{"ttl":1,"cache_control":2}},"cache_control":{"type":"ephemeral"}}],"#,
            r#""messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x","cache_control":{"ttl":"5m"}}]}]},"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","input":{"ttl":5,"cache_control":6}}]},{"role":"user","content":"cache_control"}]}"#
        );
        let cut = |member: &'static str| {
            let body = Node::parse(body).unwrap();
            without(Dialect::Messages, &body, member).map(|body| String::from_utf8(body.to_vec()).unwrap())
        };
        let with = |changes: &[(&str, &str)]| {
            changes.iter().fold(body.to_owned(), |body, (from, to)| body.replace(from, to))
        };
        assert_eq!(cut("ttl"), Some(with(&[(r#","ttl":"1h""#, ""), (r#"{"ttl":"5m"}"#, "{}")])));
        let marks = [
            (r#""cache_control":{"type":"ephemeral","ttl":"1h"},"#, ""),
            (r#","cache_control":{"type":"ephemeral"}"#, ""),
            (r#","cache_control":{"ttl":"5m"}"#, ""),
        ];
        assert_eq!(cut("cache_control"), Some(with(&marks)));
        let thinking = [(r#""thinking":{"type":"adaptive"},"context_management":{},"#, "")];
        assert_eq!(cut("thinking"), Some(with(&thinking)));
        assert_eq!(cut("context_management"), Some(with(&[(r#""context_management":{},"#, "")])));
        assert_eq!(cut("strict"), Some(with(&[(r#""strict":true,"#, "")])));
        assert_eq!((cut("metadata"), cut("defer_loading")), (None, None));
        let formed = Node::parse(r#"{"output_config":{"effort":"low","format":{}}}"#).unwrap();
        assert_eq!(without(Dialect::Messages, &formed, "output_config"), None);
        let cut = |dialect, body: &str, member| {
            let body = without(dialect, &Node::parse(body).unwrap(), member);
            body.map(|body| String::from_utf8(body.to_vec()).unwrap())
        };
        let formed = r#"{"output_config":{"effort":"low","format":{}}}"#;
        assert_eq!(cut(Dialect::Messages, formed, "effort").unwrap(), r#"{"output_config":{"format":{}}}"#);
        assert_eq!(
            cut(Dialect::Messages, r#"{"a":1,"output_config":{"effort":"low"}}"#, "effort").unwrap(),
            r#"{"a":1}"#
        );
        for (body, wanted) in [
            (r#"{"max_tokens":5,"a":1}"#, Some(r#"{"a":1,"max_completion_tokens":5}"#)),
            (r#"{"max_completion_tokens":5}"#, Some(r#"{"max_tokens":5}"#)),
            (r#"{"max_tokens":5,"max_completion_tokens":5}"#, None),
            ("{}", None),
        ] {
            assert_eq!(cut(Dialect::Chat, body, "max_tokens").as_deref(), wanted);
        }
        let given = r#"{"messages":[{"a":1, "b":2},{"extra_content":{},"tool_calls":[{"extra_content":{},"id":"c"}]}],"z":1}"#;
        assert_eq!(
            cut(Dialect::Chat, given, "extra_content").as_deref(),
            Some(r#"{"messages":[{"a":1, "b":2},{"tool_calls":[{"id":"c"}]}],"z":1}"#)
        );
        assert_eq!(cut(Dialect::Chat, given, "reasoning_content"), None);
        let asked = r#"{"reasoning":{"effort":"low","exclude":true},"messages":[{"reasoning":"t"}]}"#;
        let plain = r#"{"messages":[{}],"reasoning_effort":"low"}"#;
        assert_eq!(cut(Dialect::Chat, asked, "reasoning").as_deref(), Some(plain));
        for (member, body, wanted) in [
            (
                "reasoning",
                r#"{"reasoning":{},"include":["reasoning.encrypted_content"],"a":1}"#,
                Some(r#"{"a":1}"#),
            ),
            (
                "include",
                r#"{"reasoning":{},"include":["x","reasoning.encrypted_content"]}"#,
                Some(r#"{"reasoning":{},"include":["x"]}"#),
            ),
            ("include", r#"{"include":["x"]}"#, None),
        ] {
            assert_eq!(cut(Dialect::Responses, body, member).as_deref(), wanted);
        }
        for (body, wanted) in [
            (
                r#"{"reasoning":{"effort":"high","summary":"auto"},"a":1}"#,
                Some(r#"{"reasoning":{"effort":"high"},"a":1}"#),
            ),
            (r#"{"reasoning":{"effort":"high"}}"#, None),
            (r#"{"summary":"auto"}"#, None),
        ] {
            assert_eq!(cut(Dialect::Responses, body, "reasoning.summary").as_deref(), wanted);
        }
        let called = r#"{"contents":[{"role":"model","parts":[{"text":"id"},{"functionCall":{"id":"a","name":"f","args":{"id":1}},"thoughtSignature":"S"}]},{"role":"user","parts":[{"function_response":{"id":"a","name":"f","response":{"id":2}}}]}],"id":3}"#;
        let anonymous = called.replace(r#""id":"a","#, "");
        assert_eq!(cut(Dialect::Gemini, called, "functionCall.id"), Some(anonymous.clone()));
        assert_eq!(cut(Dialect::Gemini, &anonymous, "functionCall.id"), None);
        for (body, wanted) in [
            (
                r#"{"tools":[{"functionDeclarations":[]},{"googleSearch":{}}],"toolConfig":{"includeServerSideToolInvocations":true},"a":1}"#,
                Some(r#"{"tools":[{"functionDeclarations":[]}],"toolConfig":{},"a":1}"#),
            ),
            (
                r#"{"tools":[{"google_search":{}},{"functionDeclarations":[]}],"toolConfig":{"b":{},"includeServerSideToolInvocations":true}}"#,
                Some(r#"{"tools":[{"functionDeclarations":[]}],"toolConfig":{"b":{}}}"#),
            ),
            (r#"{"tools":[{"googleSearch":{}}]}"#, None),
            (r#"{"tools":[{"functionDeclarations":[]}]}"#, None),
        ] {
            assert_eq!(cut(Dialect::Gemini, body, SEARCH).as_deref(), wanted, "{body}");
        }
        let config = r#"{"generation_config":{"presencePenalty":1,"frequency_penalty":2,"thinkingConfig":{},"topK":1}}"#;
        for (word, wanted) in [
            ("thinking", r#"{"generation_config":{"presencePenalty":1,"frequency_penalty":2,"topK":1}}"#),
            ("penalty", r#"{"generation_config":{"thinkingConfig":{},"topK":1}}"#),
        ] {
            assert_eq!(cut(Dialect::Gemini, config, word).as_deref(), Some(wanted));
            assert_eq!(cut(Dialect::Gemini, r#"{"generationConfig":{"topK":1}}"#, word), None);
        }
        let plain = Node::parse(r#"{"output_config":{"effort":"low"},"model":"m"}"#).unwrap();
        assert_eq!(without(Dialect::Messages, &plain, "output_config").unwrap(), r#"{"model":"m"}"#);
    }
}
