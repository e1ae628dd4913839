//! Counts the tokens of a request by rule of thumb, where nobody can be asked.

use crate::dialect::tree::Node;

/// A rule of thumb for text in the languages and the code that clients send.
const BYTES_PER_TOKEN: u64 = 4;
/// An image of the size that the API scales larger ones down to.
const TOKENS_PER_IMAGE: u64 = 1600;
/// A page of a PDF, some 75 KB of base64, is read as text and as an image.
const BASE64_PER_DOCUMENT_TOKEN: u64 = 25;

/// About how many input tokens the body of a messages request has. Only what is said counts: texts,
/// calls and results, tools with their schemas, pictures; not the names of JSON members around it.
pub fn estimate_tokens(body: &Node<'_>) -> u64 {
    let mut tally = Tally::default();
    for key in ["system", "messages"] {
        body.get(key).into_iter().for_each(|node| tally.count(node));
    }
    for tool in body.items_at("tools") {
        tally.bytes += tool.raw().len() as u64;
    }
    tally.bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(tally.tokens).max(1)
}

#[derive(Default)]
struct Tally {
    bytes: u64,
    /// Counted for parts that are no text.
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

    /// A message or a block.
    fn count_object(&mut self, node: &Node<'_>) {
        match node.str_at("type").as_ref() {
            "image" => self.tokens += TOKENS_PER_IMAGE,
            "document" => {
                node.get("title").into_iter().for_each(|title| self.count(title));
                let Some(source) = node.get("source") else { return };
                match source.str_at("type").as_ref() {
                    "base64" => {
                        let length = source.get("data").map_or(0, |data| data.raw().len() as u64);
                        self.tokens += length / BASE64_PER_DOCUMENT_TOKEN;
                    }
                    "text" => source.get("data").into_iter().for_each(|text| self.count(text)),
                    _ => source.get("content").into_iter().for_each(|content| self.count(content)),
                }
            }
            _ => {
                for key in ["text", "thinking", "name", "content"] {
                    node.get(key).into_iter().for_each(|part| self.count(part));
                }
                self.bytes += node.get("input").map_or(0, |input| input.raw().len() as u64);
            }
        }
    }
}

/// How many bytes a string literal stands for: an escape is one letter, or up to three bytes of one.
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
