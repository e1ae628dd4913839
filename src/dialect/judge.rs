//! Recognizes a failed answer that came with a 2xx status.
//!
//! | fault | always | when the operator asks for it |
//! |---|---|---|
//! | an HTML page, or anything that is not a JSON object | x | |
//! | an error object in place of an answer | x | |
//! | an object that is not an answer of its dialect, `{}` or `{"success":false}` | x | |
//! | a failure keyword in what the assistant says | | x, bodies up to 64 KB |
//! | an answer of chat, completions or Gemini with neither content nor a reason for its end | x | |
//! | no output and no completion tokens | | x |
//!
//! Keywords are sought in the assistant's words alone: a client that talks *about* an exceeded quota must not switch a
//! channel off. Without such rules an answer is scanned once and no tree is built of it, except of a short one that is no
//! usual answer of its dialect.

use memchr::memmem;

use super::{
    Dialect,
    events::{error_of_choice, is_answer_item, is_blank, is_blank_text, is_broken_choice},
    gemini, json,
    tree::Node,
    upstream_error::{self, UpstreamError, is_error},
    usage::{self, Usage},
};

/// The longest body searched for keywords, in bytes; longer answers are prose, in which any word may occur.
const MAX_KEYWORD_BODY: usize = 64 * 1024;
/// The longest answer that may be judged by its words or as empty, in bytes; a longer one is not empty.
const MAX_JUDGED: usize = 1 << 20;
/// The longest answer that may be one without content, in bytes: its usage and its model need less.
const MAX_WITHOUT_CONTENT: usize = 4 * 1024;
/// The members of a choice, and of its message, that are no output.
const BESIDE_OUTPUT: [&str; 6] = ["role", "index", "finish_reason", "logprobs", "message", "delta"];

/// The longest body that is read as an error in a site's own form, in bytes.
const MAX_OWN_ERROR: usize = 4 * 1024;
/// The members of such an error.
const OWN_ERROR: [&str; 12] = [
    "success",
    "code",
    "msg",
    "message",
    "detail",
    "type",
    "error_code",
    "error_msg",
    "request_id",
    "requestId",
    "timestamp",
    "trace_id",
];

/// The operator's rules for failed answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    keywords: Vec<String>,
    empty_content_fails: bool,
}

impl Rules {
    /// Creates the rules. Keywords are trimmed and compared without case; blank ones are ignored.
    pub fn new<'a>(keywords: impl IntoIterator<Item = &'a str>, empty_content_fails: bool) -> Self {
        let keywords =
            keywords.into_iter().map(|word| word.trim().to_lowercase()).filter(|word| !word.is_empty());
        Self { keywords: keywords.collect(), empty_content_fails }
    }

    /// Returns whether an answer with these counts fails because it is empty: no output was seen and no completion
    /// tokens are reported.
    pub fn fails_empty(&self, output_seen: bool, usage: Option<Usage>) -> bool {
        self.empty_content_fails && !output_seen && usage.and_then(|usage| usage.completion).unwrap_or(0) == 0
    }
}

/// The reason why an answer with a 2xx status is a failure (502 for the client, a fault of the channel).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An HTML page, with its title or Cloudflare's reason, which may be empty.
    Html(String),
    NotJson,
    /// The body is an error object.
    Error(UpstreamError),
    /// An object without the member that holds an answer.
    NoAnswer,
    Keyword(String),
    Empty,
}

impl Fault {
    /// Returns the message for the client and the log.
    pub fn message(&self) -> String {
        match self {
            Self::Html(about) if about.is_empty() => "Upstream returned an HTML page".to_owned(),
            Self::Html(about) => format!("Upstream returned an HTML page: {about}"),
            Self::NotJson => "Upstream returned an answer that is not a JSON object".to_owned(),
            Self::Error(error) => error.message.clone(),
            Self::NoAnswer => "Upstream returned a JSON object that is no answer".to_owned(),
            Self::Keyword(word) => format!("Upstream answer contains the failure keyword \"{word}\""),
            Self::Empty => "Upstream returned empty content".to_owned(),
        }
    }
}

