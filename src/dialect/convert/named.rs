//! Names the field at fault as the client calls it, and finds the client's members that are unknown.
//!
//! A writer that cannot express something does not know the client's dialect: it names the field as chat does. A client
//! of another dialect sent no such field, so the error names that dialect's own.

use crate::dialect::Dialect;
use crate::dialect::canonical::ConversionError;
use crate::dialect::responses::included;
use crate::dialect::tree::Node;

/// Returns an error about a request with the field's name in the client's dialect, `from`.
pub(super) fn in_words_of(from: Dialect, body: &Node<'_>, unfit: ConversionError) -> ConversionError {
    match unfit {
        ConversionError::Unsupported { field, form } => {
            ConversionError::unsupported_form(word(from, body, field), form)
        }
        ConversionError::Invalid { field, message } => {
            let own = word(from, body, field.clone());
            let problem = message.strip_prefix(&field).map(|rest| format!("{own}{rest}"));
            ConversionError::Invalid { field: own, message: problem.unwrap_or(message) }
        }
    }
}

fn word(from: Dialect, body: &Node<'_>, field: String) -> String {
    let own = match (from, field.as_str()) {
        (Dialect::Gemini, "n") => "candidateCount",
        (Dialect::Gemini, "stop") => "generationConfig.stopSequences",
        (Dialect::Gemini, "response_format") => "generationConfig.responseJsonSchema",
        (Dialect::Messages, "response_format") => "output_config.format",
        (Dialect::Messages, "stop") => "stop_sequences",
        (Dialect::Gemini, "logprobs") => "responseLogprobs",
        (Dialect::Gemini, "messages") => "contents",
        (Dialect::Gemini, "input_audio" | "image_url" | "file") => "inlineData",
        (Dialect::Gemini, "file_url") => "fileData",
        (Dialect::Responses, "logprobs") if includes_logprobs(body) => "include",
        (Dialect::Responses, "logprobs") => "top_logprobs",
        (Dialect::Responses, "messages") => "input",
        (Dialect::Responses, "image_url") => "input_image",
        (Dialect::Responses, "file") => "input_file",
        (Dialect::Completions, "messages") => "prompt",
        (Dialect::Messages, "image_url") => "image",
        (Dialect::Messages, "file") => "document",
        (Dialect::Messages, "file_url") => "document.source.url",
        _ => return field,
    };
    own.to_owned()
}

/// Whether a responses request asks for log probabilities by `include`, one of its two ways.
fn includes_logprobs(body: &Node<'_>) -> bool {
    included(body).iter().any(|word| word.is("message.output_text.logprobs"))
}

/// Members that chat and responses share.
const OPENAI: [&str; 31] = [
    "model",
    "messages",
    "input",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_completion_tokens",
    "max_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "reasoning",
    "reasoning_effort",
    "reasoning_summary",
    "reasoning_budget",
    "verbosity",
    "user",
    "safety_identifier",
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "store",
    "truncation",
    "include",
    "background",
    "previous_response_id",
    "max_tool_calls",
    "response_format",
];
const CHAT: [&str; 15] = [
    "functions",
    "function_call",
    "web_search_options",
    "top_k",
    "stop",
    "n",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "thinking",
    "modalities",
    "audio",
    "prediction",
];
const RESPONSES: [&str; 7] = [
    "instructions",
    "prompt",
    "text",
    "max_output_tokens",
    "conversation",
    "context_management",
    "client_metadata",
];
const MESSAGES: [&str; 22] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "stream",
    "tools",
    "tool_choice",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "thinking",
    "output_config",
    "output_format",
    "metadata",
    "service_tier",
    "mcp_servers",
    "container",
    "context_management",
    "betas",
    "previous_response_id",
    "prompt_cache_key",
];
const COMPLETIONS: [&str; 18] = [
    "model",
    "prompt",
    "best_of",
    "echo",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "suffix",
    "temperature",
    "top_p",
    "user",
];
const GEMINI: [&str; 12] = [
    "reasoningeffort",
    "reasoning",
    "reasoningbudget",
    "contents",
    "systeminstruction",
    "generationconfig",
    "tools",
    "toolconfig",
    "safetysettings",
    "cachedcontent",
    "labels",
    "model",
];

/// Returns the outermost members of a body that its dialect does not have. No other dialect has them either, so a
/// conversion leaves them out.
pub(super) fn unknown(from: Dialect, body: &Node<'_>) -> Vec<String> {
    let is_known = |key: &str| match from {
        Dialect::Chat => OPENAI.contains(&key) || CHAT.contains(&key),
        Dialect::Responses => OPENAI.contains(&key) || RESPONSES.contains(&key),
        Dialect::Messages => MESSAGES.contains(&key),
        Dialect::Completions => COMPLETIONS.contains(&key) || key == "top_k",
        // Google accepts camel case and snake case.
        _ => GEMINI.contains(&key.replace('_', "").to_ascii_lowercase().as_str()),
    };
    let unknown = body.members().iter().filter(|(key, _)| !is_known(key));
    unknown.map(|(key, _)| key.clone().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dialect_does_not_have_is_named() {
        for (from, body, wanted) in [
            (Dialect::Chat, r#"{"model":"m","novelty":1,"seed":2,"system":"x"}"#, &["novelty", "system"][..]),
            (Dialect::Responses, r#"{"input":"x","text":{}}"#, &[]),
            (Dialect::Messages, r#"{"max_tokens":1,"seed":1}"#, &["seed"]),
            (Dialect::Completions, r#"{"prompt":"x","min_tokens":1,"echo":true}"#, &["min_tokens"]),
            (
                Dialect::Gemini,
                r#"{"contents":[],"system_instruction":{},"systemInstruction":{},"x":1}"#,
                &["x"],
            ),
        ] {
            assert_eq!(unknown(from, &Node::parse(body).unwrap()), wanted, "{body}");
        }
    }

    #[test]
    fn a_client_reads_its_own_word() {
        let nothing = Node::parse("{}").unwrap();
        for (from, field, wanted) in [
            (Dialect::Chat, "n", "n"),
            (Dialect::Gemini, "n", "candidateCount"),
            (Dialect::Responses, "messages", "input"),
            (Dialect::Completions, "messages", "prompt"),
            (Dialect::Messages, "file_url", "document.source.url"),
            (Dialect::Messages, "mcp_servers", "mcp_servers"),
        ] {
            assert_eq!(
                in_words_of(from, &nothing, ConversionError::unsupported(field)),
                ConversionError::unsupported(wanted)
            );
        }
        let mute = ConversionError::invalid("messages", "must have at least one message with content");
        let said = in_words_of(Dialect::Gemini, &nothing, mute);
        assert_eq!(said, ConversionError::invalid("contents", "must have at least one message with content"));
    }
}
