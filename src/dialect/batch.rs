//! Batches: many requests for one model, which an upstream processes in its own time.
//!
//! | interface | requests | each line of results |
//! |---|---|---|
//! | OpenAI | lines `{"custom_id", "method", "url", "body": {"model", …}}` | `{"custom_id", "response": {"body"}, "error"}` |
//! | Anthropic | `{"requests": [{"custom_id", "params": {"model", …}}]}` | `{"custom_id", "result": {"type", "message"}}` |
//!
//! Only what routing, billing and our ids need is read; every other byte stays as it was written.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Dialect;
use super::edit::edit;
use super::envelope::{MAX_OTHER_MODELS, models_of_tools, other_models};
use super::json;
use super::usage::{self, Usage};
use crate::subslice::place_in;

/// The largest number of requests in one batch, by the vendors' limits.
const MOST_LINES: usize = 50_000;
const MOST_OF_ARRAY: usize = 100_000;
/// The longest name of a model, in bytes.
const MAX_MODEL: usize = 512;
/// The longest line of results that is rewritten, in bytes; a longer one passes unchanged.
const MAX_LINE: usize = 16 << 20;

/// The vendor whose batch interface is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchApi {
    OpenAi,
    Anthropic,
}

/// The requests of a batch: the one model they ask for, and the places of its name.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchRequests {
    pub model: String,
    /// The models that tools of the requests name; `None` where they are not read.
    models_of_tools: Option<BTreeSet<String>>,
    places: Vec<Range<usize>>,
}

/// The reason why the requests are refused; the message is for the client.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchFlaw {
    pub message: String,
    pub field: &'static str,
}

// === impl BatchApi ===

impl BatchApi {
    /// Returns the word under which the interface is stored.
    pub fn id(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    pub fn of_id(id: &str) -> Self {
        if id == "anthropic" { Self::Anthropic } else { Self::OpenAi }
    }

    /// Whether the batch described by this object has reached its final state.
    pub fn has_ended(self, object: &str) -> bool {
        let (member, last): (&str, &[&str]) = match self {
            Self::OpenAi => ("status", &["completed", "failed", "expired", "cancelled"]),
            Self::Anthropic => ("processing_status", &["ended"]),
        };
        let state = json::member(object, member).and_then(json::string);
        state.is_some_and(|state| last.contains(&state.as_str()))
    }

    /// Returns the dialect of one result's answer; OpenAI's is told by its `object`.
    fn dialect_of(self, answer: &str) -> Dialect {
        let kind = json::member(answer, "object").and_then(json::string);
        match (self, kind.as_deref()) {
            (Self::Anthropic, _) => Dialect::Messages,
            (Self::OpenAi, Some("response")) => Dialect::Responses,
            (Self::OpenAi, Some("list")) => Dialect::Embeddings,
            (Self::OpenAi, _) => Dialect::Chat,
        }
    }

    /// Returns the path to the answer in a line of results.
    fn path_to_answer(self) -> [&'static str; 2] {
        match self {
            Self::OpenAi => ["response", "body"],
            Self::Anthropic => ["result", "message"],
        }
    }

    fn answer_in(self, line: &str) -> Option<&str> {
        let [outer, inner] = self.path_to_answer();
        json::member(json::member(line, outer)?, inner)
    }

    /// Returns the usage that one line of results reports.
    pub fn usage_of_line(self, line: &[u8]) -> Option<Usage> {
        let answer = self.answer_in(std::str::from_utf8(line).ok()?)?;
        usage::of_reply(self.dialect_of(answer), answer.as_bytes())
    }

    /// Returns the usage of the whole batch, where its object states it. OpenAI's does, in the form of responses.
    pub fn usage_of_object(self, object: &str) -> Option<Usage> {
        let usage = match self {
            Self::OpenAi => usage::of_reply(Dialect::Responses, object.as_bytes())?,
            Self::Anthropic => return None,
        };
        // The usage is there before anything is known, too, all zeros.
        (usage.prompt.unwrap_or(0) > 0 || usage.completion.unwrap_or(0) > 0).then_some(usage)
    }

    /// Returns a line of results with this name of the model; a line without one stays as it is.
    pub fn line_with_model(self, line: &[u8], model: &str) -> Vec<u8> {
        self.renamed(line, model).unwrap_or_else(|| line.to_vec())
    }

    fn renamed(self, line: &[u8], model: &str) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(line).ok().filter(|line| line.len() <= MAX_LINE)?;
        let answer = self.answer_in(text)?;
        let named = json::member(answer, "model").filter(|named| named.starts_with('"'))?;
        let place = place_in(named, text)?;
        Some(spliced(text, std::slice::from_ref(&place), model))
    }
}

// === impl BatchRequests ===

