//! Classifies an upstream's failure by its words, in any case of letters.
//!
//! | class | meaning |
//! |---|---|
//! | model | this channel does not have the model |
//! | protocol | this channel does not accept this kind of request |
//! | validation | the request itself is wrong |
//! | timeout, transient | the upstream is in trouble right now |
//! | credential, limit | our credential or our quota is not accepted, or not any more |
//!
//! A text may be of several classes; the caller decides which comes first. Words that also stand in the request do
//! not count: upstreams quote what they refuse, and a client must not speak for its upstream.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use super::echo::Echo;
use super::has;

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
    "model not exist",
    "is not a valid model",
    "不支持所选模型",
    "模型不存在",
    "模型已下线",
];
/// Phrases that are about the model as well, but say nothing of how well the upstream works.
const MODEL_ELSEWHERE: &[&str] = &[
    "model_not_found",
    "not have access to the model",
    "not have access to model",
    "no access to the model",
    "no access to model",
    "no endpoints found",
    "ratio or price not set",
    "倍率或价格未配置",
];
/// Google's phrase when a model has no free machine in one of its regions.
const NO_CAPACITY: &[&str] = &["no capacity available"];
/// Anthropic's own message, which has the name of the model and nothing else: `model: claude-9`, and its type.
const MODEL_IS_ALL: (&str, &str) = ("model: ", "not_found_error");
/// Pairs of a start and an end that stands somewhere after it.
const MODEL_AROUND_NAME: &[(&str, &str)] =
    &[("model", "does not exist"), ("不支持", "模型"), ("模型", "不支持")];
/// The subjects of texts about a model, which every request names.
const SUBJECTS: &[&str] = &["model", "模型"];
/// Phrases that follow the name of a model, with little between: "model x is not supported".
const MODEL_LACKING: &[&str] = &["not supported", "not found", "not available"];
/// Words that, before "model", show that something else is lacking: "max_tokens for model x is not supported".
const OF_MODEL: &[&str] = &["with", "for", "on", "by", "in", "of", "from", "to"];
/// What a request asks of a model. Where one of these words stands, it is not a name: "model tools not supported".
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
/// Phrases with which hubs and vendors alike refuse a path.
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
/// Phrases that refuse a dialect as well, but may come from further up: from the upstream that a hub asks in its
/// turn.
const DIALECT: &[&str] = &[
    "convert_request_failed",
    "endpoint_not_found",
    "endpoint not found",
    "path not found",
    "unknown_endpoint",
    "unsupported_endpoint",
    "unsupported_path",
    "bad_response_status_code",
    "unsupported media type",
    "only application/json",
    "not implemented",
    "please use /v1/",
    "operationnotsupported",
    "completions api is only available",
];
/// Phrases that refuse a dialect, or something else.
const PERHAPS_DIALECT: &[&str] = &["not found", "not_found", "does not exist"];
/// Phrases that name the surface of responses. OpenAI names its surfaces without the leading slash; hubs that convert
/// name the member that they miss.
const RESPONSES: &[&str] = &["v1/responses", "input is required"];
const MESSAGES: &[&str] = &["v1/messages", "messages is required"];
const CHAT: &[&str] = &["v1/chat/completions"];
const OTHER_BODY: &[&str] = &["messages is required", "input is required"];
/// Phrases of OpenAI and of hubs about an earlier answer that they do not have.
const FORGOTTEN: &[&str] = &["previous_response_not_found", "previous response with id"];
const PROTOCOL_AROUND_PATH: &[(&str, &str)] = &[
    ("does not allow /v1/", "dispatch"),
    ("dispatch", "not allowed"),
    ("dispatch", "not permitted"),
    ("dispatch", "denied"),
    ("not allowed", "dispatch"),
];
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
/// Phrases of a timeout. The bare word does not count: it may be a parameter.
const TIMEOUT: &[&str] =
    &["request timed out", "connection timed out", "read timeout", "first byte timeout", "timed out"];
