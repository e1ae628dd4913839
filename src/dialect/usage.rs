//! Token usage, read where each dialect puts it.
//!
//! | dialect | complete answer | stream |
//! |---|---|---|
//! | chat, completions | `usage` | `usage` of a chunk; `choices[].usage` and `x_groq.usage` of some sites |
//! | responses | `usage` | `response.usage` of the terminal event |
//! | messages | `usage` | `message.usage` of `message_start`, `usage` of `message_delta`, field by field |
//! | embeddings, images, audio | `usage` | `usage` |
//! | rerank | `usage`; `meta.tokens` and `meta.billed_units` of Cohere | |
//! | gemini | `usageMetadata` | the same, cumulative |
//!
//! Only these places count: a tool result may hold the same words. Inside them every known spelling is understood,
//! because sites mix them.

use super::{
    Dialect,
    json::{self, Key, Scan, Stopped},
    service_tier::ServedTier,
    tree::Node,
};
use serde_json::Value;

/// The tokens that an answer says it consumed. `None` is unknown, zero is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens as the dialect counts them: with cached ones on chat and responses, without them on messages.
    pub prompt: Option<u64>,
    pub completion: Option<u64>,
    /// At least `prompt` and `completion` together.
    pub total: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_creation: Option<u64>,
    /// Reasoning tokens, which are part of `completion`.
    pub reasoning: Option<u64>,
    /// Audio tokens of input and output together; they are part of `prompt` and `completion`.
    pub audio: Option<u64>,
    /// Whether `prompt` counts the cached tokens too; `None` when the answer does not say.
    pub prompt_includes_cache: Option<bool>,
    /// The tier by which the request was served. Only an answer that is converted is read for it.
    pub tier: Option<ServedTier>,
}

impl Usage {
    /// Takes in a later report of the same stream. Reports are cumulative but may be partial, so each field keeps its
    /// largest value.
    pub fn merge(&mut self, later: Usage) {
        self.prompt = self.prompt.max(later.prompt);
        self.completion = self.completion.max(later.completion);
        self.total = self.total.max(later.total);
        self.cache_read = self.cache_read.max(later.cache_read);
        self.cache_creation = self.cache_creation.max(later.cache_creation);
        self.reasoning = self.reasoning.max(later.reasoning);
        self.audio = self.audio.max(later.audio);
        self.prompt_includes_cache = later.prompt_includes_cache.or(self.prompt_includes_cache);
        self.tier = later.tier.or(self.tier);
        self.settle_total();
    }

    /// Adds the tokens read from caches and written to them to `prompt`, where a site counts them apart as messages
    /// does. The total of some sites includes them already.
    pub(super) fn count_cache_in(&mut self) {
        if self.prompt_includes_cache == Some(false) {
            let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_creation.unwrap_or(0));
            self.prompt = self.prompt.map(|prompt| prompt.saturating_add(cached));
            self.settle_total();
        }
        self.prompt_includes_cache = Some(true);
    }

    /// Returns the tokens of the input (with cached ones), of the output, read from caches and written to caches; an
    /// unknown count is 0.
    pub fn by_kind(&self) -> [u64; 4] {
        let mut all = *self;
        all.count_cache_in();
        [all.prompt, all.completion, all.cache_read, all.cache_creation].map(Option::unwrap_or_default)
    }

    /// Returns all tokens, with cached ones, also where the dialect counts these apart; 0 when nothing is known.
    pub fn all(&self) -> u64 {
        let mut all = *self;
        all.count_cache_in();
        all.total.unwrap_or(0)
    }

    fn settle_total(&mut self) {
        if self.prompt.is_some() || self.completion.is_some() {
            let sum = self.prompt.unwrap_or(0).saturating_add(self.completion.unwrap_or(0));
            self.total = Some(self.total.unwrap_or(0).max(sum));
        }
    }
}