/// Judges a complete 2xx answer and reads its usage.
pub fn reply(dialect: Dialect, body: &[u8], rules: &Rules) -> Result<Option<Usage>, Fault> {
    let AnswerMembers { usage, has_answer, .. } = read(dialect, body, rules)?;
    if dialect == Dialect::Chat
        && let Some(error) = error_of_choices(body)
    {
        return Err(Fault::Error(error));
    }
    if has_answer && is_cut_short(dialect, body) {
        return Err(Fault::Empty);
    }
    if has_answer {
        return Ok(usage);
    }
    let text = String::from_utf8_lossy(body);
    let Ok(node) = Node::parse(&text) else { return Err(Fault::NoAnswer) };
    let is_message = node.str_at("type") == "message";
    // Some relays write `null` for the content of a message that says nothing.
    if dialect == Dialect::Messages && is_message && node.get("stop_reason").is_some() {
        return Ok(usage);
    }
    // The type and the status of an answer do not describe a failure.
    if is_message || node.str_at("object") == "response" {
        return Err(Fault::NoAnswer);
    }
    // Some sites report a failure in a form of their own, and some in no form at all.
    Err(UpstreamError::of(&node).map_or(Fault::NoAnswer, Fault::Error))
}

/// Whether an answer has neither content nor a reason for its end: such a stream is one that broke off.
fn is_cut_short(dialect: Dialect, body: &[u8]) -> bool {
    if body.len() > MAX_WITHOUT_CONTENT {
        return false;
    }
    let tells_its_end: fn(&Node<'_>) -> bool = match dialect {
        Dialect::Gemini => gemini::tells_its_end,
        // Most answers tell it, and no tree is built of them.
        Dialect::Chat | Dialect::Completions if !names_its_end(body) => chat_tells_its_end,
        _ => return false,
    };
    let answer = std::str::from_utf8(body).ok().and_then(|text| Node::parse(text).ok());
    answer.is_some_and(|answer| !tells_its_end(&answer) && !has_output(dialect, &answer))
}

/// Whether a `finish_reason` is followed by a text, as it is in usual answers.
fn names_its_end(body: &[u8]) -> bool {
    let name = b"\"finish_reason\"";
    let after = memmem::find(body, name).map_or(&[][..], |at| &body[at + name.len()..]);
    let value = after.trim_ascii_start().strip_prefix(b":").unwrap_or_default().trim_ascii_start();
    value.starts_with(b"\"") && !value.starts_with(b"\"\"")
}

fn chat_tells_its_end(answer: &Node<'_>) -> bool {
    answer.items_at("choices").iter().any(|choice| !choice.str_at("finish_reason").is_empty())
}

/// Returns the error with which a choice of a chat answer ended. Most answers have no such word, and no tree is built of them.
fn error_of_choices(body: &[u8]) -> Option<UpstreamError> {
    memmem::find(body, b"\"error\"")?;
    let text = String::from_utf8_lossy(body);
    let node = Node::parse(&text).ok()?;
    let broken = node.items_at("choices").iter().find(|choice| is_broken_choice(choice))?;
    Some(error_of_choice(broken))
}

/// Judges a 2xx answer other than the dialect's usual one, such as a token count or a compaction.
pub fn object(dialect: Dialect, body: &[u8]) -> Result<Option<Usage>, Fault> {
    let members = read(dialect, body, &Rules::default())?;
    own_error(body).map_or(Ok(members.usage), |error| Err(Fault::Error(error)))
}

/// Reads an error that a site reports in a form of its own: `success` is false, or nothing is there but the words of an
/// error.
fn own_error(body: &[u8]) -> Option<UpstreamError> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= MAX_OWN_ERROR)?;
    let node = Node::parse(text).ok()?;
    let is_denied = node.get("success").and_then(Node::bool) == Some(false);
    let is_of_error =
        |name: &str, value: &Node<'_>| OWN_ERROR.contains(&name) || name == "data" && value.is_null();
    let is_error = is_denied || node.members().iter().all(|(name, value)| is_of_error(name, value));
    is_error.then(|| UpstreamError::of(&node))?
}

