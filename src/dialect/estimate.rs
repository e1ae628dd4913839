//! Estimates the tokens of a request by rule of thumb, where no upstream can be asked.
//!
//! | dialect | what is counted |
//! |---|---|
//! | messages | `system`, `messages`, `tools` |
//! | responses | `instructions`, `input`, `tools` |
//! | gemini | `systemInstruction`, `contents`, `tools`, also within a `generateContentRequest` |

use super::gemini::member;
use super::tree::Node;

/// Bytes of text per token: a rule of thumb for the languages and the code that clients send.
const BYTES_PER_TOKEN: u64 = 4;
/// Tokens of an image of the size that the API scales larger ones down to.
const TOKENS_PER_IMAGE: u64 = 1600;
/// Bytes of base64 per token of a document: a page of a PDF, some 75 KB of base64, is read as text and as an image.
const BASE64_PER_DOCUMENT_TOKEN: u64 = 25;

/// The members that hold the conversation, in any dialect.
const SAID: [&str; 6] = ["system", "messages", "instructions", "input", "systemInstruction", "contents"];
/// The members of a turn, an item, a block or a part that hold texts, or blocks with texts.
const TEXTS: [&str; 9] =
    ["text", "thinking", "name", "content", "parts", "arguments", "output", "summary", "refusal"];
/// Members with objects that the model sees as they are written; also the raw input of a custom tool.
const OBJECTS: [&str; 3] = ["input", "args", "response"];

/// Estimates the input tokens of a request's body. Only the conversation counts: texts, calls and results, tools with
/// their schemas, pictures; not the names of JSON members around it.
pub fn estimate_tokens(body: &Node<'_>) -> u64 {
    let body = member::get(body, "generateContentRequest").unwrap_or(body);
    let mut tally = Tally::default();
    for key in SAID {
        member::get(body, key).into_iter().for_each(|node| tally.count(node));
    }
    for tool in body.items_at("tools") {
        tally.bytes += tool.raw().len() as u64;
    }
    tally.bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(tally.tokens).max(1)
}

/// Estimates the input tokens of a body by its bytes alone, where reading it is not worth the cost. A long run without
/// a space is taken for an image.
pub fn estimate_tokens_by_size(body: &[u8]) -> u64 {
    const LONG: usize = 4096;
    let quotes = memchr::memchr_iter(b'"', body).chain([body.len()]);
    let (mut bytes, mut images, mut start) = (0, 0, 0);
    for quote in quotes {
        let run = &body[start..quote];
        if run.len() > LONG && !run[..LONG].contains(&b' ') {
            images += 1
        } else {
            bytes += run.len() as u64
        }
        start = quote;
    }
    bytes / BYTES_PER_TOKEN + images * TOKENS_PER_IMAGE
}

#[derive(Default)]
struct Tally {
    bytes: u64,
    /// Tokens counted for parts that are not text.
    tokens: u64,
}

impl Tally {
    fn count(&mut self, node: &Node<'_>) {
        if node.is_string() {
            self.bytes += decoded_length(node.raw());
        } else if node.is_object() {
            self.count_object(node);
        }
        node.items().iter().for_each(|item| self.count(item));
    }

    /// Counts a turn, an item, a block or a part.
    fn count_object(&mut self, node: &Node<'_>) {
        match node.str_at("type").as_ref() {
            "image" | "input_image" => self.tokens += TOKENS_PER_IMAGE,
            "document" => {
                node.get("title").into_iter().for_each(|title| self.count(title));
                let Some(source) = node.get("source") else { return };
                match source.str_at("type").as_ref() {
                    "base64" => self.count_file(source.get("data")),
                    "text" => source.get("data").into_iter().for_each(|text| self.count(text)),
                    _ => source.get("content").into_iter().for_each(|content| self.count(content)),
                }
            }
            "input_file" => self.count_file(node.get("file_data")),
            _ => self.count_members(node),
        }
    }

    fn count_members(&mut self, node: &Node<'_>) {
        for key in TEXTS {
            node.get(key).into_iter().for_each(|part| self.count(part));
        }
        for key in OBJECTS {
            self.bytes += node.get(key).map_or(0, |object| object.raw().len() as u64);
        }
        // The members of a part of gemini tell its kind.
        for key in ["functionCall", "functionResponse"] {
            member::get(node, key).into_iter().for_each(|call| self.count_members(call));
        }
        if let Some(inline) = member::get(node, "inlineData") {
            match member::get(inline, "mimeType").and_then(Node::str) {
                Some(mime) if mime.starts_with("image/") => self.tokens += TOKENS_PER_IMAGE,
                _ => self.count_file(inline.get("data")),
            }
        }
    }