/// Returns the usage of a complete answer; `None` when it has none or is not a JSON object.
pub fn of_reply(dialect: Dialect, body: &[u8]) -> Option<Usage> {
    of_text(dialect, json::member(std::str::from_utf8(body).ok()?, member_of(dialect))?)
}

/// Reads the usage from the `meta` of an answer in Cohere's form: `tokens`, or what is billed.
pub(super) fn of_cohere(meta: &str) -> Option<Usage> {
    let of = |member: &str| of_text(Dialect::Embeddings, json::member(meta, member)?);
    of("tokens").or_else(|| of("billed_units"))
}

/// Returns the name of an answer's member that holds the usage record.
pub(super) fn member_of(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Gemini { "usageMetadata" } else { "usage" }
}

/// Reads a usage record as it is written in an answer; `None` when it is not an object or has no known count.
pub(super) fn of_text(dialect: Dialect, record: &str) -> Option<Usage> {
    read(dialect, &mut Scan::new(record), 0).ok()?
}

/// Reads the usage record that comes next in the scan, like [`of_text`]; `depth` is the depth of the value around it.
pub(super) fn read(dialect: Dialect, scan: &mut Scan<'_>, depth: usize) -> Result<Option<Usage>, Stopped> {
    let mut tally = Tally::default();
    each_of(scan, depth, |scan, key, depth| tally.take(&key.name(), scan, depth))?;
    Ok(tally.settle(dialect))
}

/// Reads the usage of an answer of which only the beginning is at hand: some relays put it first.
pub fn of_head(dialect: Dialect, head: &[u8]) -> Option<Usage> {
    let whole = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(cut) => std::str::from_utf8(&head[..cut.valid_up_to()]).unwrap_or_default(),
    };
    let mut found = None;
    json::members_before_cut(whole, |member| {
        if member.key == member_of(dialect) {
            found = of_text(dialect, member.value);
        }
    });
    found
}

/// Reads the usage of an answer, or event, of which only the end is at hand: dialects put it last or nearly so.
pub fn of_tail(dialect: Dialect, tail: &[u8]) -> Option<Usage> {
    let key = format!("\"{}\"", member_of(dialect));
    let at = memchr::memmem::rfind(tail, key.as_bytes())? + key.len();
    let value = tail[at..].trim_ascii_start().strip_prefix(b":")?;
    let record = serde_json::Deserializer::from_slice(value).into_iter::<Value>().next()?.ok()?;
    of_record(dialect, &record)
}

/// Returns the usage that one event of a stream reports.
pub fn of_event(dialect: Dialect, event: &Node<'_>) -> Option<Usage> {
    let record = match dialect {
        Dialect::Responses => event.path(&["response", "usage"]),
        Dialect::Messages => event.get("usage").or_else(|| event.path(&["message", "usage"])),
        Dialect::Gemini => {
            // Google's CLI endpoints send the answer in an envelope.
            let answer = event.get("response").filter(|answer| answer.is_object()).unwrap_or(event);
            answer.get("usageMetadata").or_else(|| answer.get("usage_metadata"))
        }
        Dialect::Chat | Dialect::Completions => event.get("usage").or_else(|| {
            let mut choices = event.items_at("choices").iter();
            let in_choice = choices.find_map(|choice| choice.get("usage").filter(|usage| usage.is_object()));
            in_choice.or_else(|| event.path(&["x_groq", "usage"]))
        }),
        _ => event.get("usage"),
    };
    of_text(dialect, record?.raw())
}

/// Reads a usage record from a tree. It is serialized again for that, which is affordable for the one record of a
/// stream.
fn of_record(dialect: Dialect, record: &Value) -> Option<Usage> {
    of_text(dialect, &record.as_object().map(|_| record.to_string())?)
}