impl BatchRequests {
    /// Reads the lines of an input file, whose requests must go to `endpoint`. For a key that `is_restricted` to some
    /// models, the models of tools are read, too.
    ///
    /// # Errors
    /// A line that is not such a request, or asks for another model than the first.
    pub fn of_lines(text: &[u8], endpoint: &str, is_restricted: bool) -> Result<Self, BatchFlaw> {
        let text = std::str::from_utf8(text).map_err(|_| BatchFlaw {
            message: "The input file is not UTF-8".to_owned(),
            field: "input_file_id",
        })?;
        let mut requests = Self::new(is_restricted);
        let mut start = 0;
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let at = start;
            start += line.len();
            if line.trim().is_empty() {
                continue;
            }
            let flaw = |what: &str| BatchFlaw {
                message: format!("Line {number} of the input file: {what}"),
                field: "input_file_id",
            };
            let (mut body, mut url, mut is_twofold) = (None, None, false);
            // Some readers end a line at a bare carriage return.
            if line.strip_suffix("\r\n").unwrap_or(line).contains('\r') {
                return Err(flaw("it contains a carriage return"));
            }
            json::members(line, |member| match member.key.to_ascii_lowercase().as_str() {
                "body" => is_twofold |= body.replace((member.at, member.value)).is_some(),
                "url" => is_twofold |= url.replace(member.value).is_some(),
                _ => {}
            })
            .map_err(|_| flaw("it is not a JSON object"))?;
            if is_twofold {
                return Err(flaw("body or url is given twice"));
            }
            if url.and_then(json::string).as_deref() != Some(endpoint) {
                return Err(flaw(&format!("url must be the endpoint of the batch, {endpoint}")));
            }
            let (offset, body) = body.ok_or_else(|| flaw("body is required"))?;
            requests.take(body, at + offset, MOST_LINES).map_err(|what| flaw(&what))?;
        }
        requests.or_empty("input_file_id", "The input file has no requests")
    }

    /// Reads the body of a request for a batch of messages, like [`of_lines`](Self::of_lines).
    ///
    /// # Errors
    /// A body without such requests, or with requests for several models.
    pub fn of_array(text: &[u8], is_restricted: bool) -> Result<Self, BatchFlaw> {
        let bad = |message: String| BatchFlaw { message, field: "requests" };
        let text = std::str::from_utf8(text).map_err(|_| bad("The body is not UTF-8".to_owned()))?;
        let (mut array, mut is_twofold) = (None, false);
        json::members(text, |member| {
            if member.key.eq_ignore_ascii_case("requests") {
                is_twofold |= array.replace(member.value).is_some();
            }
        })
        .map_err(|_| bad("The body must be a JSON object".to_owned()))?;
        if is_twofold {
            return Err(bad("requests: it is given twice".to_owned()));
        }
        let array = array.ok_or_else(|| bad("requests: Field required".to_owned()))?;
        let items: Vec<&RawValue> = serde_json::from_str(array)
            .map_err(|_| bad("requests: Input should be a valid list".to_owned()))?;
        let mut requests = Self::new(is_restricted);
        for (number, item) in items.iter().enumerate() {
            let flaw = |what: &str| bad(format!("requests.{number}.params: {what}"));
            let mut given = Vec::new();
            json::members(item.get(), |member| {
                given.extend(member.key.eq_ignore_ascii_case("params").then_some(member.value));
            })
            .map_err(|_| flaw("Field required"))?;
            let params = match given[..] {
                [] => return Err(flaw("Field required")),
                [params] => params,
                _ => return Err(flaw("it is given twice")),
            };
            let place = place_in(params, text).ok_or_else(|| flaw("it is not a part of the body"))?;
            requests.take(params, place.start, MOST_OF_ARRAY).map_err(|what| flaw(&what))?;
        }
        requests.or_empty("requests", "requests: List should have at least 1 item")
    }

    /// Returns the models that tools of the requests name; none for a key that may ask for any.
    pub fn models_of_tools(&self) -> impl Iterator<Item = &str> {
        self.models_of_tools.iter().flatten().map(String::as_str)
    }

    fn new(is_restricted: bool) -> Self {
        let models_of_tools = is_restricted.then(BTreeSet::new);
        Self { model: String::new(), models_of_tools, places: Vec::new() }
    }

    /// Adds one request; the error says what is wrong with it.
    fn take(&mut self, body: &str, at: usize, most: usize) -> Result<(), String> {
        let mut named = Vec::new();
        let mut others = None;
        json::members(body, |member| {
            others = others.or(other_models(&member.key).filter(|_| member.value != "null"));
            if member.key.eq_ignore_ascii_case("model") {
                named.push((member.at, member.value));
            }
        })
        .map_err(|_| "it is not a JSON object".to_owned())?;
        if named.is_empty() {
            return Err("model is required".to_owned());
        }
        if let Some(others) = others {
            return Err(format!("{others} is not allowed: all requests of a batch must name one model"));
        }
        for (offset, value) in named {
            let model = json::string(value).filter(|model| !model.trim().is_empty());
            let model = model.ok_or_else(|| "model must be a non-empty string".to_owned())?;
            if model.len() > MAX_MODEL {
                return Err("the name of the model is too long".to_owned());
            }
            if self.places.is_empty() {
                self.model = model;
            } else if self.model != model {
                let first = &self.model;
                return Err(format!(
                    "it names the model {model}, but the first request names {first}: all requests of a \
                     batch must name one model"
                ));
            }
            self.places.push(at + offset..at + offset + value.len());
        }
        if self.places.len() > most {
            return Err(format!("a batch has at most {most} requests"));
        }
        self.take_tools(body)
    }

    fn take_tools(&mut self, body: &str) -> Result<(), String> {
        let Some(models) = &mut self.models_of_tools else { return Ok(()) };
        models.extend(models_of_tools(body).map_err(|error| error.message)?);
        if models.len() > MAX_OTHER_MODELS {
            return Err(format!("the tools of a batch may name at most {MAX_OTHER_MODELS} models"));
        }
        Ok(())
    }

    fn or_empty(self, field: &'static str, message: &str) -> Result<Self, BatchFlaw> {
        if self.places.is_empty() { Err(BatchFlaw { message: message.to_owned(), field }) } else { Ok(self) }
    }

    /// Returns the text that the requests were read from, with this name of the model.
    pub fn with_model(&self, text: &Bytes, model: &str) -> Bytes {
        match std::str::from_utf8(text) {
            Ok(read) if model != self.model => Bytes::from(spliced(read, &self.places, model)),
            _ => text.clone(),
        }
    }
}

