//! The envelope of a request: what routing must know, read without building a tree.
//!
//! [`skim`] walks the body once ([`json`]), refuses anything that is not a valid JSON object, and keeps the few fields
//! below. [`splice_model`] then puts the upstream's model name into the body by cutting it in three: every other byte
//! reaches the upstream as the client wrote it, key order, number spelling and blanks included.
//!
//! Only what the gateway itself needs is validated. Whether `max_tokens` makes sense or a tool is well formed is left
//! to the upstream to say.

mod other_models;

use std::ops::Range;

use bytes::Bytes;

use super::{
    Dialect,
    effort::OPENAI_WORDS,
    json::{self, Marks, Member, SyntaxError},
};
use crate::byte_order_mark;

pub use other_models::{MAX_OTHER_MODELS, models_of_tools, other_models};

/// The longest model name accepted, in bytes; longer ones are no model's and would only fill the log.
const MAX_MODEL_BYTES: usize = 512;
/// The longest session hint used, in bytes; longer ones are ignored.
const MAX_HINT_BYTES: usize = 2048;
/// The model that an image request without `model` asks for.
const DEFAULT_IMAGE_MODEL: &str = "gpt-image-1";

/// What routing must know about a request body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The requested model, trimmed and not blank (for gemini empty: its path names the model).
    pub model: String,
    /// Whether `stream` is exactly `true`.
    pub stream: bool,
    /// `prompt_cache_key`, when it is a non-blank string.
    pub prompt_cache_key: Option<String>,
    /// `user`, or on messages `metadata.user_id`, when it is a non-blank string.
    pub user: Option<String>,
    pub marks: Marks,
    /// Whether it has `prompt_cache_key`, whatever its value.
    pub has_cache_key: bool,
    /// Whether it has `previous_response_id`, whatever its value.
    pub has_previous: bool,
    /// Whether it continues a conversation that the upstream keeps (`conversation` of the responses dialect).
    pub has_conversation: bool,
    pub thread: Thread,
    /// Whether the client forbids the upstream to store the answer (`store` is `false`); no later request could then
    /// continue from it.
    pub forbids_storing: bool,
    /// Whether the answer is to be made in the background and fetched later (`background` of the responses dialect).
    pub in_background: bool,
    /// Whether it has `include`, which says what the answer is to include.
    pub has_include: bool,
    /// Whether it names a service tier.
    pub has_tier: bool,
    /// Whether it states the thinking effort in OpenAI's words, in a dialect that has words of its own (gemini).
    pub has_openai_words: bool,
    /// Whether the form asks for a transcript as JSON, not as plain text or subtitles (`response_format`).
    pub wants_json_transcript: bool,
    /// Other models that the upstream may turn to, as some hubs offer it (`models`, `fallbacks`).
    pub other_models: Vec<String>,
    place: ModelPlace,
}

/// What a messages request asks of the conversation that its upstream keeps (`thread`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thread {
    /// The upstream keeps no conversation.
    #[default]
    None,
    /// The upstream keeps the conversation from this request on.
    Begun,
    /// The request continues a conversation that the upstream has kept.
    Continued,
}

/// The place of the model in the body, or the place where it must be put.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelPlace {
    /// The model's string literal, with its quotes.
    Literal(Range<usize>),
    /// The body names no model: a member is inserted right behind the opening brace.
    Absent { at: usize, more_follow: bool },
    /// The content of the form's model field.
    Field(Range<usize>),
    /// The form names no model: a field with this head is inserted at this place.
    NoField { at: usize, head: String },
}

/// The place before the body has been read.
impl Default for ModelPlace {
    fn default() -> Self {
        Self::Absent { at: 0, more_follow: false }
    }
}

/// The reason why a body is refused; always the client's mistake (400).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeError {
    /// The field at fault, for `error.param`; `None` when the body is not a JSON object at all.
    pub field: Option<&'static str>,
    /// Names the field and what is wrong with it.
    pub message: String,
}

impl EnvelopeError {
    pub fn field(field: &'static str, problem: &str) -> Self {
        Self { field: Some(field), message: format!("{field} {problem}") }
    }

    fn body(message: impl Into<String>) -> Self {
        Self { field: None, message: message.into() }
    }
}

/// Reads the envelope and checks that the whole body is a JSON object.
pub fn skim(dialect: Dialect, body: &[u8]) -> Result<Envelope, EnvelopeError> {
    skim_or(dialect, (dialect == Dialect::Images).then_some(DEFAULT_IMAGE_MODEL), body)
}

