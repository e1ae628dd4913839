//! zstd (RFC 8878): this module cuts frames into whole blocks, and the engine decodes one block at a time.

use std::io::Read;

use bytes::{Buf, BytesMut};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{CodingError, PIECE, into_room};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The window that a receiver of the content coding must accept, and a sender must keep to, in bytes (RFC 9659, 3).
pub(super) const MAX_WINDOW: usize = 8 * 1024 * 1024;
/// The most frames of a body. Starting the engine for a frame takes far longer than reading an empty one; an encoder
/// that makes many frames makes them of megabytes.
const MAX_FRAMES: usize = 10_000;
const MAX_BLOCK: usize = 128 * 1024;
/// The kinds of blocks that do not have their length as it is (RFC 8878 §3.1.1.2.2).
const REPETITION: u32 = 1;
const COMPRESSED: u32 = 2;
const MALFORMED: CodingError = CodingError::Malformed("zstd");

pub(super) struct Zstd {
    engine: FrameDecoder,
    in_frame: bool,
    /// The number of frames that were begun.
    frames: usize,
    has_checksum: bool,
    /// The remaining bytes of a skippable frame.
    skip: usize,
    /// The window of the frame.
    window: usize,
    /// The most bytes that the frame's blocks may have unfolded into.
    unfolded: usize,
    /// The most bytes that the engine may have held: it keeps its buffer from frame to frame.
    held: usize,
}

impl Zstd {
    /// Whether `data` starts a frame, even one to skip.
    pub(super) fn starts(data: &[u8]) -> bool {
        data.starts_with(&MAGIC) || is_skippable(data)
    }

    pub(super) fn new() -> Self {
        let engine = FrameDecoder::new();
        let (window, unfolded, held) = (0, 0, 0);
        Self { engine, in_frame: false, frames: 0, has_checksum: false, skip: 0, window, unfolded, held }
    }

    /// Returns how many bytes the engine holds at most.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn step(
        &mut self,
        input: &mut BytesMut,
        sink: &mut BytesMut,
        ended: bool,
    ) -> Result<(), CodingError> {
        while sink.len() < PIECE {
            // Making room for nothing, block after block, would cost more than the blocks.
            if self.engine.can_collect() > 0 {
                let given = into_room(sink, |room| match self.engine.read(room) {
                    Ok(given) => (given, Ok(given)),
                    Err(_) => (0, Err(MALFORMED)),
                })?;
                if given > 0 {
                    continue;
                }
            }
            let skipped = self.skip.min(input.len());
            input.advance(skipped);
            self.skip -= skipped;
            let at_rest = !self.in_frame && self.skip == 0;
            if input.is_empty() && at_rest {
                return Ok(());
            }
            let moved = if self.in_frame { self.block(input)? } else { self.frame(input)? };
            if !moved {
                return if ended { Err(CodingError::CutShort("zstd")) } else { Ok(()) };
            }
            if self.in_frame && !input.is_empty() && self.engine.can_collect() == 0 {
                // What is held back is counted before it becomes more.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the head of a frame, once it is whole; returns whether it was.
    fn frame(&mut self, input: &mut BytesMut) -> Result<bool, CodingError> {
        if is_skippable(input) {
            let Some(&[a, b, c, d]) = input.get(4..8) else { return Ok(false) };
            self.skip = u32::from_le_bytes([a, b, c, d]) as usize;
            input.advance(8);
            return Ok(true);
        }
        let Some(head) = Head::read(input)? else { return Ok(false) };
        if head.window > MAX_WINDOW as u64 {
            return Err(CodingError::Window(head.window));
        }
        self.frames += 1;
        if self.frames > MAX_FRAMES {
            return Err(MALFORMED);
        }
        self.engine.reset(&input[..head.length]).map_err(|_| MALFORMED)?;
        input.advance(head.length);
        self.in_frame = true;
        (self.window, self.unfolded) = (head.window as usize, 0);
        self.has_checksum = head.has_checksum;
        Ok(true)
    }

    /// Decodes a block, once it is whole; returns whether it was.
    fn block(&mut self, input: &mut BytesMut) -> Result<bool, CodingError> {
        let Some(&[a, b, c]) = input.get(..3) else { return Ok(false) };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let is_last = header & 1 == 1;
        let kind = (header >> 1) & 3;
        let named = (header >> 3) as usize;
        let size = if kind == REPETITION { 1 } else { named };
        if size > MAX_BLOCK {
            return Err(MALFORMED);
        }
        let length = 3 + size + if is_last && self.has_checksum { 4 } else { 0 };
        let Some(block) = input.get(..length) else { return Ok(false) };
        self.engine.decode_blocks(block, BlockDecodingStrategy::UptoBlocks(1)).map_err(|_| MALFORMED)?;
        input.advance(length);
        self.unfolded += if kind == COMPRESSED { MAX_BLOCK.min(self.window) } else { named.min(MAX_BLOCK) };
        let most = self.unfolded.min(self.window + MAX_BLOCK);
        // All of a frame that has ended can be collected; one with a checksum ends only with that.
        let held = if is_last && !self.has_checksum { self.engine.can_collect().min(most) } else { most };
        self.held = self.held.max(held);
        self.in_frame = !is_last;
        Ok(true)
    }
}

fn is_skippable(data: &[u8]) -> bool {
    matches!(data, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

struct Head {
    length: usize,
    window: u64,
    has_checksum: bool,
}

impl Head {
    /// Reads the head of a frame; `None` while it is not whole.
    fn read(data: &[u8]) -> Result<Option<Self>, CodingError> {
        let Some(&descriptor) = data.get(4) else {
            return if data.len() < 4 || data == MAGIC { Ok(None) } else { Err(MALFORMED) };
        };
        if !data.starts_with(&MAGIC) {
            return Err(MALFORMED);
        }
        let is_single_segment = descriptor & 0x20 != 0;
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let size = match descriptor >> 6 {
            0 => usize::from(is_single_segment),
            1 => 2,
            2 => 4,
            _ => 8,
        };
        let window = usize::from(!is_single_segment);
        let length = 5 + window + dictionary + size;
        if data.len() < length {
            return Ok(None);
        }
        let window = if is_single_segment {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&data[length - size..length]);
            u64::from_le_bytes(bytes) + if size == 2 { 256 } else { 0 }
        } else {
            let (exponent, mantissa) = (data[5] >> 3, u64::from(data[5] & 7));
            let base = 1_u64 << (10 + exponent);
            base + base / 8 * mantissa
        };
        Ok(Some(Self { length, window, has_checksum: descriptor & 4 != 0 }))
    }
}