    /// Counts a file in base64.
    fn count_file(&mut self, data: Option<&Node<'_>>) {
        self.tokens += data.map_or(0, |data| data.raw().len() as u64) / BASE64_PER_DOCUMENT_TOKEN;
    }
}

/// Returns how many bytes a string literal stands for: a `\u` escape counts as two, any other escape as one.
fn decoded_length(literal: &str) -> u64 {
    let (mut count, mut bytes) = (0, literal.bytes().skip(1));
    while let Some(byte) = bytes.next() {
        count += 1;
        if byte == b'\\' && bytes.next() == Some(b'u') {
            bytes.nth(3);
            count += 1;
        }
    }
    // Without the closing quote.
    count - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(body: &str) -> u64 {
        estimate_tokens(&Node::parse(body).unwrap())
    }

    #[test]
    fn tokens_are_presumed_from_the_bytes_alone() {
        let (text, picture) = ("four ".repeat(2000), "A".repeat(75_000));
        assert_eq!(estimate_tokens_by_size(b""), 0);
        assert_eq!(estimate_tokens_by_size(br#"{"content":"0123456789"}"#), 6);
        let body = format!(r#"{{"content":["{text}","{picture}"]}}"#);
        assert_eq!(estimate_tokens_by_size(body.as_bytes()), 10_018 / 4 + TOKENS_PER_IMAGE);
    }

    #[test]
    fn tokens_are_estimated_from_what_is_said() {
        let text = "a".repeat(400);
        let data = "A".repeat(75_000);
        for (body, wanted) in [
            ("{}".to_owned(), 1),
            ("5".to_owned(), 1),
            (format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#), 100),
            (r#"{"messages":[{"role":"user","content":"\n\n\n\n\u00e9\u00e9"}]}"#.to_owned(), 2),
            (format!(r#"{{"system":[{{"type":"text","text":"{text}"}}],"messages":[]}}"#), 100),
            (
                format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","data":"{data}"}}}}]}}]}}"#),
                1600,
            ),
            (
                format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"document","source":{{"type":"base64","data":"{data}"}}}}]}}]}}"#),
                3000,
            ),
            (
                format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"x","content":[{{"type":"text","text":"{text}"}}]}}]}}]}}"#),
                100,
            ),
            (
                r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"abcd","input":{"a":5}}]}]}"#.to_owned(),
                3,
            ),
            (r#"{"tools":[{"name":"0123456789"}]}"#.to_owned(), 6),
        ] {
            assert_eq!(count(&body), wanted, "{}", &body[..body.len().min(120)]);
        }
    }

    #[test]
    fn every_dialect_says_as_much() {
        let text = "a".repeat(400);
        let data = "A".repeat(75_000);
        for (body, wanted) in [
            (format!(r#"{{"input":"{text}","instructions":"{text}"}}"#), 200),
            (format!(r#"{{"input":[{{"role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}]}}"#), 100),
            (format!(r#"{{"input":[{{"role":"user","content":[{{"type":"input_image","image_url":"data:image/png;base64,{data}"}}]}}]}}"#), 1600),
            (format!(r#"{{"input":[{{"role":"user","content":[{{"type":"input_file","file_data":"{data}"}}]}}]}}"#), 3000),
            (r#"{"input":[{"type":"function_call","name":"abcd","arguments":"{}"},{"type":"function_call_output","output":"12"}]}"#.to_owned(), 2),
            (format!(r#"{{"contents":[{{"parts":[{{"text":"{text}"}}]}}],"system_instruction":{{"parts":[{{"text":"{text}"}}]}}}}"#), 200),
            (format!(r#"{{"generateContentRequest":{{"contents":[{{"parts":[{{"text":"{text}"}}]}}]}}}}"#), 100),
            (format!(r#"{{"contents":[{{"parts":[{{"inline_data":{{"mime_type":"image/png","data":"{data}"}}}}]}}]}}"#), 1600),
            (format!(r#"{{"contents":[{{"parts":[{{"inlineData":{{"mimeType":"application/pdf","data":"{data}"}}}}]}}]}}"#), 3000),
            (r#"{"contents":[{"parts":[{"functionCall":{"name":"abcd","args":{"a":5}}},{"functionResponse":{"name":"abcd","response":{"r":1}}}]}]}"#.to_owned(), 6),
        ] {
            assert_eq!(count(&body), wanted, "{}", &body[..body.len().min(120)]);
        }
    }
}