/// Phrases of gateways and balancers on the way, and of vendors under load.
const UNWELL: &[&str] = &[
    "bad gateway",
    "gateway time-out",
    "gateway timeout",
    "service unavailable",
    "temporarily unavailable",
    "overloaded",
    "connection reset",
    "connection refused",
    "负载过高",
    "负载已饱和",
];
/// Names of system errors as Node passes them on.
const CONNECTION_ERRORS: &[&str] = &["econnreset", "econnrefused"];
const CREDENTIAL: &[&str] = &[
    "invalid api key",
    "invalid_api_key",
    "api key not valid",
    "invalid access token",
    "forbidden",
    "organization has been disabled",
    "credential is only authorized for",
    "organization must be verified",
    "user location is not supported",
    "无效的令牌",
    "该令牌已过期",
    "该令牌状态不可用",
];
const TOO_MUCH: &[&str] = &["rate limit", "too many requests", "quota"];
/// Further phrases of OpenAI, Anthropic and Chinese hubs: too little is left, or a bill is unpaid.
const LIMIT: &[&str] = &[
    "rate_limit",
    "credit balance is too low",
    "api usage limits",
    "out of extra usage",
    "draw from your extra usage",
    "额度不足",
    "额度已用尽",
    "余额不足",
    "欠费",
];
/// Further phrases of a busy upstream, which count only beside a status that says so.
const BUSY: &[&str] = &["429", "timed out", "first byte timeout"];
const USED_UP: &[&str] =
    &["usage_limit_reached", "quota exceeded", "insufficient_quota", "exceeded your current quota"];

/// Phrases of a 403 or 429 that refuses what one request asks for or refers to, and says nothing of other requests: a context
/// of a million tokens at Anthropic, OpenAI's flex processing (its code), a file or cache of another project at Google.
const OPTION: &[&str] = &[
    "extra usage is required for long context",
    "resource_unavailable",
    "permission to access the file",
    "cachedcontent not found",
];

/// The whole message of a hub whose own upstream failed.
const UPSTREAM_FAILED: &str = "upstream_error";

/// The words of a failure, ready to be classified.
#[derive(Debug, Default)]
pub struct ErrorText {
    /// The message, then the names, in lower case.
    text: String,
    /// The position in `text` at which the names begin.
    names_at: usize,
    /// The request of the client, in pieces. The text is compared with it once it has a phrase that counts.
    request: Vec<Bytes>,
    echo: OnceLock<Echo>,
}

impl ErrorText {
    /// Creates the text of an upstream's message, in which only ASCII letters are put into lower case.
    pub fn new(message: &str) -> Self {
        let text = message.to_ascii_lowercase();
        Self { names_at: text.len(), text, ..Self::default() }
    }

