//! What an upstream's words say about its failure (routing.md 9.5), whatever their case.
//!
//! | class | says |
//! |---|---|
//! | model | this channel does not have the model |
//! | protocol | this channel does not take this kind of request |
//! | validation | the request itself is wrong |
//! | timeout, transient | the upstream is unwell right now |
//! | credential, limit | what we come with does not do, or not any more |
//!
//! A text may be of several classes; who asks decides which comes first.

const MODEL: &[&str] = &[
    "unsupported model",
    "model not supported",
    "model is not supported",
    "does not support the model",
    "does not support model",
    "no such model",
    "unknown model",
    "invalid model",
    "unknown provider for model",
    "不支持所选模型",
];
/// Speak of the model as well, but say nothing of how well the upstream works.
const MODEL_ELSEWHERE: &[&str] = &[
    "model_not_found",
    "not have access to the model",
    "not have access to model",
    "no access to the model",
    "no access to model",
];
/// A start and, somewhere behind it, an end.
const MODEL_AROUND_NAME: &[(&str, &str)] =
    &[("model", "does not exist"), ("不支持", "模型"), ("模型", "不支持")];
/// What follows the name of a model, with little between: "model x is not supported".
const MODEL_LACKING: &[&str] = &["not supported", "not found", "not available"];
/// Before "model" these say that something else is lacking: "max_tokens for model x is not supported".
const OF_MODEL: &[&str] = &["with", "for", "on", "by", "in", "of", "from", "to"];
/// What a request asks of a model. Where one of these stands, no name does: "model tools not supported".
const ASKED_OF_MODEL: &[&str] = &[
    "audio",
    "feature",
    "file",
    "format",
    "function",
    "image",
    "input",
    "output",
    "reasoning",
    "response_format",
    "schema",
    "stream",
    "streaming",
    "system",
    "temperature",
    "thinking",
    "tool",
    "tool_choice",
    "top_k",
    "top_p",
    "video",
    "vision",
];
const PROTOCOL: &[&str] = &[
    "unsupported legacy protocol",
    "please use /v1/responses",
    "please use /v1/messages",
    "please use /v1/chat/completions",
    "unsupported endpoint",
    "unsupported path",
    "unknown endpoint",
    "unrecognized request url",
    "no route matched",
];
const PROTOCOL_AROUND_PATH: &[(&str, &str)] = &[("does not allow /v1/", "dispatch")];
const VALIDATION: &[&str] = &[
    "invalid request body",
    "validation",
    "missing required",
    "required parameter",
    "unknown parameter",
    "unrecognized field",
    "unrecognized key",
    "unrecognized parameter",
    "malformed",
    "invalid json",
    "cannot parse",
    "unsupported media type",
];
/// The bare word timeout does not count: it may be a parameter.
const TIMEOUT: &[&str] =
    &["request timed out", "connection timed out", "read timeout", "first byte timeout", "timed out"];
const TRANSIENT: &[&str] = &[
    "bad gateway",
    "gateway time-out",
    "gateway timeout",
    "service unavailable",
    "temporarily unavailable",
    "overloaded",
    "connection reset",
    "connection refused",
    "econnreset",
    "econnrefused",
];
const CREDENTIAL: &[&str] = &["invalid api key", "invalid_api_key", "invalid access token", "forbidden"];
const LIMIT: &[&str] = &["rate limit", "rate_limit", "too many requests", "quota"];
const USED_UP: &[&str] = &["usage_limit_reached", "quota exceeded"];

/// The words of a failure, ready to be asked.
pub struct ErrorText(String);

impl ErrorText {
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    /// The channel does not have the model.
    pub fn is_about_model(&self) -> bool {
        self.says(MODEL) || self.says_around(MODEL_AROUND_NAME)
    }

    /// Another channel may have the model.
    pub fn sends_model_elsewhere(&self) -> bool {
        self.is_about_model() || self.says(MODEL_ELSEWHERE) || self.names_lacking_model()
    }

    /// It refuses the dialect or the path, not the request.
    pub fn is_about_protocol(&self) -> bool {
        self.says(PROTOCOL) || self.says_around(PROTOCOL_AROUND_PATH)
    }

    /// It refuses a value of the request.
    pub fn is_about_validation(&self) -> bool {
        self.says(VALIDATION)
    }

    /// Something took too long.
    pub fn is_timeout(&self) -> bool {
        self.says(TIMEOUT)
    }

    /// The same request may be answered a little later.
    pub fn is_transient(&self) -> bool {
        self.says(TRANSIENT) || self.is_timeout()
    }

    /// It refuses our credential at the upstream.
    pub fn is_about_credential(&self) -> bool {
        self.says(CREDENTIAL)
    }

    /// Too many requests or tokens, now or for a longer time.
    pub fn is_about_limit(&self) -> bool {
        self.says(LIMIT)
    }

    /// Of a 429: not too fast, but used up.
    pub fn is_used_up(&self) -> bool {
        self.says(USED_UP) || self.0.split(|c: char| !c.is_alphanumeric()).any(|word| word == "limit")
    }