/// Reads the envelope like [`skim`], with this model for a request that names none.
pub fn skim_or(
    dialect: Dialect,
    default_model: Option<&str>,
    body: &[u8],
) -> Result<Envelope, EnvelopeError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        EnvelopeError::body(format!("The request body is not valid UTF-8 (at byte {at})"))
    })?;
    let mut found = EnvelopeReader::default();
    let object =
        json::members(text, |member| found.take(dialect, member)).map_err(|error| syntax(text, error))?;
    if let Some((name, problem)) = found.ambiguous {
        return Err(EnvelopeError::field(name, problem));
    }
    let other_models = other_models::named_in(&found.other_models)?;
    let (model, place) = found.model(dialect, default_model, object.open)?;
    found.require_messages(dialect)?;
    Ok(Envelope { model, place, marks: object.marks, other_models, ..found.envelope })
}

/// The model of a multipart form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormModel {
    /// The place of the content of the form's model field.
    At(Range<usize>),
    /// The form names no model: a field with this head is to be inserted at this place.
    Absent { at: usize, head: String },
    /// The form names the model more than once.
    Twice,
}

/// Builds the envelope of a parsed multipart form.
pub fn of_form(
    dialect: Dialect,
    body: &[u8],
    model: FormModel,
    stream: bool,
) -> Result<Envelope, EnvelopeError> {
    let (model, place) = match model {
        FormModel::Twice => return Err(EnvelopeError::field("model", "is given twice")),
        FormModel::Absent { .. } if dialect != Dialect::Images => {
            return Err(EnvelopeError::field("model", "is required"));
        }
        FormModel::At(range) => {
            let name = std::str::from_utf8(body.get(range.clone()).unwrap_or_default());
            let name = name.map_err(|_| EnvelopeError::field("model", "is not UTF-8"))?;
            (fit_name(name)?, ModelPlace::Field(range))
        }
        FormModel::Absent { at, head } => (DEFAULT_IMAGE_MODEL.to_owned(), ModelPlace::NoField { at, head }),
    };
    Ok(Envelope { model, place, stream, ..Envelope::default() })
}

/// Returns the body with `model` in place of the requested one, as up to three pieces to be sent one after the other;
/// nothing is copied. When the body names `model` already, the first piece is the whole body and the others are empty.
pub fn splice_model(body: &Bytes, envelope: &Envelope, model: &str) -> [Bytes; 3] {
    let literal = || serde_json::Value::from(model).to_string();
    match &envelope.place {
        ModelPlace::Literal(range) => {
            let written = &body[range.start + 1..range.end - 1];
            if written == model.as_bytes() && !written.contains(&b'\\') {
                return [body.clone(), Bytes::new(), Bytes::new()];
            }
            [body.slice(..range.start), Bytes::from(literal()), body.slice(range.end..)]
        }
        ModelPlace::Absent { at, more_follow } => {
            let comma = if *more_follow { "," } else { "" };
            let member = format!("\"model\":{}{comma}", literal());
            [body.slice(..*at), Bytes::from(member), body.slice(*at..)]
        }
        ModelPlace::Field(range) => {
            [body.slice(..range.start), Bytes::from(model.to_owned()), body.slice(range.end..)]
        }
        ModelPlace::NoField { at, head } => {
            [body.slice(..*at), Bytes::from(format!("{head}{model}")), body.slice(*at..)]
        }
    }
}

// === what is collected on the walk ===

/// Members that routing decides by. They must be unambiguous: parsers differ on which of two such members counts, and
/// some accept a name in any letter case.
const DECISIVE: [&str; 7] =
    ["model", "stream", "stream_options", "previous_response_id", "conversation", "background", "store"];

#[derive(Default)]
struct EnvelopeReader<'a> {
    /// The fields read so far, except the model.
    envelope: Envelope,
    members: usize,
    model: Option<Member<'a>>,
    /// Which of the [`DECISIVE`] members have been seen.
    decided: [bool; DECISIVE.len()],
    /// A member of [`DECISIVE`] that two parsers could read in two ways, and the reason.
    ambiguous: Option<(&'static str, &'static str)>,
    /// The lists of other models, unparsed, with the names of their members.
    other_models: Vec<(&'static str, &'a str)>,
    messages: Option<&'a str>,
    input: bool,
}