/// Judges a 2xx answer that must be a token count.
pub fn count(dialect: Dialect, body: &[u8]) -> Result<Option<Usage>, Fault> {
    let usage = object(dialect, body)?;
    // Google leaves out counts of zero.
    let text = std::str::from_utf8(body).unwrap_or_default();
    let counted = json::member(text, "input_tokens").is_some_and(|count| count.parse::<u64>().is_ok());
    if counted || dialect == Dialect::Gemini { Ok(usage) } else { Err(Fault::NoAnswer) }
}

/// Whether a value is `null` or an empty list.
fn is_nothing(value: &str) -> bool {
    value == "null"
        || value
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .is_some_and(|list| list.trim().is_empty())
}

/// The members of an answer that say whether it is one.
#[derive(Default)]
struct AnswerMembers<'t> {
    usage: Option<Usage>,
    error: Option<&'t str>,
    status: &'t str,
    /// Whether the dialect's member for answers is there.
    has_answer: bool,
    /// Whether a list of answers has items.
    has_items: bool,
}

impl<'t> AnswerMembers<'t> {
    fn read(dialect: Dialect, text: &'t str) -> Result<Self, Fault> {
        let mut found = Self::default();
        let mut meta = None;
        json::walk(text, |scan, key, depth| {
            let key = key.name();
            let key = key.as_ref();
            if key == usage::member_of(dialect) {
                found.usage = usage::read(dialect, scan, depth)?;
                return Ok(());
            }
            let value = scan.literal(depth)?;
            // A list of choices or candidates holds the answers; other lists are one.
            let is_none = matches!(key, "choices" | "candidates") && is_nothing(value);
            found.has_answer |= value != "null" && !is_none && is_answer_of(dialect, key);
            match key {
                "choices" | "output" | "content" | "data" | "candidates" => {
                    found.has_items |= !is_nothing(value);
                }
                "error" => found.error = Some(value),
                "meta" if dialect == Dialect::Embeddings => meta = Some(value),
                "status" => found.status = value,
                _ => {}
            }
            Ok(())
        })
        .map_err(|_| not_json(text))?;
        found.usage = found.usage.or_else(|| usage::of_cohere(meta?));
        Ok(found)
    }

    /// Whether the members say that the request has failed.
    fn report_failure(&self, dialect: Dialect) -> bool {
        let has_failed = self.status == "\"failed\"";
        let error = self.error.filter(|_| !self.has_items || has_failed);
        error.and_then(|error| Node::parse(error).ok()).is_some_and(|error| is_error(&error))
            || (has_failed && dialect == Dialect::Responses)
    }

    /// Whether the words of the answer are judged. A response that is made in the background has its output yet to come.
    fn have_words(&self, dialect: Dialect) -> bool {
        match dialect {
            Dialect::Embeddings | Dialect::Images | Dialect::Audio => false,
            Dialect::Responses => !matches!(self.status, "\"queued\"" | "\"in_progress\""),
            _ => true,
        }
    }
}

/// Reads the members of an answer. Fails where they, or the words of the answer, say that it is none.
fn read<'t>(dialect: Dialect, body: &'t [u8], rules: &Rules) -> Result<AnswerMembers<'t>, Fault> {
    let text = std::str::from_utf8(body).map_err(|_| Fault::NotJson)?;
    let members = AnswerMembers::read(dialect, text)?;
    if members.report_failure(dialect) {
        // Some sites put the type or the message beside the error, so the whole body is read.
        return Err(Fault::Error(upstream_error::read(200, body)));
    }
    let by_words = !rules.keywords.is_empty() && body.len() <= MAX_KEYWORD_BODY;
    if members.have_words(dialect)
        && (by_words || rules.fails_empty(false, members.usage))
        && text.len() <= MAX_JUDGED
        && let Ok(answer) = Node::parse(text)
    {
        if by_words && let Some(word) = keyword(dialect, &answer, &rules.keywords) {
            return Err(Fault::Keyword(word.to_owned()));
        }
        if rules.fails_empty(has_output(dialect, &answer), members.usage) {
            return Err(Fault::Empty);
        }
    }
    Ok(members)
}