/// The counts of a record's members. A record may hold one quantity under several names, of which some sites fill only
/// one and set the others to zero: the largest counts.
#[derive(Default)]
struct Tally {
    usage: Usage,
    /// Gemini's tokens of the candidates. Its thoughts are counted beside them; elsewhere they are part of the output.
    candidates: Option<u64>,
    thoughts: Option<u64>,
    /// Tokens that Google's own tools have read, counted beside the prompt.
    tool_use: Option<u64>,
    /// The input and the output as the sums of their details.
    input_parts: Option<u64>,
    output_parts: Option<u64>,
    cache_apart: bool,
    cache_within: bool,
}

impl Tally {
    /// Takes in a member, whose value comes next.
    fn take(&mut self, key: &str, scan: &mut Scan<'_>, depth: usize) -> Result<(), Stopped> {
        match key {
            "prompt_tokens_details"
            | "input_tokens_details"
            // The realtime and audio surfaces spell it this way.
            | "input_token_details"
            | "promptTokensDetails"
            | "inputTokensDetails" => {
                self.cache_within |= scan.peek() == Some(b'{');
                each_of(scan, depth, |scan, key, depth| {
                    self.take_input_detail(&key.name(), scan.literal(depth)?);
                    Ok(())
                })
            }
            "completion_tokens_details"
            | "output_tokens_details"
            | "output_token_details"
            | "completionTokensDetails"
            | "outputTokensDetails" => each_of(scan, depth, |scan, key, depth| {
                self.take_output_detail(&key.name(), scan.literal(depth)?);
                Ok(())
            }),
            "cache_creation" => {
                self.cache_apart |= scan.peek() != Some(b'n');
                let mut written = None;
                each_of(scan, depth, |scan, key, depth| {
                    let value = scan.literal(depth)?;
                    if matches!(&*key.name(), "ephemeral_5m_input_tokens" | "ephemeral_1h_input_tokens") {
                        add(&mut written, value);
                    }
                    Ok(())
                })?;
                self.usage.cache_creation = self.usage.cache_creation.max(written);
                Ok(())
            }
            _ => {
                self.take_count(key, scan.literal(depth)?);
                Ok(())
            }
        }
    }

    fn take_count(&mut self, key: &str, value: &str) {
        let usage = &mut self.usage;
        match key {
            "prompt_tokens" | "input_tokens" | "prompt_token_count" | "input_token_count"
            | "promptTokens" | "inputTokens" | "promptTokenCount" | "inputTokenCount" => {
                raise(&mut usage.prompt, value)
            }
            "completion_tokens"
            | "output_tokens"
            | "completion_token_count"
            | "output_token_count"
            | "completionTokens"
            | "outputTokens"
            | "completionTokenCount"
            | "outputTokenCount" => {
                raise(&mut usage.completion, value);
            }
            "total_tokens" | "total_token_count" | "totalTokens" | "totalTokenCount" => {
                raise(&mut usage.total, value);
            }
            "candidatesTokenCount" | "candidates_token_count" => raise(&mut self.candidates, value),
            "thoughtsTokenCount" | "thoughts_token_count" => raise(&mut self.thoughts, value),
            "toolUsePromptTokenCount" | "tool_use_prompt_token_count" => raise(&mut self.tool_use, value),
            "reasoning_tokens" | "reasoningTokens" => raise(&mut usage.reasoning, value),
            "cache_read_input_tokens" | "cacheReadInputTokens" => {
                self.cache_apart |= value != NULL;
                raise(&mut usage.cache_read, value);
            }
            "prompt_cache_hit_tokens"
            | "promptCacheHitTokens"
            | "cachedContentTokenCount"
            | "cached_content_token_count" => {
                self.cache_within |= value != NULL;
                raise(&mut usage.cache_read, value);
            }
            "cached_tokens" | "cachedTokens" | "cache_read_tokens" | "cacheReadTokens" => {
                raise(&mut usage.cache_read, value);
            }
            "cache_creation_input_tokens" | "cacheCreationInputTokens" => {
                self.cache_apart |= value != NULL;
                raise(&mut usage.cache_creation, value);
            }
            "cache_creation_tokens" | "cacheCreationTokens" => raise(&mut usage.cache_creation, value),
            _ => {}
        }
    }