impl<'a> EnvelopeReader<'a> {
    fn take(&mut self, dialect: Dialect, member: Member<'a>) {
        self.members += 1;
        let value = member.value;
        self.note_decisive(dialect, &member.key);
        let said = &mut self.envelope;
        match member.key.as_ref() {
            "model" => self.model = Some(member),
            "messages" => self.messages = Some(value),
            "input" => self.input = value != "null",
            "stream" => said.stream = value == "true",
            "prompt_cache_key" => {
                said.has_cache_key = true;
                said.prompt_cache_key = hint(value);
            }
            "previous_response_id" => said.has_previous = true,
            "conversation" => said.has_conversation |= dialect == Dialect::Responses && value != "null",
            "thread" if dialect == Dialect::Messages => {
                said.thread = match json::member(value, "type") {
                    _ if value == "null" => Thread::None,
                    Some("\"continue\"") => Thread::Continued,
                    _ => Thread::Begun,
                };
            }
            "background" => said.in_background = dialect == Dialect::Responses && value == "true",
            "store" => said.forbids_storing = value == "false",
            "include" => said.has_include = true,
            "service_tier" => said.has_tier = true,
            key if dialect == Dialect::Gemini && OPENAI_WORDS.contains(&key) => said.has_openai_words = true,
            "user" if dialect != Dialect::Messages => said.user = hint(value),
            "metadata" if dialect == Dialect::Messages => {
                said.user = json::member(value, "user_id").and_then(hint);
            }
            key => {
                self.other_models.extend(other_models(key).map(|name| (name, value)));
            }
        }
    }

    fn note_decisive(&mut self, dialect: Dialect, key: &str) {
        let named = DECISIVE.iter().position(|name| name.eq_ignore_ascii_case(key));
        // In gemini the path decides.
        let Some(place) = named.filter(|_| dialect != Dialect::Gemini) else { return };
        let name = DECISIVE[place];
        if self.decided[place] {
            self.ambiguous = Some((name, "is given twice"));
        } else if key != name {
            self.ambiguous = Some((name, "must be in lower case"));
        }
        self.decided[place] = true;
    }

    fn model(
        &self,
        dialect: Dialect,
        default: Option<&str>,
        open: usize,
    ) -> Result<(String, ModelPlace), EnvelopeError> {
        if dialect == Dialect::Gemini {
            return Ok((String::new(), ModelPlace::Absent { at: open + 1, more_follow: self.members > 0 }));
        }
        let Some(given) = &self.model else {
            let default = default.ok_or_else(|| EnvelopeError::field("model", "is required"))?;
            let place = ModelPlace::Absent { at: open + 1, more_follow: self.members > 0 };
            return Ok((default.to_owned(), place));
        };
        let place = ModelPlace::Literal(given.at..given.at + given.value.len());
        if let Some(default) = default.filter(|_| given.value == "null") {
            return Ok((default.to_owned(), place));
        }
        Ok((model_name(given.value)?, place))
    }

    fn require_messages(&self, dialect: Dialect) -> Result<(), EnvelopeError> {
        if !matches!(dialect, Dialect::Chat | Dialect::Messages) {
            return Ok(());
        }
        let problem = match self.messages {
            Some(list) if list.starts_with('[') => {
                // A paused answer of a thread is continued without a new message.
                if self.envelope.thread == Thread::Continued
                    || !list[1..list.len() - 1].trim_ascii().is_empty()
                {
                    return Ok(());
                }
                "must not be empty"
            }
            None | Some("null") => "is required",
            Some(_) => return Err(EnvelopeError::field("messages", "must be an array")),
        };
        if dialect == Dialect::Chat && self.input {
            let problem = format!("{problem}; send a request with input to /v1/responses");
            return Err(EnvelopeError::field("messages", &problem));
        }
        Err(EnvelopeError::field("messages", problem))
    }
}

fn model_name(value: &str) -> Result<String, EnvelopeError> {
    if value == "null" {
        return Err(EnvelopeError::field("model", "is required"));
    }
    fit_name(&json::string(value).ok_or_else(|| EnvelopeError::field("model", "must be a string"))?)
}

fn fit_name(name: &str) -> Result<String, EnvelopeError> {
    let name = name.trim();
    if name.is_empty() {
        return Err(EnvelopeError::field("model", "must not be blank"));
    }
    if name.len() > MAX_MODEL_BYTES {
        return Err(EnvelopeError::field("model", "is longer than 512 bytes"));
    }
    Ok(name.to_owned())
}

fn hint(value: &str) -> Option<String> {
    if value.len() > MAX_HINT_BYTES {
        return None;
    }
    json::string(value).filter(|text| !text.trim().is_empty())
}

