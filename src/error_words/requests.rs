//! Classifies what upstreams say about members and forms of a request that they do not accept. Texts must be in lower
//! case.

use super::has;

/// Phrases about a member that Anthropic, OpenAI, or an upstream with their dialect does not know.
const UNKNOWN_MEMBER: [&str; 13] = [
    "extra inputs",
    "not permitted",
    "unknown",
    "unrecognized",
    "unsupported",
    "not supported",
    "unexpected",
    "not allowed",
    "deprecated",
    "cannot both be specified",
    "does not support",
    "only allowed when",
    "not enabled",
];
/// Phrases about a member that a model does not accept, whatever its value.
const NEVER_TAKEN: [&str; 7] = [
    "extra inputs",
    "unknown",
    "unrecognized",
    "unsupported parameter",
    "not supported with this model",
    "does not support",
    "server_side_tool_invocations",
];
/// OpenAI's phrases about a member with only one accepted value, and about the caller.
const NEVER_TAKEN_FROM_US: [&str; 2] = ["only the default", "organization must be verified"];
/// Words that show that the value may be wrong, or something beside the member.
const SOMETIMES_TAKEN: [&str; 3] = ["value", "both", "when"];
/// Anthropic's phrases about a conversation that is too long. Google's is "The input token count (1200000) exceeds the maximum
/// number of tokens allowed (1048576)."
const LONG_PROMPTS: [&str; 2] = ["prompt is too long", "exceed context limit"];
/// Phrases about anything in a request of the responses dialect that an upstream does not know. The last two stand
/// for whatever a hub's own upstream refused.
const UNKNOWN_TO_RESPONSES: [&str; 6] = [
    "unsupported",
    "unknown parameter",
    "unrecognized",
    "validation failed",
    "bad_response_status_code",
    "openai_error",
];
/// OpenAI's phrases about pictures and files that it cannot read.
const UNREADABLE: [&str; 5] = [
    "unsupported image",
    "unsupported file",
    "unsupported mime type",
    "invalid_image_format",
    "image_parse_error",
];
/// The names of the header.
const CONTENT_TYPE: [&str; 2] = ["content-type", "content type"];
const MEDIA_TYPE: [&str; 2] = ["media type", "application/json"];
/// Parts of a message, whose type may be one that is not allowed where they stand.
const PARTS: [&str; 5] = ["image_url", "input_image", "input_audio", "input_file", "file_data"];
/// OpenAI's phrases about reasoning that another account encrypted.
const ENCRYPTED: [&str; 2] = ["encrypted content", "encrypted_content"];
/// Google's phrases about calls that no model of its own signed.
const CALL_SIGNATURES: [&str; 2] = ["thought_signature", "thoughtsignature"];
/// Vertex's phrases about the ids of calls and results.
const CALL_IDS: [&str; 2] = [".function_call'", ".function_response'"];
/// Google's phrases about budgets that a model does not accept ("The thinking budget 9 is invalid", "Budget 0 is
/// invalid").
const THINKING_BUDGETS: [&str; 3] = ["thinking budget", "thinking_budget", "budget 0"];
const NOT_TAKEN: [&str; 2] = ["invalid", "out of range"];
/// Google's and Vertex's phrases about a search beside functions.
const SEARCH_BESIDE_FUNCTIONS: [&str; 4] = [
    "server_side_tool_invocations",
    "serversidetoolinvocations",
    "tool use with function calling is unsupported",
    "only when they are all search tools",
];
/// Anthropic's words for the form in which thinking was asked for.
const THINKING_FORMS: [&str; 5] = ["adaptive", "enabled", "budget_tokens", "thinking.type", "effort"];
/// Anthropic's words for other things about thinking: a budget that is too large, a block that is missing.
const NOT_OF_THE_FORM: [&str; 4] = ["max_tokens", "must start with", "signature", "tool_choice"];
/// Anthropic's phrases about blocks of thinking in the conversation.
const THINKING_BLOCKS: [&str; 4] = [
    "signature",
    "expected `thinking`",
    "must start with a thinking block",
    "final block in an assistant message",
];
/// Anthropic's words for the schema of the answer.
const SCHEMAS: [&str; 4] = ["output_config", "output_format", "output format", "structured output"];

/// Returns whether the conversation is longer than what the model can read.
pub fn is_of_long_prompt(text: &str) -> bool {
    has(text, &LONG_PROMPTS) || text.contains("input token count") && text.contains("exceeds the maximum")
}

