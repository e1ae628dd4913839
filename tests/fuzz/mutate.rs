//! Creates the input of a run: a seed, changed as bytes or, if it holds JSON, as a value.

use serde_json::{Map, Value, json};

/// A generator of pseudo-random numbers, repeatable from its seed: xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Makes neighbouring seeds begin far apart.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { usize::try_from(self.draw()).unwrap_or(0) % end }
    }

    pub fn one_of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}

/// Byte strings that may break a parser of any text.
const BYTES: [&[u8]; 34] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"\\",
    b"null",
    b"true",
    b"-0",
    b"1e400",
    b"-1",
    b"18446744073709551616",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\u0000",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x98\x80",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\n\n",
    b"data: ",
    b"data",
    b"event: error\n",
    b": c\n\n",
    b"data: [DONE]\n\n",
    b"{\"a\":",
    b"[[[[[[[[",
    b"</think>",
    b"<think>",
];

/// Returns one of the seeds, changed a few times.
pub fn mutated(seeds: &[&str], words: &[&str], random: &mut Random) -> Vec<u8> {
    let mut bytes = random.one_of(seeds).as_bytes().to_vec();
    for _ in 0..random.below(6) {
        if random.below(3) > 0 && change_json(&mut bytes, words, random) {
            continue;
        }
        change_bytes(&mut bytes, seeds, words, random);
    }
    bytes
}

fn change_bytes(bytes: &mut Vec<u8>, seeds: &[&str], words: &[&str], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(24)).min(bytes.len());
    match random.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        3 | 4 => drop(bytes.splice(at..at, random.one_of(&BYTES).iter().copied())),
        5 if !words.is_empty() => drop(bytes.splice(at..end, random.one_of(words).bytes())),
        6 => {
            let other = random.one_of(seeds).as_bytes();
            let from = random.below(other.len() + 1);
            let to = (from + random.below(400)).min(other.len());
            bytes.splice(at..at, other[from..to].iter().copied());
        }
        7 => bytes.truncate(at),
        _ => bytes.insert(at, random.draw() as u8),
    }
}

/// Changes a value of the JSON in the bytes, or in the `data` of one of their lines.
fn change_json(bytes: &mut Vec<u8>, words: &[&str], random: &mut Random) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut places: Vec<(usize, usize)> = Vec::new();
    if text.trim_start().starts_with('{') {
        places.push((0, text.len()));
    } else {
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if let Some(data) = line.strip_prefix("data: ").filter(|data| data.starts_with('{')) {
                places.push((start + line.len() - data.len(), start + line.trim_end().len()));
            }
            start += line.len();
        }
    }
    if places.is_empty() {
        return false;
    }
    let (from, to) = *random.one_of(&places);
    let Ok(mut value) = serde_json::from_str::<Value>(&text[from..to]) else { return false };
    let whole = value.clone();
    change_value(&mut value, &whole, words, random);
    let changed = value.to_string();
    bytes.splice(from..to, changed.bytes());
    true
}

fn change_value(value: &mut Value, whole: &Value, words: &[&str], random: &mut Random) {
    // Mostly goes further down.
    let goes_down = random.below(5) > 0;
    match value {
        Value::Object(members) if goes_down && !members.is_empty() => {
            let at = random.below(members.len());
            if random.below(6) == 0 {
                change_member(members, at, words, random);
            } else if let Some((_, inner)) = members.iter_mut().nth(at) {
                change_value(inner, whole, words, random);
            }
        }
        Value::Array(items) if goes_down && !items.is_empty() => {
            let at = random.below(items.len());
            match random.below(8) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, items[at].clone()),
                2 => items.reverse(),
                _ => change_value(&mut items[at], whole, words, random),
            }
        }
        _ => *value = any_value(whole, words, random),
    }
}

fn change_member(members: &mut Map<String, Value>, at: usize, words: &[&str], random: &mut Random) {
    let Some(key) = members.keys().nth(at).cloned() else { return };
    let value = members.remove(&key).unwrap_or_default();
    if random.below(2) == 0 && !words.is_empty() {
        members.insert((*random.one_of(words)).to_owned(), value);
    }
}

fn any_value(whole: &Value, words: &[&str], random: &mut Random) -> Value {
    match random.below(14) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(random.draw()),
        3 => json!(-(random.below(1000) as i64)),
        4 => json!(random.below(100) as f64 / 7.0),
        5 => json!(""),
        6 => json!([]),
        7 => json!({}),
        8 => json!([null, "", 1, {}, []]),
        9 => json!({"type": words.first().copied().unwrap_or("text"), "text": "\u{feff}é😀\u{0}\r\n"}),
        10 => json!(" \u{2028}\"\\/ ".repeat(1 + random.below(40))),
        11 => whole.clone(),
        12 => (0..random.below(60)).fold(Value::Null, |inner, _| json!([inner])),
        _ => json!(if words.is_empty() { "x" } else { *random.one_of(words) }),
    }
}
