//! Computes what a provider bills for a prompt: how much of it its prompt cache holds, and how much is new.
//!
//! ```text
//! tools ─ instructions ─ conversation     one text, cut into blocks of 1,024 tokens (chat, responses, gemini), or at the
//! ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░     marks that the client has set (messages)
//! found: billed at a tenth    new
//! ```
//!
//! The rules are those that OpenAI (<https://platform.openai.com/docs/guides/prompt-caching>) and Anthropic
//! (<https://docs.claude.com/en/docs/build-with-claude/prompt-caching>) have published: a prompt is found from its
//! beginning on, for five minutes after its last use; at OpenAI only under the same cache key; at Anthropic at up to four
//! marks, and up to twenty blocks before each. Four bytes count as a token. There is no clock and no randomness: a test
//! says how much time passes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::value::RawValue;

const TOKEN: usize = 4;
/// Prompts shorter than this many tokens are not kept; without marks, only multiples of it are.
const BLOCK: usize = 1_024;
const KEPT_FOR: Duration = Duration::from_secs(300);
/// How many blocks before a mark are searched for a kept prompt.
const LOOKED_BACK: usize = 20;
const MOST_MARKS: usize = 4;

/// The prompts that a provider keeps.
#[derive(Default)]
pub struct PromptCache {
    now: Duration,
    /// Kept beginnings of prompts, by hash, with the time of their last use.
    kept: HashMap<u64, Duration>,
}

/// The tokens of one prompt, and those found in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Billed {
    pub prompt: usize,
    pub found: usize,
}

/// A tool, an instruction or a block of the conversation.
struct Piece {
    text: String,
    is_marked: bool,
}

impl PromptCache {
    pub fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Bills the prompt of a request, and keeps it.
    pub fn bill(&mut self, path: &str, body: &[u8]) -> Billed {
        let body: Members<'_> = serde_json::from_slice(body).expect("a JSON object");
        let pieces = prompt(path, &body);
        let prompt = pieces.iter().map(|piece| piece.text.len()).sum::<usize>() / TOKEN;
        let found = if path.ends_with("/messages") {
            self.at_marks(&pieces)
        } else {
            self.in_blocks(&pieces, body.get("prompt_cache_key").map_or("", |key| key.get()))
        };
        Billed { prompt, found }
    }

    fn in_blocks(&mut self, pieces: &[Piece], key: &str) -> usize {
        let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        let mut begun = hash(0, key.as_bytes());
        let (mut found, mut is_known) = (0, true);
        for block in text.as_bytes().chunks_exact(BLOCK * TOKEN) {
            begun = hash(begun, block);
            is_known = is_known && self.knows(begun);
            found += if is_known { BLOCK } else { 0 };
            self.kept.insert(begun, self.now);
        }
        found
    }

    fn at_marks(&mut self, pieces: &[Piece]) -> usize {
        let mut begun = (0, 0);
        let begun: Vec<(u64, usize)> = pieces
            .iter()
            .map(|piece| {
                begun = (hash(begun.0, piece.text.as_bytes()), begun.1 + piece.text.len());
                (begun.0, begun.1 / TOKEN)
            })
            .collect();
        let marks: Vec<usize> = (0..pieces.len()).filter(|at| pieces[*at].is_marked).collect();
        assert!(
            marks.len() <= MOST_MARKS,
            "A maximum of {MOST_MARKS} blocks with cache_control may be provided"
        );
        let known = |mark: usize| {
            let looked_at = begun[..=mark].iter().rev().take(LOOKED_BACK + 1);
            looked_at.filter(|(hash, _)| self.knows(*hash)).map(|(_, tokens)| *tokens).max()
        };
        let found = marks.iter().filter_map(|mark| known(*mark)).max().unwrap_or(0);
        for (hash, tokens) in marks.iter().map(|mark| begun[*mark]) {
            if tokens >= BLOCK {
                self.kept.insert(hash, self.now);
            }
        }
        found
    }

    fn knows(&self, begun: u64) -> bool {
        self.kept.get(&begun).is_some_and(|used| self.now <= *used + KEPT_FOR)
    }
}

fn hash(before: u64, bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (before, bytes).hash(&mut hasher);
    hasher.finish()
}

// === the prompt of a body ===

/// The members of an object, each as it was written: the upstream sees the order within each.
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// Members that are not part of the prompt: ids and marks.
const NO_WORDS: [&str; 4] = ["cache_control", "id", "status", "encrypted_content"];

fn prompt(path: &str, body: &Members<'_>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for tool in list(body, "tools") {
        pieces.push(piece("", tool));
    }
    for format in ["text", "response_format"].into_iter().filter_map(|name| body.get(name)) {
        pieces.push(piece("", format));
    }
    if let Some(system) = body.get("instructions").or(body.get("system")) {
        of_content("", system, &mut pieces);
    }
    if let Some(system) = body.get("systemInstruction") {
        of_turn(system, &mut pieces);
    }
    // These settings change the prompt of the conversation, but not the tools and instructions before it.
    for setting in ["thinking", "tool_choice"].into_iter().filter_map(|name| body.get(name)) {
        if path.ends_with("/messages") {
            pieces.push(piece("", setting));
        }
    }
    for turn in ["messages", "input", "contents"].into_iter().flat_map(|name| list(body, name)) {
        of_turn(turn, &mut pieces);
    }
    pieces
}

fn of_turn(turn: &RawValue, pieces: &mut Vec<Piece>) {
    let mut members: Members<'_> = serde_json::from_str(turn.get()).expect("a turn");
    let content = members.remove("content").or(members.remove("parts"));
    let is_marked = members.contains_key("cache_control");
    members.retain(|name, _| !NO_WORDS.contains(&name.as_str()));
    let head: String = members.iter().map(|(name, value)| format!("\n{name}: {value}")).collect();
    let before = pieces.len();
    if let Some(content) = content {
        of_content(&head, content, pieces);
    }
    if pieces.len() == before {
        pieces.push(Piece { text: head, is_marked: false });
    }
    if let Some(last) = pieces.last_mut() {
        last.is_marked |= is_marked;
    }
}

/// Adds a text, or the blocks of a list; `head` is put before the first.
fn of_content(head: &str, content: &RawValue, pieces: &mut Vec<Piece>) {
    match serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        Ok(blocks) => {
            let heads = std::iter::once(head).chain(std::iter::repeat(""));
            pieces.extend(heads.zip(blocks).map(|(head, block)| piece(head, block)));
        }
        Err(_) => pieces.push(piece(head, content)),
    }
}

fn piece(head: &str, block: &RawValue) -> Piece {
    let text =
        |value: &RawValue| serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.to_string());
    let Ok(mut members) = serde_json::from_str::<Members<'_>>(block.get()) else {
        return Piece { text: head.to_owned() + &text(block), is_marked: false };
    };
    let is_marked = members.contains_key("cache_control");
    members.retain(|name, _| !NO_WORDS.contains(&name.as_str()));
    let is_text = members.keys().all(|name| ["text", "type", "annotations"].contains(&name.as_str()));
    let words = match members.get("text").filter(|_| is_text) {
        Some(words) => text(words),
        None => members.iter().map(|(name, value)| format!("{name}: {value} ")).collect(),
    };
    Piece { text: head.to_owned() + &words, is_marked }
}

fn list<'a>(body: &Members<'a>, name: &str) -> Vec<&'a RawValue> {
    body.get(name).and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
}