fn spliced(text: &str, places: &[Range<usize>], model: &str) -> Vec<u8> {
    let literal = Value::from(model).to_string();
    let mut out = Vec::with_capacity(text.len() + places.len() * literal.len());
    let mut copied = 0;
    for place in places {
        out.extend_from_slice(&text.as_bytes()[copied..place.start]);
        out.extend_from_slice(literal.as_bytes());
        copied = place.end;
    }
    out.extend_from_slice(&text.as_bytes()[copied..]);
    out
}

/// Returns the object with these texts as values of its members. A member that is missing or `null` stays so.
pub fn object_with(object: &str, texts: &[(&str, &str)]) -> String {
    let is_there = |name: &str| json::member(object, name).is_some_and(|value| value.starts_with('"'));
    let set: Vec<(&str, String)> = texts
        .iter()
        .filter(|(name, _)| is_there(name))
        .map(|(name, text)| (*name, Value::from(*text).to_string()))
        .collect();
    let set: Vec<(&str, &str)> = set.iter().map(|(name, text)| (*name, text.as_str())).collect();
    edit(object, &set, &[]).into_owned()
}

/// Returns a text member of an object; `None` where it is missing, `null` or empty.
pub fn text_of(object: &str, name: &str) -> Option<String> {
    json::member(object, name).and_then(json::string).filter(|text| !text.is_empty())
}

