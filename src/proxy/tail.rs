//! The end of an answer that is too long to be held, which contains its usage.

use bytes::{Buf, BytesMut};

/// The minimum number of bytes that are kept.
pub(super) const KEPT: usize = 16 * 1024;

/// The last [`KEPT`] bytes of an answer that passes, or up to twice as many.
#[derive(Default)]
pub(super) struct Tail(BytesMut);

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let end = &bytes[bytes.len().saturating_sub(KEPT)..];
        if self.0.len() + end.len() > 2 * KEPT {
            self.0.advance(self.0.len().saturating_sub(KEPT));
        }
        self.0.extend_from_slice(end);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_however_it_comes() {
        let whole: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        for piece in [1, 100, KEPT, KEPT + 1, 3 * KEPT] {
            let mut tail = Tail::default();
            whole.chunks(piece).for_each(|bytes| tail.push(bytes));
            assert!((KEPT..=2 * KEPT).contains(&tail.bytes().len()), "{piece}");
            assert!(whole.ends_with(tail.bytes()), "{piece}");
        }
    }
}