    fn take_input_detail(&mut self, key: &str, value: &str) {
        match key {
            "cached_tokens" | "cachedTokens" => raise(&mut self.usage.cache_read, value),
            "cache_creation_tokens"
            | "cacheCreationTokens"
            | "cache_write_tokens"
            | "cached_creation_tokens" => {
                raise(&mut self.usage.cache_creation, value);
            }
            "audio_tokens" | "audioTokens" => {
                add(&mut self.usage.audio, value);
                add(&mut self.input_parts, value);
            }
            // Cached tokens are part of these and add nothing.
            "text_tokens" | "textTokens" | "image_tokens" | "imageTokens" => {
                add(&mut self.input_parts, value);
            }
            _ => {}
        }
    }

    fn take_output_detail(&mut self, key: &str, value: &str) {
        match key {
            "reasoning_tokens" | "reasoningTokens" | "thinking_tokens" => {
                raise(&mut self.usage.reasoning, value);
                add(&mut self.output_parts, value);
            }
            "audio_tokens" | "audioTokens" => {
                add(&mut self.usage.audio, value);
                add(&mut self.output_parts, value);
            }
            "text_tokens" | "textTokens" | "image_tokens" | "imageTokens" => {
                add(&mut self.output_parts, value);
            }
            _ => {}
        }
    }

    fn settle(self, dialect: Dialect) -> Option<Usage> {
        let mut usage = self.usage;
        let generated = [self.candidates, self.thoughts].into_iter().flatten().reduce(u64::saturating_add);
        usage.prompt = usage.prompt.or(self.input_parts);
        usage.completion = usage.completion.or(generated).or(self.output_parts);
        usage.reasoning = usage.reasoning.or(self.thoughts);
        usage.prompt = usage.prompt.map(|prompt| prompt + self.tool_use.unwrap_or(0));
        match (usage.prompt, usage.completion, usage.total) {
            (None, Some(known), Some(total)) => usage.prompt = Some(total.saturating_sub(known)),
            (Some(known), None, Some(total)) => usage.completion = Some(total.saturating_sub(known)),
            _ => {}
        }
        if let (Dialect::Chat, Some(prompt), Some(completion), Some(total), Some(reasoning)) =
            (dialect, usage.prompt, usage.completion, usage.total, usage.reasoning)
            && reasoning > 0
            && total == prompt + completion + reasoning
        {
            // xAI counts the reasoning beside the completion.
            usage.completion = Some(completion + reasoning);
        }
        usage.settle_total();
        // Some sites tell Anthropic's counts under OpenAI's names: cached tokens are then no part of the prompt.
        let cached = usage.cache_read.unwrap_or(0).saturating_add(usage.cache_creation.unwrap_or(0));
        let exceeds_prompt = usage.prompt.is_some_and(|prompt| cached > prompt);
        usage.prompt_includes_cache = match (dialect, self.cache_apart, self.cache_within) {
            _ if exceeds_prompt => Some(false),
            (Dialect::Messages, true, _) | (_, true, false) => Some(false),
            (_, _, true) => Some(true),
            (_, false, false) => None,
        };
        let counts = [usage.prompt, usage.completion, usage.total, usage.cache_read, usage.cache_creation];
        counts.iter().any(Option::is_some).then_some(usage)
    }
}

const NULL: &str = "null";

/// The largest count that is believed: no request has more tokens. A larger one is treated as unknown, so that the sums
/// of a log stay within what a database can count.
const MAX_COUNT: u64 = 1_000_000_000;

/// Visits the members of the value that comes next if it is an object; skips any other value.
fn each_of<'a>(
    scan: &mut Scan<'a>,
    depth: usize,
    each: impl FnMut(&mut Scan<'a>, Key<'a>, usize) -> Result<(), Stopped>,
) -> Result<(), Stopped> {
    if scan.peek() == Some(b'{') { scan.object(depth + 1, each) } else { scan.value(depth) }
}