    /// Adds the names (`type`, `code`) that the upstream gave the error beside the message. No client writes these.
    pub fn named<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        for name in names {
            self.text.push(' ');
            self.text.push_str(&name.to_ascii_lowercase());
        }
        self
    }

    /// Sets the request that this text answers; words that stand in the request do not count.
    pub fn answers(&mut self, request: Vec<Bytes>) {
        (self.request, self.echo) = (request, OnceLock::new());
    }

    /// Returns the whole text, in lower case.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the channel does not have the model.
    pub fn is_about_model(&self) -> bool {
        self.says(MODEL) || self.says_around(MODEL_AROUND_NAME)
    }

    /// Returns whether another channel may have the model.
    pub fn sends_model_elsewhere(&self) -> bool {
        self.is_about_model()
            || self.says(MODEL_ELSEWHERE)
            || self.names_lacking_model()
            || self.says_model_alone()
    }

    /// Returns whether the text refuses the dialect or the path, not the request.
    pub fn is_about_protocol(&self) -> bool {
        self.says(PROTOCOL) || self.says_around(PROTOCOL_AROUND_PATH)
    }

    /// Returns whether the text refuses the dialect, whatever its status.
    pub fn refuses_dialect(&self) -> bool {
        self.says(PROTOCOL) || self.says(DIALECT)
    }

    /// Returns whether the text refuses the dialect, or something in the request.
    pub fn may_refuse_dialect(&self) -> bool {
        self.says(PERHAPS_DIALECT)
    }

    /// Returns whether the text requires the body of another dialect.
    pub fn wants_other_body(&self) -> bool {
        self.says(OTHER_BODY)
    }

    /// Returns whether the text names the surface of responses.
    pub fn names_responses(&self) -> bool {
        self.says(RESPONSES)
    }

    /// Returns whether the text names the surface of messages.
    pub fn names_messages(&self) -> bool {
        self.says(MESSAGES)
    }

    /// Returns whether the text names the surface of chat.
    pub fn names_chat(&self) -> bool {
        self.says(CHAT)
    }

    /// Returns whether a relay does not pass requests of this dialect on.
    pub fn is_about_dispatch(&self) -> bool {
        self.says(&["dispatch"])
    }

    /// Returns whether something is not supported: a dialect, a member, a value.
    pub fn says_unsupported(&self) -> bool {
        self.says(&["unsupported"])
    }

    /// Returns whether something is or is not supported. It may be named before that word, as in "not supported in
    /// the v1/completions endpoint".
    pub fn says_supported(&self) -> bool {
        self.says(&["supported"])
    }

    /// Returns whether the upstream serves the dialect only to a vendor's own program.
    pub fn is_for_a_cli(&self) -> bool {
        let words = self.text.as_str();
        let named = words.contains("claude code")
            || words.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word == "cli");
        named && has(words, &["only", "restrict", "allowed"])
    }

    /// Returns whether the text calls something unsupported, even in words of the client.
    pub fn names_unsupported(&self) -> bool {
        self.text.contains("unsupported")
    }

    /// Returns whether the text is about a model, even in words of the client.
    pub fn names_model(&self) -> bool {
        self.text.contains("model")
    }

    /// Returns whether the upstream does not have the earlier answer that the request continues, or not any more.
    pub fn has_forgotten_answer(&self) -> bool {
        has(&self.text, FORGOTTEN)
    }

    /// Returns whether the message says only that the upstream of this upstream failed.
    pub fn is_bare_upstream_error(&self) -> bool {
        &self.text[..self.names_at] == UPSTREAM_FAILED
    }

    /// Returns whether the upstream is overloaded or cannot be reached: another dialect would fare no better.
    pub fn is_exhausted(&self) -> bool {
        self.says(UNWELL) || self.says(TOO_MUCH) || self.says(BUSY)
    }

    /// Returns whether nothing serves the model at this address for the moment.
    pub fn names_no_capacity(&self) -> bool {
        self.says(NO_CAPACITY)
    }

    /// Returns whether the text refuses a value of the request.
    pub fn is_about_validation(&self) -> bool {
        self.says(VALIDATION)
    }

    /// Returns whether something took too long.
    pub fn is_timeout(&self) -> bool {
        self.says(TIMEOUT)
    }

    /// Returns whether another try a little later may succeed.
    pub fn is_transient(&self) -> bool {
        self.says(UNWELL) || self.says(CONNECTION_ERRORS) || self.is_timeout()
    }

    /// Returns whether the text refuses our credential at the upstream.
    pub fn is_about_credential(&self) -> bool {
        self.says(CREDENTIAL)
    }

    /// Returns whether there were too many requests or tokens, now or over a longer time.
    pub fn is_about_limit(&self) -> bool {
        self.says(TOO_MUCH) || self.says(LIMIT)
    }

    /// Returns whether a 403 or 429 refuses something that the client chose, even in words of the client.
    pub fn is_about_option(&self) -> bool {
        has(&self.text, OPTION)
    }

    /// Returns whether a 429 says that something is used up, not that requests come too fast.
    pub fn is_used_up(&self) -> bool {
        self.says(USED_UP) || self.occurrences("limit").any(|at| self.is_word(at, "limit"))
    }

    /// Returns whether one of these phrases is among the upstream's own words.
    fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.occurrences(phrase).next().is_some())
    }

    /// Returns whether the text quotes something of the request, as in `no item 'x'`.
    pub fn quotes_the_request(&self) -> bool {
        let mut quotes = self.text[..self.names_at].match_indices(['\'', '"', '`']).map(|(at, _)| at);
        let Some(mut open) = quotes.next() else { return false };
        quotes.any(|close| {
            let inside = std::mem::replace(&mut open, close) + 1..close;
            let words = &self.text[inside.clone()];
            !words.is_empty() && words.trim() == words && !self.is_own(inside)
        })
    }

    /// Returns whether "model" is followed by a phrase that it is lacking, with at most its name and "is" between. A
    /// text about a parameter of a model, or about what a model is to do, does not count: there the request is wrong.
    fn names_lacking_model(&self) -> bool {
        self.text.match_indices("model").any(|(at, model)| {
            let before = &self.text[..at];
            let mut words_before = before.split_whitespace().rev().take(3);
            let start = at + model.len();
            let after = &self.text[start..];
            let is_a_word = !before.ends_with(['-', '_']) && !after.starts_with(['-', '_']);
            let own = |phrase: &&str| self.occurrences(phrase).find(|at| *at >= start);
            is_a_word
                && !words_before.any(|word| OF_MODEL.contains(&word))
                && MODEL_LACKING.iter().filter_map(own).min().is_some_and(|lacks| {
                    let between = &self.text[start..lacks];
                    let words = || between.split_whitespace();
                    let mut names = words().filter(|word| !matches!(*word, "is" | "was" | "currently" | ":"));
                    !between.contains("parameter")
                        && !words().any(is_asked_of_model)
                        && names.nth(1).is_none()
                })
        })
    }

    fn says_model_alone(&self) -> bool {
        let (message, names) = self.text.split_at(self.names_at);
        let name = message.strip_prefix(MODEL_IS_ALL.0);
        name.is_some_and(|name| !name.contains(char::is_whitespace)) && names.contains(MODEL_IS_ALL.1)
    }

    fn says_around(&self, pairs: &[(&str, &str)]) -> bool {
        pairs.iter().any(|(start, end)| {
            let first = self.occurrences(start).next();
            first.is_some_and(|at| self.occurrences(end).any(|end| end >= at + start.len()))
        })
    }

    /// Returns the places of the phrase in the upstream's own words. A subject counts even where the client wrote it.
    fn occurrences<'t>(&'t self, phrase: &'t str) -> impl Iterator<Item = usize> + 't {
        let is_subject = SUBJECTS.contains(&phrase);
        let found = self.text.match_indices(phrase).map(|(at, _)| at);
        found.filter(move |at| is_subject || self.is_own(*at..at + phrase.len()))
    }

    fn is_own(&self, place: Range<usize>) -> bool {
        if self.request.is_empty() || place.end > self.names_at {
            return true;
        }
        let echo = self.echo.get_or_init(|| {
            Echo::of(&self.text[..self.names_at], self.request.iter().map(|piece| &piece[..]))
        });
        !echo.covers(place)
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        let before = self.text[..at].chars().next_back();
        let after = self.text[at + word.len()..].chars().next();
        !before.into_iter().chain(after).any(char::is_alphanumeric)
    }
}

