//! Counts the text that a stream has brought. It stands for the output tokens of an answer whose usage nobody tells,
//! because its client leaves or its stream breaks.

use memchr::memchr2;

use crate::dialect::Dialect;

/// About how many bytes of text a token has.
const BYTES_PER_TOKEN: u64 = 4;
/// The longest value that is text, in bytes; a longer one is a picture or sound.
const LONGEST_TEXT: usize = 64 * 1024;

/// The text that has come so far.
#[derive(Debug)]
pub(super) struct WrittenText {
    /// The names of the members of an event whose values are text.
    members: &'static [&'static [u8]],
    bytes: u64,
    /// The number of events with text.
    events: u64,
}

impl WrittenText {
    pub(super) fn new(dialect: Dialect) -> Self {
        let members: &[&[u8]] = match dialect {
            Dialect::Chat => {
                &[b"content", b"reasoning_content", b"reasoning", b"refusal", b"arguments", b"input"]
            }
            Dialect::Messages => &[b"text", b"thinking", b"partial_json"],
            // What an event named `….done` repeats has other members.
            Dialect::Responses => &[b"delta"],
            Dialect::Completions | Dialect::Gemini => &[b"text"],
            Dialect::Embeddings | Dialect::Images | Dialect::Audio => &[],
        };
        Self { members, bytes: 0, events: 0 }
    }

    /// Counts the text in the data of an event.
    pub(super) fn take(&mut self, data: &[u8]) {
        let mut strings = Strings(data);
        let (mut text, mut is_text) = (0, false);
        while let Some(string) = strings.next() {
            if strings.is_at_colon() {
                is_text = self.members.contains(&string);
            } else {
                let is_counted = std::mem::take(&mut is_text) && string.len() <= LONGEST_TEXT;
                text += if is_counted { string.len() as u64 } else { 0 };
            }
        }
        self.bytes += text;
        self.events += u64::from(text > 0);
    }

    /// Returns about how many tokens have come: an event with text has at least one.
    pub(super) fn tokens(&self) -> u64 {
        (self.bytes / BYTES_PER_TOKEN).max(self.events)
    }
}

/// The strings of a JSON text, in order, as they are written.
struct Strings<'a>(&'a [u8]);

impl<'a> Strings<'a> {
    /// Whether the string before was the name of a member whose value is a string.
    fn is_at_colon(&self) -> bool {
        let rest = self.0.trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"\""))
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = memchr::memchr(b'"', self.0)? + 1;
        let mut end = start;
        loop {
            end += memchr2(b'"', b'\\', self.0.get(end..)?)?;
            if self.0[end] == b'"' {
                break;
            }
            end += 2;
        }
        let string = &self.0[start..end];
        self.0 = &self.0[end + 1..];
        Some(string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(dialect: Dialect, events: &[&str]) -> u64 {
        let mut written = WrittenText::new(dialect);
        events.iter().for_each(|event| written.take(event.as_bytes()));
        written.tokens()
    }

    #[test]
    fn text_counts_and_its_frame_does_not() {
        let chat = r#"{"id":"chatcmpl-0123456789","choices": [{"delta": {"content" : "eight by"}}],"obfuscation":"aaaaaaaa"}"#;
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"id":"call_012345678","function":{"name":"long_name","arguments":"{\"a\":1}"}}]}}]}"#;
        let delta = r#"{"type":"response.output_text.delta","item_id":"msg_0123456789","delta":"12345678"}"#;
        let done = r#"{"type":"response.output_text.done","item_id":"msg_0123456789","text":"12345678"}"#;
        let thinking =
            r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"12345678"}}"#;
        for (dialect, event, expected) in [
            (Dialect::Chat, chat, 2),
            (Dialect::Chat, call, 2),
            (Dialect::Chat, r#"{"choices":[{"delta":{"content":null,"role":"assistant"}}]}"#, 0),
            (Dialect::Chat, r#"{"choices":[{"delta":{"content":"a"}}]}"#, 1),
            (Dialect::Chat, r#"{"choices":[{"delta":{"content":"say \"content\":\"x\" \\"}}]}"#, 6),
            (Dialect::Chat, r#"{"choices":[{"delta":{"content":"cut"#, 0),
            (Dialect::Chat, "\"\\", 0),
            (Dialect::Responses, delta, 2),
            (Dialect::Responses, done, 0),
            (Dialect::Messages, thinking, 2),
            (
                Dialect::Gemini,
                r#"{"candidates":[{"content":{"parts":[{"text":"12345678"},{"inlineData":{"data":"QUJD"}}]}}]}"#,
                2,
            ),
        ] {
            assert_eq!(tokens(dialect, &[event]), expected, "{event}");
        }
        let picture = format!(r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "A".repeat(200_000));
        assert_eq!(tokens(Dialect::Chat, &[&picture, chat, chat]), 4);
    }
}