/// Whether an answer of the dialect stands in a member of this name.
fn is_answer_of(dialect: Dialect, key: &str) -> bool {
    match dialect {
        Dialect::Chat | Dialect::Completions => key == "choices",
        Dialect::Messages => key == "content",
        Dialect::Responses => matches!(key, "output" | "output_text"),
        Dialect::Gemini => matches!(key, "candidates" | "promptFeedback" | "prompt_feedback" | "response"),
        Dialect::Embeddings => matches!(key, "data" | "embedding" | "embeddings"),
        Dialect::Images => matches!(key, "data" | "images"),
        Dialect::Audio => key == "text",
    }
}

/// Judges plain text that serves as an answer. What Cloudflare says in place of an upstream (`error code: 1015`) is none.
pub fn text(text: &str, rules: &Rules) -> Result<(), Fault> {
    let code = text.trim().strip_prefix("error code: ");
    if code.is_some_and(|code| !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(Fault::Error(UpstreamError::new(format!("Cloudflare {}", text.trim()))));
    }
    let said = text.to_lowercase();
    let found =
        rules.keywords.iter().find(|word| text.len() <= MAX_KEYWORD_BODY && said.contains(word.as_str()));
    found.map_or(Ok(()), |word| Err(Fault::Keyword(word.clone())))
}

/// Judges an answer of which only the beginning is known: it must begin a JSON object.
pub fn beginning(body: &[u8]) -> Result<(), Fault> {
    if body.trim_ascii_start().starts_with(b"{") {
        return Ok(());
    }
    Err(not_json(&String::from_utf8_lossy(&body[..body.len().min(MAX_KEYWORD_BODY)])))
}

fn not_json(text: &str) -> Fault {
    if upstream_error::looks_like_html(text) {
        Fault::Html(upstream_error::html_detail(200, text))
    } else {
        Fault::NotJson
    }
}

fn keyword<'k>(dialect: Dialect, answer: &Node<'_>, keywords: &'k [String]) -> Option<&'k str> {
    let mut said = String::new();
    let error = ["message", "type", "code"].into_iter().map(|key| answer.path(&["error", key]));
    let all = error.chain([answer.get("error")]).chain(texts(dialect, answer));
    for text in all.filter_map(|text| text?.str()) {
        said.push_str(&text.to_lowercase());
        // A keyword does not span two texts.
        said.push('\0');
    }
    keywords.iter().find(|word| said.contains(word.as_str())).map(String::as_str)
}

/// Collects the places of an answer that hold the assistant's words.
fn texts<'n, 'a>(dialect: Dialect, answer: &'n Node<'a>) -> Vec<Option<&'n Node<'a>>> {
    let mut texts = Vec::new();
    match dialect {
        Dialect::Messages => content_texts(answer.get("content"), &mut texts),
        Dialect::Responses => {
            texts.push(answer.get("output_text"));
            for item in answer.items_at("output") {
                content_texts(item.get("content"), &mut texts);
            }
        }
        Dialect::Gemini => {
            let is_said = |part: &&Node<'_>| part.bool_at("thought") != Some(true);
            texts.extend(gemini_parts(answer).filter(is_said).map(|part| part.get("text")));
        }
        _ => {
            for choice in answer.items_at("choices") {
                texts.push(choice.get("text"));
                texts.push(choice.path(&["message", "refusal"]));
                content_texts(choice.path(&["message", "content"]), &mut texts);
            }
        }
    }
    texts
}

fn content_texts<'n, 'a>(content: Option<&'n Node<'a>>, texts: &mut Vec<Option<&'n Node<'a>>>) {
    texts.push(content);
    for part in content.map_or(&[][..], Node::items) {
        texts.extend([part.get("text"), part.get("refusal")]);
    }
}

/// Whether an answer holds anything a client could use: text, a refusal, reasoning, a call, an image.
fn has_output(dialect: Dialect, answer: &Node<'_>) -> bool {
    let says = |holder: &Node<'_>, key: &str| holder.get(key).is_some_and(|value| !is_blank(value));
    match dialect {
        Dialect::Messages => answer.items_at("content").iter().any(|block| !is_blank_text(block)),
        Dialect::Responses => {
            says(answer, "output_text") || answer.items_at("output").iter().any(is_answer_item)
        }
        // A question that is refused has no answer.
        Dialect::Gemini => {
            let has_content = |part: &Node<'_>| part.members().iter().any(|(_, value)| !is_blank(value));
            gemini_parts(answer).any(has_content) || gemini::is_blocked(answer)
        }
        // Some sites write a choice as in a stream, or without a message.
        _ => answer.items_at("choices").iter().any(|choice| {
            let message = choice.get("message").or(choice.get("delta"));
            let mut members = message.unwrap_or(choice).members().iter();
            members.any(|(key, value)| !BESIDE_OUTPUT.contains(&key.as_ref()) && !is_blank(value))
                || says(choice, "text")
        }),
    }
}

