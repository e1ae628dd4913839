//! What upstreams say of members and forms of a request that they do not take. Texts are in lower case.

use super::has;

/// Words about a member that Anthropic, OpenAI, or who speaks their dialect does not know.
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
/// A member that a model has no use for, whatever it says.
const NEVER_TAKEN: [&str; 6] = [
    "extra inputs",
    "unknown",
    "unrecognized",
    "unsupported parameter",
    "not supported with this model",
    "does not support",
];
/// OpenAI, of one value of a member, and of who asks.
const NEVER_TAKEN_FROM_US: [&str; 2] = ["only the default", "organization must be verified"];
/// A value may be what is wrong, or what stands beside the member.
const SOMETIMES_TAKEN: [&str; 3] = ["value", "both", "when"];
/// Words about anything in a request of responses that an upstream does not know. The last two stand for whatever a hub's own
/// upstream refused.
const UNKNOWN_TO_RESPONSES: [&str; 6] = [
    "unsupported",
    "unknown parameter",
    "unrecognized",
    "validation failed",
    "bad_response_status_code",
    "openai_error",
];
/// The names of the header.
const CONTENT_TYPE: [&str; 2] = ["content-type", "content type"];
const MEDIA_TYPE: [&str; 2] = ["media type", "application/json"];
/// Parts of a message, whose type may be another than is allowed where they stand.
const PARTS: [&str; 5] = ["image_url", "input_image", "input_audio", "input_file", "file_data"];
/// OpenAI, of reasoning that another account encrypted.
const ENCRYPTED: [&str; 2] = ["encrypted content", "encrypted_content"];
/// Google, of calls that no model of its own signed.
const CALL_SIGNATURES: [&str; 2] = ["thought_signature", "thoughtsignature"];
/// Vertex, of the ids of calls and results.
const CALL_IDS: [&str; 2] = [".function_call'", ".function_response'"];
/// Google, of budgets that a model does not take ("The thinking budget 9 is invalid", "Budget 0 is invalid").
const THINKING_BUDGETS: [&str; 3] = ["thinking budget", "thinking_budget", "budget 0"];
const NOT_TAKEN: [&str; 2] = ["invalid", "out of range"];
/// Anthropic: which form of thinking was asked for.
const THINKING_FORMS: [&str; 5] = ["adaptive", "enabled", "budget_tokens", "thinking.type", "effort"];
/// Anthropic, of other things about thinking: a budget too large, a block that is missing.
const NOT_OF_THE_FORM: [&str; 4] = ["max_tokens", "must start with", "signature", "tool_choice"];
/// Anthropic, of blocks of thinking in the conversation.
const THINKING_BLOCKS: [&str; 3] = ["signature", "expected `thinking`", "must start with a thinking block"];
/// Anthropic, of the schema for the answer.
const SCHEMAS: [&str; 4] = ["output_config", "output_format", "output format", "structured output"];

/// A member is refused because it is not known; any other refusal may be about its value.
pub fn is_of_unknown_member(text: &str) -> bool {
    has(text, &UNKNOWN_MEMBER)
}

/// A member is refused whatever its value, and whatever stands beside it. The text is in lower case.
pub fn never_takes_member(text: &str) -> bool {
    has(text, &NEVER_TAKEN_FROM_US) || has(text, &NEVER_TAKEN) && !has(text, &SOMETIMES_TAKEN)
}

/// Something in a request of responses is not known.
pub fn is_of_something_unknown(text: &str) -> bool {
    has(text, &UNKNOWN_TO_RESPONSES) || has(text, &CONTENT_TYPE)
}

/// The type of the body is not the one that is wanted, as far as its headers say.
pub fn is_of_content_type(text: &str) -> bool {
    (has(text, &CONTENT_TYPE) || has(text, &MEDIA_TYPE)) && !has(text, &PARTS)
}

/// The body has no messages, as far as the upstream sees.
pub fn misses_messages(text: &str) -> bool {
    text.contains("messages is required")
}

/// Reasoning of earlier turns cannot be read.
pub fn cannot_decrypt(text: &str) -> bool {
    has(text, &ENCRYPTED)
}

/// A call lacks its signature.
pub fn misses_call_signature(text: &str) -> bool {
    has(text, &CALL_SIGNATURES)
}

/// The id of a call, or of its result, is not known.
pub fn is_of_call_id(text: &str) -> bool {
    text.contains("unknown name \"id\" at 'contents[") && has(text, &CALL_IDS)
}

/// The number of tokens to think with is none that the model takes.
pub fn is_of_thinking_budget(text: &str) -> bool {
    has(text, &THINKING_BUDGETS) && has(text, &NOT_TAKEN)
}

/// OpenAI, of models that reason: they take the limit of an answer by another name.
pub fn wants_completion_limit(text: &str) -> bool {
    text.contains("max_completion_tokens")
}

/// The form is refused in which thinking is asked for.
pub fn is_of_thinking_form(text: &str) -> bool {
    (text.contains("thinking") || text.contains("output_config"))
        && has(text, &THINKING_FORMS)
        && !has(text, &NOT_OF_THE_FORM)
}

/// Thinking in the conversation is refused, or is missing there.
pub fn is_of_thinking_blocks(text: &str) -> bool {
    text.contains("thinking") && has(text, &THINKING_BLOCKS)
}

/// Anthropic, of a schema that says what a strict one may not.
pub fn is_of_words_in_schema(text: &str) -> bool {
    has(text, &["propert", "schema"])
}

/// The schema for the answer is refused. Efforts, which stand in `output_config` too, are refused by their name.
pub fn is_of_schema(text: &str) -> bool {
    has(text, &SCHEMAS) && !text.contains("effort")
}
