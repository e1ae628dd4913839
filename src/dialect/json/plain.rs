//! Finds the end of a run of bytes in a string that need no closer look.

/// Returns the place, from `at` on, of the first byte that needs a closer look: quote, backslash, control character, or
/// the end.
///
/// Most strings are short, so their first bytes are tested as two words at once, and the next ones a word at a time.
/// Only a longer run is tested in blocks without an early exit, which the compiler turns into vector compares.
#[inline]
pub(super) fn plain_end(bytes: &[u8], at: usize) -> usize {
    if let Some(start) = bytes.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        let start = u128::from_le_bytes(*start);
        let first = specials(start as u64);
        if first != 0 {
            return at + first.trailing_zeros() as usize / 8;
        }
        let second = specials((start >> 64) as u64);
        if second != 0 {
            return at + 8 + second.trailing_zeros() as usize / 8;
        }
        return later_plain_end(bytes, at + 16);
    }
    later_plain_end(bytes, at)
}

#[inline(never)]
fn later_plain_end(bytes: &[u8], mut at: usize) -> usize {
    const WORDS: usize = 4;
    for _ in 0..WORDS {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) else {
            return last_plain_end(bytes, at);
        };
        let specials = specials(u64::from_le_bytes(*word));
        if specials != 0 {
            return at + specials.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    long_plain_end(bytes, at)
}

#[inline(never)]
fn long_plain_end(bytes: &[u8], at: usize) -> usize {
    let (blocks, _) = bytes[at..].as_chunks::<32>();
    let is_plain = |block: &&[u8; 32]| !block.iter().fold(false, |hit, &byte| hit | is_special(byte));
    let at = at + 32 * blocks.iter().take_while(is_plain).count();
    let (words, _) = bytes[at..].as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let specials = specials(u64::from_le_bytes(*word));
        if specials != 0 {
            return at + index * 8 + specials.trailing_zeros() as usize / 8;
        }
    }
    last_plain_end(bytes, at + words.len() * 8)
}

#[inline(never)]
fn last_plain_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

fn is_special(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Returns a word with the high bit of each special byte set. A borrow sets wrong bits only behind a true match, so
/// only the first bit counts.
#[inline]
fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let quote = word ^ (ONES * u64::from(b'"'));
    let backslash = word ^ (ONES * u64::from(b'\\'));
    let hits = (quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    hits & HIGH
}