/// Returns the parts of all candidates, also of an answer in the envelope of the Gemini CLI's service.
fn gemini_parts<'n, 'a>(answer: &'n Node<'a>) -> impl Iterator<Item = &'n Node<'a>> {
    let candidates = gemini::opened(answer).items_at("candidates").iter();
    candidates.flat_map(|candidate| candidate.path(&["content", "parts"]).map_or(&[][..], Node::items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dialect::{Chat, Completions, Embeddings, Gemini, Images, Messages, Responses};
    use proptest::prelude::*;

    #[test]
    fn of_a_long_text_that_is_no_answer_nothing_is_built() {
        let long = format!(r#"{{"x":[{}1]}}"#, r#"{"a":1},"#.repeat(200_000));
        assert_eq!(reply(Chat, long.as_bytes(), &Rules::default()), Err(Fault::NoAnswer));
        let answer = format!(r#"{{"choices":[{}1]}}"#, r#"{"index":1},"#.repeat(200_000));
        assert_eq!(reply(Chat, answer.as_bytes(), &Rules::new(["quota"], true)), Ok(None));
    }

    #[test]
    fn a_good_answer_passes_with_its_usage() {
        let rules = Rules::new(["quota exceeded"], true);
        for (dialect, body) in [
            (
                Chat,
                r#"{"choices":[{"message":{"role":"assistant","content":"hi"}}],"usage":{"completion_tokens":1}}"#,
            ),
            (Chat, r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a"}]}}],"error":null}"#),
            (Chat, r#"{"choices":[{"message":{"content":null,"reasoning_content":"hm"}}]}"#),
            (Chat, r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":3}}"#),
            (Chat, r#"{"choices":[{"message":{"content":"ok"}}],"prompt":"quota exceeded"}"#),
            (
                Messages,
                r#"{"content":[{"type":"tool_use","id":"t","input":{}}],"usage":{"output_tokens":0}}"#,
            ),
            (Messages, r#"{"content":[{"type":"thinking","thinking":"hm"}]}"#),
            (Responses, r#"{"status":"completed","error":null,"output":[{"type":"function_call"}]}"#),
            (Responses, r#"{"output":[{"type":"reasoning","summary":[{"text":"s"}]}]}"#),
            (Responses, r#"{"output":[{"type":"reasoning","id":"r","summary":[]}]}"#),
            (Chat, r#"{"choices":[{"message":{"content":[{"type":"text","text":""},{"type":"image"}]}}]}"#),
            (Completions, r#"{"choices":[{"text":"x"}]}"#),
            (Gemini, r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}]}"#),
            (Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"quota exceeded","thought":true}]}}]}"#),
            (Gemini, r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#),
            (Embeddings, r#"{"data":[]}"#),
            (Images, r#"{"data":[]}"#),
        ] {
            assert!(reply(dialect, body.as_bytes(), &rules).is_ok(), "{body}");
        }
        let body =
            br#"{"choices":[{"finish_reason":"x"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}"#;
        assert_eq!(reply(Chat, body, &Rules::default()).unwrap().unwrap().total, Some(3));
    }

    #[test]
    fn what_is_no_answer_fails_on_every_surface() {
        for (dialect, own) in [
            (Chat, "choices"),
            (Messages, "content"),
            (Responses, "output"),
            (Embeddings, "data"),
            (Images, "data"),
        ] {
            for (body, wanted) in [
                ("{}", "Upstream returned a JSON object that is no answer"),
                (r#"{"id":"x","model":"m"}"#, "Upstream returned a JSON object that is no answer"),
                (&format!(r#"{{"{own}":null}}"#), "Upstream returned a JSON object that is no answer"),
                (&format!(r#"{{"{own}":[ ],"error":{{"message":"No quota"}}}}"#), "No quota"),
                (r#"{"success":false,"message":"quota is used up"}"#, "quota is used up"),
                (r#"{"code":500,"message":"boom","data":null}"#, "boom"),
            ] {
                let fault = reply(dialect, body.as_bytes(), &Rules::default()).unwrap_err();
                assert_eq!(fault.message(), wanted, "{body}");
            }
        }
        for (dialect, body) in [
            (Messages, r#"{"id":"msg_1","type":"message","content":null,"stop_reason":null}"#),
            (Responses, r#"{"id":"resp_1","object":"response","status":"completed","output":null}"#),
        ] {
            assert_eq!(reply(dialect, body.as_bytes(), &Rules::default()), Err(Fault::NoAnswer), "{body}");
        }
        assert!(object(Messages, br#"{"input_tokens":4}"#).is_ok());
        for dialect in [Chat, Messages, Responses, Completions, Embeddings, Images] {
            for (body, wanted) in [
                ("", "Upstream returned an answer that is not a JSON object"),
                ("ok", "Upstream returned an answer that is not a JSON object"),
                ("[1]", "Upstream returned an answer that is not a JSON object"),
                ("{\"choices\":[", "Upstream returned an answer that is not a JSON object"),
                (" <!DOCTYPE html><title>Sign in</title>", "Upstream returned an HTML page: Sign in"),
                ("<html></html>", "Upstream returned an HTML page"),
                (r#"{"error":{"message":"no"}}"#, "no"),
                (r#"{"type":"error","error":{"message":"no"}}"#, "no"),
            ] {
                let fault = reply(dialect, body.as_bytes(), &Rules::default()).unwrap_err();
                assert_eq!(fault.message(), wanted, "{body}");
            }
        }
        let failed = br#"{"status":"failed","error":{"code":"server_error","message":"broke"},"output":[]}"#;
        let Err(Fault::Error(error)) = reply(Responses, failed, &Rules::default()) else { panic!() };
        assert_eq!((error.message.as_str(), error.code.as_deref()), ("broke", Some("server_error")));
    }

    #[test]
    fn an_answer_without_content_has_a_reason_for_its_end() {
        let padded = |rest: &str| format!(r#"{{{rest},"x":"{}"}}"#, "x".repeat(MAX_WITHOUT_CONTENT));
        let (long, long_chat) = (padded(r#""candidates":[{"content":{}}]"#), padded(r#""choices":[{}]"#));
        for (dialect, body, is_answer) in [
            (Gemini, r#"{"candidates":[{}]}"#, false),
            (Gemini, r#"{"candidates":[{"content":{"role":"model"}}],"usageMetadata":{}}"#, false),
            (Gemini, r#"{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":null}]}"#, false),
            (Gemini, r#"{"response":{"candidates":[{"content":{"parts":[]}}]}}"#, false),
            (Gemini, r#"{"promptFeedback":{}}"#, false),
            (Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}"#, true),
            (Gemini, r#"{"candidates":[{"finishReason":"STOP"}]}"#, true),
            (Gemini, r#"{"candidates":[{"finish_reason":"MAX_TOKENS","content":{"parts":[]}}]}"#, true),
            (Gemini, r#"{"response":{"candidates":[{"finishReason":"SAFETY"}]}}"#, true),
            (Gemini, r#"{"prompt_feedback":{"block_reason":"OTHER"}}"#, true),
            (Gemini, r#"{"response":{"promptFeedback":{"blockReason":"OTHER"}}}"#, true),
            (Gemini, &long, true),
            (Chat, r#"{"choices":[{"message":{"content":null},"finish_reason":null}]}"#, false),
            (Chat, r#"{"choices":[{"message":{"content":""}}],"usage":{"completion_tokens":3}}"#, false),
            (Chat, r#"{"choices":[{"message":{"content":""},"finish_reason":""}]}"#, false),
            (Completions, r#"{"choices":[{"text":"","finish_reason":null}]}"#, false),
            (Chat, r#"{"choices":[{"message":{"content":"hi"},"finish_reason":null}]}"#, true),
            (Chat, r#"{"choices":[{"delta":{"content":"hi"}}]}"#, true),
            (Chat, r#"{"choices":[{"role":"assistant","content":"hi"}]}"#, true),
            (Chat, r#"{"choices":[{"index":0,"role":"assistant","content":""}]}"#, false),
            (Chat, r#"{"choices":[{"message":{"content":null},"finish_reason" : "stop"}]}"#, true),
            (Chat, r#"{"choices":[{"finish_reason":null},{"finish_reason":"length"}]}"#, true),
            (Completions, r#"{"choices":[{"text":"","finish_reason":"stop"}]}"#, true),
            (Chat, &long_chat, true),
        ] {
            let judged = reply(dialect, body.as_bytes(), &Rules::default());
            assert_eq!(judged.is_ok(), is_answer, "{body}: {judged:?}");
        }
    }

    #[test]
    fn keywords_are_sought_in_the_assistants_words_only() {
        let rules = Rules::new([" Quota Exceeded ", ""], false);
        for (dialect, body) in [
            (Chat, r#"{"choices":[{"message":{"content":"QUOTA exceeded, sorry"}}]}"#),
            (Chat, r#"{"choices":[{"message":{"content":[{"type":"text","text":"quota exceeded"}]}}]}"#),
            (Completions, r#"{"choices":[{"text":"quota exceeded"}]}"#),
            (Messages, r#"{"content":[{"type":"text","text":"quota exceeded"}]}"#),
            (Responses, r#"{"output":[{"type":"message","content":[{"text":"quota exceeded"}]}]}"#),
            (Chat, r#"{"choices":[{"message":{}}],"error":{"message":"quota exceeded"}}"#),
            (Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"Quota exceeded."}]}}]}"#),
        ] {
            let fault = reply(dialect, body.as_bytes(), &rules).unwrap_err();
            assert_eq!(fault, Fault::Keyword("quota exceeded".to_owned()), "{body}");
        }
        let long =
            format!(r#"{{"choices":[{{"message":{{"content":"quota exceeded{}"}}}}]}}"#, " ".repeat(70_000));
        assert!(reply(Chat, long.as_bytes(), &rules).is_ok());
    }

    #[test]
    fn an_empty_answer_fails_when_the_rule_is_on() {
        let rules = Rules::new([], true);
        for (dialect, body) in [
            (Chat, r#"{"choices":[{"message":{"content":" ","tool_calls":[]},"finish_reason":"stop"}]}"#),
            (Chat, r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":0}}"#),
            (
                Chat,
                r#"{"choices":[{"message":{"content":[{"type":"text","text":" "}]},"finish_reason":"stop"}]}"#,
            ),
            (Messages, r#"{"content":[{"type":"text","text":""}]}"#),
            (Messages, r#"{"type":"message","content":null,"stop_reason":"end_turn"}"#),
            (Responses, r#"{"output":[{"type":"message","id":"m","content":[]}]}"#),
        ] {
            assert_eq!(reply(dialect, body.as_bytes(), &rules), Err(Fault::Empty), "{body}");
            assert!(reply(dialect, body.as_bytes(), &Rules::default()).is_ok(), "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = reply(Chat, &body, &Rules::new(["x"], true));
        }
    }

    #[test]
    fn an_error_in_a_sites_own_form_is_no_answer_of_any_kind() {
        for (body, is_error) in [
            (r#"{"success":false,"message":"quota used up"}"#, true),
            (r#"{"success":false,"message":"quota used up","results":[]}"#, true),
            (r#"{"code":500,"msg":"busy","data":null}"#, true),
            (r#"{"detail":"Not authenticated"}"#, true),
            (r#"{"success":true,"results":[]}"#, false),
            (r#"{"code":0,"message":"ok","data":[{"index":0}]}"#, false),
            (r#"{"results":[{"index":0}],"message":"fine"}"#, false),
            (r#"{"id":"video_1","status":"queued"}"#, false),
        ] {
            let found = object(Dialect::Embeddings, body.as_bytes());
            assert_eq!(matches!(found, Err(Fault::Error(_))), is_error, "{body}: {found:?}");
        }
    }
}