fn syntax(text: &str, error: SyntaxError) -> EnvelopeError {
    EnvelopeError::body(if text.trim_ascii().is_empty() {
        "The request body is empty; it must be a JSON object".to_owned()
    } else if text.starts_with(byte_order_mark::CHAR) {
        "The request body must be a JSON object without a byte order mark".to_owned()
    } else {
        format!("The request body must be a JSON object: {} at byte {}", error.what, error.at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn spliced(body: &str, dialect: Dialect, model: &str) -> String {
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        let envelope = skim(dialect, &bytes).unwrap();
        String::from_utf8(splice_model(&bytes, &envelope, model).concat()).unwrap()
    }

    #[test]
    fn the_envelope_is_read_wherever_its_fields_stand() {
        let body = r#"{"messages":[{"model":"inner","stream":true}], "stream" :true,
            "user":"u-1","prompt_cache_key":"c","stream_options":{"include_usage":true},"model" : " gpt-x "}"#;
        let envelope = skim(Dialect::Chat, body.as_bytes()).unwrap();
        assert_eq!(envelope.model, "gpt-x");
        assert!(envelope.stream);
        assert_eq!(envelope.prompt_cache_key.as_deref(), Some("c"));
        assert_eq!(envelope.user.as_deref(), Some("u-1"));

        let body = r#"{"model":"m","messages":[1],"metadata":{"user_id":"user_1"},"user":"no"}"#;
        let envelope = skim(Dialect::Messages, body.as_bytes()).unwrap();
        assert_eq!(envelope.user.as_deref(), Some("user_1"));
    }

    #[test]
    fn openais_words_for_thinking_are_noted_where_they_are_foreign() {
        for (dialect, body, noted) in [
            (Dialect::Gemini, r#"{"contents":[],"reasoning_\u0065ffort":"low"}"#, true),
            (Dialect::Gemini, r#"{"contents":[{"reasoning":1}]}"#, false),
            (Dialect::Responses, r#"{"model":"m","reasoning":{}}"#, false),
        ] {
            assert_eq!(skim(dialect, body.as_bytes()).unwrap().has_openai_words, noted, "{body}");
        }
    }

    #[test]
    fn a_request_may_go_on_from_a_thread_without_messages() {
        for (thread, messages, wanted) in [
            (r#"{"type":"continue","previous_message_id":"msg_1"}"#, "[]", Some(Thread::Continued)),
            (r#"{"type":"create"}"#, "[{}]", Some(Thread::Begun)),
            (r#"{"type":"create"}"#, "[]", None),
            ("null", "[{}]", Some(Thread::None)),
        ] {
            let body = format!(r#"{{"model":"m","messages":{messages},"thread":{thread}}}"#);
            let skimmed = skim(Dialect::Messages, body.as_bytes());
            assert_eq!(skimmed.map(|envelope| envelope.thread).ok(), wanted, "{body}");
        }
    }

    #[test]
    fn stream_counts_only_when_exactly_true() {
        for (value, wanted) in [
            ("true", true),
            ("false", false),
            ("1", false),
            ("\"true\"", false),
            ("null", false),
            ("{}", false),
        ] {
            let body = format!("{{\"model\":\"m\",\"stream\":{value}}}");
            assert_eq!(skim(Dialect::Responses, body.as_bytes()).unwrap().stream, wanted, "{value}");
        }
    }

    #[test]
    fn a_bad_body_is_refused_with_the_field_named() {
        use Dialect::{Chat, Completions, Embeddings, Images, Messages, Responses};
        let deep = format!("{{\"model\":\"m\",\"x\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        let long = format!("{{\"model\":\"{}\"}}", "m".repeat(513));
        let cases: &[(Dialect, &[u8], Option<&str>, &str)] = &[
            (Chat, b"", None, "is empty"),
            (Chat, b"[]", None, "JSON object"),
            (Chat, b"{\"model\":\"m\"", None, "expected ',' or '}' at byte 12"),
            (Chat, b"\xef\xbb\xbf{}", None, "byte order mark"),
            (Chat, b"{\"model\":\"m\",\"messages\":[\"\xff\"]}", None, "not valid UTF-8 (at byte 26)"),
            (Chat, deep.as_bytes(), None, "nested deeper than 128 levels"),
            (Chat, b"{\"messages\":[1]}", Some("model"), "model is required"),
            (Chat, b"{\"model\":null,\"messages\":[1]}", Some("model"), "model is required"),
            (Chat, b"{\"model\":5,\"messages\":[1]}", Some("model"), "model must be a string"),
            (Chat, b"{\"model\":\" \",\"messages\":[1]}", Some("model"), "model must not be blank"),
            (Chat, b"{\"model\":\"a\",\"model\":\"a\"}", Some("model"), "model is given twice"),
            (Chat, b"{\"model\":\"a\",\"Model\":\"b\"}", Some("model"), "model is given twice"),
            (Chat, b"{\"MODEL\":\"a\"}", Some("model"), "model must be in lower case"),
            (Responses, b"{\"Conversation\":1}", Some("conversation"), "conversation must be in lower case"),
            (Chat, b"{\"store\":1,\"model\":\"a\",\"store\":1}", Some("store"), "store is given twice"),
            (Chat, b"{\"model\":\"a\",\"mod\\u0065l\":\"b\"}", Some("model"), "model is given twice"),
            (Chat, b"{\"model\":\"a\"}", Some("messages"), "messages is required"),
            (Chat, b"{\"model\":\"a\",\"messages\":[ ]}", Some("messages"), "messages must not be empty"),
            (Chat, b"{\"model\":\"a\",\"messages\":{}}", Some("messages"), "messages must be an array"),
            (Chat, b"{\"model\":\"a\",\"input\":\"x\"}", Some("messages"), "/v1/responses"),
            (Messages, b"{\"model\":\"a\"}", Some("messages"), "messages is required"),
            (Responses, b"{}", Some("model"), "model is required"),
            (Completions, b"{}", Some("model"), "model is required"),
            (Embeddings, long.as_bytes(), Some("model"), "longer than 512 bytes"),
            (Images, b"{\"model\":7}", Some("model"), "model must be a string"),
        ];
        for &(dialect, body, field, text) in cases {
            let error = skim(dialect, body).unwrap_err();
            assert_eq!(error.field, field, "{}", String::from_utf8_lossy(body));
            assert!(error.message.contains(text), "{:?} lacks {text:?}", error.message);
        }
    }

    #[test]
    fn messages_without_max_tokens_are_left_to_the_upstream() {
        assert!(skim(Dialect::Messages, br#"{"model":"m","messages":[{}],"max_tokens":0}"#).is_ok());
    }

    #[test]
    fn the_splice_changes_the_model_and_nothing_else() {
        use Dialect::{Images, Responses};
        let cases = [
            (Responses, r#"{"model":"a","n":1.0}"#, "b", r#"{"model":"b","n":1.0}"#),
            (Responses, r#"{"model":"a","n":1.0}"#, "a", r#"{"model":"a","n":1.0}"#),
            (
                Responses,
                r#"{ "x":{"model":"a"},"model": " a " }"#,
                "a",
                r#"{ "x":{"model":"a"},"model": "a" }"#,
            ),
            (Responses, r#"{"mod\u0065l":"\u0061"}"#, "q\"\\", r#"{"mod\u0065l":"q\"\\"}"#),
            (Images, " {}", "i", r#" {"model":"i"}"#),
            (Images, r#"{"prompt":"p"}"#, "i", r#"{"model":"i","prompt":"p"}"#),
            (Images, r#"{"model":null}"#, "i", r#"{"model":"i"}"#),
        ];
        for (dialect, body, model, wanted) in cases {
            assert_eq!(spliced(body, dialect, model), wanted, "{body}");
        }
        assert_eq!(skim(Images, b"{}").unwrap().model, "gpt-image-1");
    }

    #[test]
    fn an_unchanged_body_stays_one_piece() {
        let body = Bytes::from_static(br#"{"model":"m"}"#);
        let envelope = skim(Dialect::Responses, &body).unwrap();
        let pieces = splice_model(&body, &envelope, "m");
        assert_eq!(pieces[0].as_ptr(), body.as_ptr());
        assert_eq!(pieces[1..], [Bytes::new(), Bytes::new()]);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = skim(Dialect::Chat, &body);
        }

        #[test]
        fn skim_and_splice_read_as_a_full_parser_reads(
            extra in prop::collection::btree_map("[a-z\"\\\\é]{1,8}", any_json(), 0..5),
            model in "[^ ].{0,20}[^ ]", upstream in ".{1,20}", stream in any_json(), pretty in any::<bool>(),
        ) {
            prop_assume!(!model.trim().is_empty());
            let mut body = Value::Object(extra.into_iter().collect());
            body["model"] = json!(model);
            body["stream"] = stream;
            let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();
            let envelope = skim(Dialect::Responses, text.as_bytes()).unwrap();
            prop_assert_eq!(&envelope.model, model.trim());
            prop_assert_eq!(envelope.stream, body["stream"] == true);
            prop_assert_eq!(envelope.user.as_deref(), body["user"].as_str().filter(|user| !user.trim().is_empty()));
            let mut wanted: Value = serde_json::from_str(&text).unwrap();
            wanted["model"] = json!(upstream);
            let sent: Value =
                serde_json::from_str(&spliced(&text, Dialect::Responses, &upstream)).unwrap();
            prop_assert_eq!(sent, wanted);
        }
    }
}