/// Adds the usage of one more request.
pub fn add(sum: &mut Usage, more: &Usage) {
    let plus = |sum: &mut Option<u64>, more: Option<u64>| {
        if let Some(more) = more {
            *sum = Some(sum.unwrap_or(0).saturating_add(more));
        }
    };
    plus(&mut sum.prompt, more.prompt);
    plus(&mut sum.completion, more.completion);
    plus(&mut sum.total, more.total);
    plus(&mut sum.cache_read, more.cache_read);
    plus(&mut sum.cache_creation, more.cache_creation);
    sum.prompt_includes_cache = sum.prompt_includes_cache.or(more.prompt_includes_cache);
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "/v1/chat/completions";

    fn line(model: &str) -> String {
        format!(
            r#"{{"custom_id":"a","method":"POST","url":"{URL}","body":{{"n":1,"model" : "{model}","x":[]}}}}"#
        )
    }

    #[test]
    fn the_model_of_every_line_is_written_anew_and_nothing_else() {
        let text = format!("{}\n\r\n{}\n", line("a"), line("a"));
        let requests = BatchRequests::of_lines(text.as_bytes(), URL, false).unwrap();
        assert_eq!(requests.model, "a");
        let bytes = Bytes::from(text);
        assert_eq!(requests.with_model(&bytes, "a"), bytes);
        let expected = format!("{}\n\r\n{}\n", line("b\\\"c"), line("b\\\"c"));
        assert_eq!(requests.with_model(&bytes, "b\"c"), expected);
    }

    #[test]
    fn lines_that_are_no_requests_of_one_model_are_refused_by_their_number() {
        for (text, what) in [
            (format!("{}\n{}", line("a"), line("b")), "Line 2 of the input file: it names the model b"),
            (format!("{}\nx", line("a")), "Line 2 of the input file: it is not a JSON object"),
            (line("a").replace(URL, "/v1/else"), "Line 1 of the input file: url must be"),
            (line("a").replace("model", "other"), "Line 1 of the input file: model is required"),
            (line("a").replace("body", "other"), "Line 1 of the input file: body is required"),
            (
                line("a").replacen("{\"", "{\"Body\":{},\"", 1),
                "Line 1 of the input file: body or url is given twice",
            ),
            (line(" "), "Line 1 of the input file: model must be a non-empty string"),
            (line("a").replace("\"x\":", "\"Models\":"), "Line 1 of the input file: models is not allowed"),
            (
                line("a").replacen("{\"", &format!("{{\"x\":\r{}\r,\"", line("b")), 1),
                "Line 1 of the input file: it contains a carriage return",
            ),
            (String::from("\n \n"), "The input file has no requests"),
            (
                format!("{}\n", line("a")).repeat(MOST_LINES + 1),
                "Line 50001 of the input file: a batch has at most",
            ),
        ] {
            let flaw = BatchRequests::of_lines(text.as_bytes(), URL, false).unwrap_err();
            assert!(flaw.message.starts_with(what), "{}", flaw.message);
        }
    }

    #[test]
    fn the_requests_of_an_array_are_those_of_one_model() {
        let text = r#" {"requests" : [ {"custom_id":"1","params":{"model":"a","max_tokens":1}},
            {"params": {"messages":[{"model":"z"}],"model":"a"},"custom_id":"2"} ], "x":1}"#;
        let requests = BatchRequests::of_array(text.as_bytes(), false).unwrap();
        assert_eq!(requests.model, "a");
        let expected = text.replace("\"a\"", "\"bc\"");
        assert_eq!(requests.with_model(&Bytes::from(text), "bc"), expected);
        for (text, what) in [
            ("[]", "The body must be"),
            ("{}", "requests: Field required"),
            (r#"{"requests":{}}"#, "requests: Input should be"),
            (r#"{"requests":[]}"#, "requests: List should have"),
            (r#"{"requests":[1]}"#, "requests.0.params: Field required"),
            (r#"{"requests":[],"Requests":[]}"#, "requests: it is given twice"),
            (
                r#"{"requests":[{"params":{"model":"a"},"params":{"model":"b"}}]}"#,
                "requests.0.params: it is given twice",
            ),
            (r#"{"requests":[{"params":{"model":"a","Model":"b"}}]}"#, "requests.0.params: it names"),
            (
                r#"{"requests":[{"params":{"model":"a"}},{"params":{"model":"b"}}]}"#,
                "requests.1.params: it names",
            ),
        ] {
            let flaw = BatchRequests::of_array(text.as_bytes(), false).unwrap_err();
            assert!(flaw.message.starts_with(what), "{}", flaw.message);
        }
    }

    #[test]
    fn a_line_of_results_tells_what_it_has_used_and_takes_another_name() {
        let openai = br#"{"custom_id":"a","response":{"status_code":200,"body":{"object":"chat.completion","model":"up","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}},"error":null}"#;
        let anthropic = br#"{"custom_id":"a","result":{"type":"succeeded","message":{"model":"up","usage":{"input_tokens":3,"output_tokens":4}}}}"#;
        for (api, line) in [(BatchApi::OpenAi, &openai[..]), (BatchApi::Anthropic, &anthropic[..])] {
            let usage = api.usage_of_line(line).unwrap();
            assert_eq!((usage.prompt, usage.completion), (Some(3), Some(4)));
            let named = api.line_with_model(line, "ours");
            assert_eq!(
                String::from_utf8(named).unwrap(),
                String::from_utf8_lossy(line).replace("up", "ours")
            );
        }
        let failed = br#"{"custom_id":"b","result":{"type":"errored","error":{}}}"#;
        assert_eq!(BatchApi::Anthropic.usage_of_line(failed), None);
        assert_eq!(BatchApi::Anthropic.line_with_model(failed, "ours"), failed);
    }

    #[test]
    fn only_what_an_object_has_is_put_under_other_names() {
        let object = r#"{"id":"up","output_file_id":null,"n":1}"#;
        let shown = object_with(object, &[("id", "ours"), ("output_file_id", "x"), ("model", "m")]);
        assert_eq!(shown, r#"{"id":"ours","output_file_id":null,"n":1}"#);
    }
}