/// The distance from a word within which a text must name the model to be about it, in characters.
const NEAR: usize = 60;
/// Phrases that deny a model by themselves.
const NO_MODEL: &[&str] =
    &["no such model", "unknown model", "unsupported model", "invalid model", "not a valid model"];
/// Phrases that deny what is named near them.
const DENIAL: &[&str] = &[
    "not exist",
    "not found",
    "not available",
    "disabled",
    "access denied",
    "not allowed",
    "not have access",
];
const CHINESE_DENIAL: &[&str] = &["不存在", "不可用", "不支持", "无效", "禁用", "未开通", "无权"];

/// Returns whether the answer to a request that only tests a model says for certain that the model does not exist, or
/// that we may not use it.
pub fn denies_model(answer: &str) -> bool {
    let spaced = answer.chars().map(|c| if matches!(c, '_' | '-') { ' ' } else { c });
    let text = spaced.collect::<String>().to_lowercase();
    let near = |word: &str, subject: &str| {
        text.match_indices(word).any(|(at, _)| {
            let before: Vec<char> = text[..at].chars().rev().take(NEAR).collect();
            let before: String = before.into_iter().rev().collect();
            let after: String = text[at + word.len()..].chars().take(NEAR).collect();
            before.contains(subject) || after.contains(subject)
        })
    };
    has(&text, NO_MODEL)
        || DENIAL.iter().any(|word| near(word, "model"))
        || CHINESE_DENIAL.iter().any(|word| near(word, "模型"))
}

/// Returns whether a word, in the singular or the plural, is something that a request asks of a model. A word in
/// quotes is a name.
fn is_asked_of_model(word: &str) -> bool {
    let word = word.trim_end_matches([',', ';', ':', '.']);
    let one = word.strip_suffix('s').unwrap_or(word);
    ASKED_OF_MODEL.contains(&word) || ASKED_OF_MODEL.contains(&one)
}

#[cfg(test)]
mod tests;