/// Returns whether a member is refused because it is not known; any other refusal may be about its value.
pub fn is_of_unknown_member(text: &str) -> bool {
    has(text, &UNKNOWN_MEMBER)
}

/// Returns whether a member is refused whatever its value, and whatever stands beside it. The text is in lower case.
pub fn never_takes_member(text: &str) -> bool {
    has(text, &NEVER_TAKEN_FROM_US) || has(text, &NEVER_TAKEN) && !has(text, &SOMETIMES_TAKEN)
}

/// Returns whether something in a request of the responses dialect is not known. A picture or file that the model cannot
/// read is the client's mistake.
pub fn is_of_something_unknown(text: &str) -> bool {
    (has(text, &UNKNOWN_TO_RESPONSES) || has(text, &CONTENT_TYPE)) && !has(text, &UNREADABLE)
}

/// Returns whether the type of the body, as its headers name it, is not the required one.
pub fn is_of_content_type(text: &str) -> bool {
    (has(text, &CONTENT_TYPE) || has(text, &MEDIA_TYPE)) && !has(text, &PARTS)
}

/// Returns whether values of the header `anthropic-beta` are refused: Anthropic names them, Bedrock does not ("invalid beta
/// flag").
pub fn is_of_betas(text: &str) -> bool {
    text.contains("anthropic-beta") || text.contains("beta flag")
}

/// Returns the betas that a text names. A beta ends with its day: `context-1m-2025-08-07`.
pub fn named_betas(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let is_beta = |word: &&str| {
        let day = word.len().checked_sub("-2025-08-07".len()).and_then(|at| word.get(at..));
        day.is_some_and(|day| {
            day.bytes().zip("-0000-00-00".bytes()).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                dash => byte == dash,
            })
        })
    };
    words.filter(is_beta).map(str::to_owned).collect()
}

/// Returns whether the id of a call has a character that the upstream does not accept: "messages.1.content.0.tool_use.id:
/// String should match pattern '^[a-zA-Z0-9_-]+$'".
pub fn is_of_call_ids(text: &str) -> bool {
    text.contains("should match pattern") && (text.contains("tool_use.id") || text.contains("tool_use_id"))
}

/// Returns whether the upstream sees no messages in the body.
pub fn misses_messages(text: &str) -> bool {
    text.contains("messages is required")
}

/// Returns whether reasoning of earlier turns cannot be decrypted, or is not found by its id, as OpenAI says it: "Item with id
/// 'rs_1' not found."
pub fn cannot_use_reasoning(text: &str) -> bool {
    has(text, &ENCRYPTED) || text.contains("item with id 'rs_") && text.contains("not found")
}

/// Returns whether a call lacks its signature.
pub fn misses_call_signature(text: &str) -> bool {
    has(text, &CALL_SIGNATURES)
}

/// Returns whether the id of a call, or of its result, is not known.
pub fn is_of_call_id(text: &str) -> bool {
    text.contains("unknown name \"id\" at 'contents[") && has(text, &CALL_IDS)
}

/// Returns whether the model does not accept the number of tokens for thinking.
pub fn is_of_thinking_budget(text: &str) -> bool {
    has(text, &THINKING_BUDGETS) && has(text, &NOT_TAKEN)
}

/// Returns whether a search is refused because there are functions beside it.
pub fn is_of_search_beside_functions(text: &str) -> bool {
    has(text, &SEARCH_BESIDE_FUNCTIONS)
}

/// Returns whether the limit of the answer must have its other name, as OpenAI's reasoning models require.
pub fn wants_completion_limit(text: &str) -> bool {
    text.contains("max_completion_tokens")
}

/// Returns whether the form in which thinking is asked for is refused.
pub fn is_of_thinking_form(text: &str) -> bool {
    (text.contains("thinking") || text.contains("output_config"))
        && has(text, &THINKING_FORMS)
        && !has(text, &NOT_OF_THE_FORM)
}

/// Returns whether thinking in the conversation is refused, or is missing there.
pub fn is_of_thinking_blocks(text: &str) -> bool {
    text.contains("thinking") && has(text, &THINKING_BLOCKS)
}

/// Returns whether a schema has something that Anthropic does not allow in a strict one.
pub fn is_of_words_in_schema(text: &str) -> bool {
    has(text, &["propert", "schema"])
}

/// Returns whether the schema of the answer is refused. Efforts, which stand in `output_config` too, are refused by
/// their name.
pub fn is_of_schema(text: &str) -> bool {
    has(text, &SCHEMAS) && !text.contains("effort")
}