    /// "model", at most its name and "is", and then that it is lacking. A text that speaks of a
    /// parameter of a model, or of what it is to do, is not meant: the request is wrong there.
    fn names_lacking_model(&self) -> bool {
        self.0.match_indices("model").any(|(at, model)| {
            let before = &self.0[..at];
            let mut words_before = before.split_whitespace().rev().take(3);
            let after = &self.0[at + model.len()..];
            let is_a_word = !before.ends_with(['-', '_']) && !after.starts_with(['-', '_']);
            let lacks = MODEL_LACKING.iter().filter_map(|phrase| after.find(phrase)).min();
            is_a_word
                && !words_before.any(|word| OF_MODEL.contains(&word))
                && lacks.is_some_and(|lacks| {
                    let between = &after[..lacks];
                    let words = || between.split_whitespace();
                    let mut names = words().filter(|word| !matches!(*word, "is" | "was" | "currently" | ":"));
                    !between.contains("parameter")
                        && !words().any(is_asked_of_model)
                        && names.nth(1).is_none()
                })
        })
    }

    fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.0.contains(phrase))
    }

    fn says_around(&self, pairs: &[(&str, &str)]) -> bool {
        pairs
            .iter()
            .any(|(start, end)| self.0.find(start).is_some_and(|at| self.0[at + start.len()..].contains(end)))
    }
}

/// In the singular or the plural. What stands in quotes is a name.
fn is_asked_of_model(word: &str) -> bool {
    let word = word.trim_end_matches([',', ';', ':', '.']);
    let one = word.strip_suffix('s').unwrap_or(word);
    ASKED_OF_MODEL.contains(&word) || ASKED_OF_MODEL.contains(&one)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The classes of a text, by their first letters: Model, (model) Elsewhere, Protocol, Validation,
    /// tImeout, Transient, Credential, Limit.
    fn classes(text: &str) -> String {
        let text = ErrorText::new(text);
        [
            (text.is_about_model(), 'M'),
            (text.sends_model_elsewhere(), 'E'),
            (text.is_about_protocol(), 'P'),
            (text.is_about_validation(), 'V'),
            (text.is_timeout(), 'I'),
            (text.is_transient(), 'T'),
            (text.is_about_credential(), 'C'),
            (text.is_about_limit(), 'L'),
        ]
        .into_iter()
        .filter_map(|(is, letter)| is.then_some(letter))
        .collect()
    }

    #[test]
    fn every_phrase_is_of_its_class_whatever_its_case() {
        for (texts, expected) in [
            (
                vec![
                    "Unsupported model: x",
                    "model not supported",
                    "This group does not support the model x",
                    "it does not support model x",
                    "no such model",
                    "UNKNOWN MODEL",
                    "invalid model",
                    "unknown provider for model x",
                    "The model `x` does not exist",
                    "不支持所选模型",
                    "当前分组不支持 gpt-9 模型",
                    "模型 gpt-9 暂不支持",
                ],
                "ME",
            ),
            (
                vec![
                    "model_not_found",
                    "You do not have access to the model x",
                    "Project `p` does not have access to model `x`",
                    "The requested model 'gpt-4.1' is not supported.",
                    "model \"llama3:8b\" not found, try pulling it first",
                    "models/gemini-9 is not found for API version v1beta",
                    "Model x is currently not available",
                    "model 'vision' is not supported",
                    "model vision-2 not supported",
                ],
                "E",
            ),
            (
                vec![
                    "Unsupported legacy protocol",
                    "please use /v1/responses",
                    "please use /v1/messages",
                    "Please use /v1/chat/completions",
                    "this group does not allow /v1/messages dispatch",
                    "unsupported endpoint",
                    "unsupported path",
                    "unknown endpoint",
                    "Unrecognized request URL (POST /v1/foo)",
                    "no Route matched with those values",
                ],
                "P",
            ),
            (
                vec![
                    "Invalid request body",
                    "validation failed",
                    "missing required field",
                    "required parameter: messages",
                    "unknown parameter",
                    "unrecognized field",
                    "unrecognized key",
                    "unrecognized parameter",
                    "malformed",
                    "invalid JSON",
                    "cannot parse",
                    "Unsupported Media Type",
                ],
                "V",
            ),
            (
                vec!["Request timed out", "connection timed out", "read timeout", "First byte timeout (3s)"],
                "IT",
            ),
            (
                vec![
                    "502 Bad Gateway",
                    "Gateway Time-out",
                    "Service Unavailable",
                    "temporarily unavailable",
                    "system cpu overloaded",
                    "connection reset by peer",
                    "Connection refused (os error 111)",
                    "ECONNRESET",
                    "econnrefused",
                ],
                "T",
            ),
            (vec!["Invalid API key", "invalid access token", "Forbidden"], "C"),
            (vec!["Rate limit reached", "Too Many Requests", "insufficient quota"], "L"),
            (
                vec![
                    "timeout must be <= 60",
                    "invalid timeout parameter",
                    "not found",
                    "'max_tokens' is not supported with this model.",
                    "Tool use for model x is not supported",
                    "Tool use with the selected model gpt-x is not supported",
                    "multi-model input is not supported",
                    "model_kwargs is not supported",
                    "the file for the model was not found",
                    "The model parameter top_k is not supported",
                    "the model answered that your file was not found",
                    "model tools not supported",
                    "Model streaming is not supported",
                    "model: temperature not supported",
                    "",
                ],
                "",
            ),
        ] {
            for text in texts {
                assert_eq!(classes(text), expected, "{text}");
            }
        }
    }
}