fn raise(slot: &mut Option<u64>, value: &str) {
    *slot = (*slot).max(count(value));
}

fn add(slot: &mut Option<u64>, value: &str) {
    if let Some(more) = count(value) {
        *slot = Some(slot.unwrap_or(0).saturating_add(more));
    }
}

/// Reads a count as sites write it: some send whole numbers as floats, some negative numbers (read as 0).
fn count(value: &str) -> Option<u64> {
    let as_float = || value.parse::<f64>().ok().map(|number| number.round().max(0.0) as u64);
    let number = value.parse::<u64>().ok().or_else(as_float)?;
    (number <= MAX_COUNT).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_event(dialect: Dialect, event: &Value) -> Option<Usage> {
        super::of_event(dialect, &Node::parse(&event.to_string()).unwrap())
    }

    fn counts(usage: Usage) -> [Option<u64>; 6] {
        [usage.prompt, usage.completion, usage.total, usage.cache_read, usage.cache_creation, usage.reasoning]
    }

    #[test]
    fn records_of_every_dialect_are_read() {
        use Dialect::{Chat, Embeddings, Gemini, Messages, Responses};
        let n: Option<u64> = None;
        let cases = [
            (
                Chat,
                json!({"prompt_tokens":5,"completion_tokens":0,"total_tokens":5}),
                [Some(5), Some(0), Some(5), n, n, n],
                None,
            ),
            (
                Chat,
                json!({"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":3},
                "completion_tokens_details":{"reasoning_tokens":2}}),
                [Some(5), Some(7), Some(12), Some(3), n, Some(2)],
                Some(true),
            ),
            // xAI counts the reasoning beside the completion.
            (
                Chat,
                json!({"prompt_tokens":100,"completion_tokens":5,"total_tokens":150,
                "completion_tokens_details":{"reasoning_tokens":45}}),
                [Some(100), Some(50), Some(150), n, n, Some(45)],
                None,
            ),
            (
                Chat,
                json!({"prompt_tokens":5,"total_tokens":9,"prompt_cache_hit_tokens":4}),
                [Some(5), Some(4), Some(9), Some(4), n, n],
                Some(true),
            ),
            (
                Chat,
                json!({"promptTokens":5.0,"completionTokens":null,"totalTokens":null}),
                [Some(5), n, Some(5), n, n, n],
                None,
            ),
            (
                Responses,
                json!({"input_tokens":5,"input_tokens_details":{"cached_tokens":0},"output_tokens":6,
                "output_tokens_details":{"reasoning_tokens":1},"total_tokens":11}),
                [Some(5), Some(6), Some(11), Some(0), n, Some(1)],
                Some(true),
            ),
            (
                Responses,
                json!({"input_tokens":9,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":3},
                "output_tokens":1}),
                [Some(9), Some(1), Some(10), Some(2), Some(3), n],
                Some(true),
            ),
            (
                Messages,
                json!({"input_tokens":5,"cache_read_input_tokens":40,"output_tokens":6,
                "cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3}}),
                [Some(5), Some(6), Some(11), Some(40), Some(5), n],
                Some(false),
            ),
            (
                Messages,
                json!({"input_tokens":5,"cache_read_input_tokens":0,"output_tokens":6,
                "output_tokens_details":{"thinking_tokens":4}}),
                [Some(5), Some(6), Some(11), Some(0), n, Some(4)],
                Some(false),
            ),
            (
                Messages,
                json!({"input_tokens":5,"output_tokens":6}),
                [Some(5), Some(6), Some(11), n, n, n],
                None,
            ),
            (
                Chat,
                json!({"prompt_tokens":40,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":900}}),
                [Some(40), Some(5), Some(45), Some(900), n, n],
                Some(false),
            ),
            (
                Embeddings,
                json!({"prompt_tokens":8,"total_tokens":8}),
                [Some(8), Some(0), Some(8), n, n, n],
                None,
            ),
            (
                Gemini,
                json!({"promptTokenCount":3,"candidatesTokenCount":4,"toolUsePromptTokenCount":6,"totalTokenCount":13}),
                [Some(9), Some(4), Some(13), n, n, n],
                None,
            ),
            (
                Gemini,
                json!({"promptTokenCount":3,"candidatesTokenCount":4,"thoughtsTokenCount":5,
                "cachedContentTokenCount":1,"totalTokenCount":12}),
                [Some(3), Some(9), Some(12), Some(1), n, Some(5)],
                Some(true),
            ),
        ];
        for (dialect, record, wanted, includes) in cases {
            let usage = of_record(dialect, &record).unwrap();
            assert_eq!(counts(usage), wanted, "{record}");
            assert_eq!(usage.prompt_includes_cache, includes, "{record}");
        }
    }

    #[test]
    fn what_says_nothing_is_no_usage() {
        for record in [json!(null), json!({}), json!([]), json!("5"), json!({"prompt_tokens":"5"})] {
            assert_eq!(of_record(Dialect::Chat, &record), None, "{record}");
        }
        assert_eq!(of_reply(Dialect::Chat, b"{\"usage\":null}"), None);
        assert_eq!(of_reply(Dialect::Chat, b"not json"), None);
    }

    #[test]
    fn usage_counts_only_in_its_place() {
        let body =
            br#"{"choices":[{"message":{"usage":{"prompt_tokens":999}}}],"usage":{"prompt_tokens":1}}"#;
        assert_eq!(of_reply(Dialect::Chat, body).unwrap().prompt, Some(1));
        let event =
            json!({"type":"content_block_start","content_block":{"input":{"usage":{"input_tokens":9}}}});
        assert_eq!(of_event(Dialect::Messages, &event), None);
    }

    #[test]
    fn the_two_halves_of_a_messages_stream_are_merged() {
        let start =
            json!({"message":{"usage":{"input_tokens":80,"cache_read_input_tokens":40,"output_tokens":1}}});
        let delta = json!({"usage":{"output_tokens":25}});
        let mut usage = of_event(Dialect::Messages, &start).unwrap();
        usage.merge(of_event(Dialect::Messages, &delta).unwrap());
        assert_eq!(counts(usage), [Some(80), Some(25), Some(105), Some(40), None, None]);
        assert_eq!(usage.prompt_includes_cache, Some(false));
    }

    #[test]
    fn the_end_of_a_long_answer_is_enough() {
        let tail = br#"\"usage\":1"}],"usage": {"prompt_tokens":4,"completion_tokens":1},"id":"x"}"#;
        assert_eq!(of_tail(Dialect::Chat, tail).unwrap().total, Some(5));
        for tail in [&b"\"usage\""[..], b"\"usage\":{", b"", b"\"usage\":null}"] {
            assert_eq!(of_tail(Dialect::Chat, tail), None);
        }
    }

    #[test]
    fn sites_that_report_elsewhere_are_understood() {
        for event in [
            json!({"choices":[{"usage":{"prompt_tokens":4}}]}),
            json!({"choices":[],"usage":null,"x_groq":{"usage":{"prompt_tokens":4}}}),
        ] {
            assert_eq!(of_event(Dialect::Chat, &event).unwrap().prompt, Some(4), "{event}");
        }
    }

    #[test]
    fn a_count_beyond_all_reason_is_none() {
        for absurd in [json!(u64::MAX), json!(i64::MAX), json!(1e300), json!(1_000_000_001)] {
            let usage = json!({"usage":{"prompt_tokens":absurd,"completion_tokens":3}});
            assert_eq!(counts(of_event(Dialect::Chat, &usage).unwrap())[..2], [None, Some(3)], "{absurd}");
        }
    }
}
