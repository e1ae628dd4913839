//! Content codings: of clients that compress what they send, and of upstreams that compress although they are asked for
//! `identity`.
//!
//! A decoder is a chain of layers, in the order in which they come off: what one gives is the next one's input. Each
//! pull gives a bounded piece ([`PIECE`]), and a layer works only while the one after it has room, so that a small input
//! that unfolds into gigabytes fills no memory. Nor does it keep a thread: a layer may take in much and give nothing
//! (empty members, frames to skip), so a pull ends after a bounded amount of work ([`TURN`]) as well. What stands behind
//! the end of a coding is not decoded: a client's is refused, an upstream's is dropped with the layers that brought it.
//!
//! Labels that are not true are common: a relay decodes the answer of its own upstream and keeps the header. Data
//! without the magic of the coding it is labelled with (zstd, gzip) is therefore taken as it is, and `deflate` is read
//! with or without its zlib wrapper.
//!
//! zstd is the exception to streaming: its decoder gives nothing from the last window before the frame's end.

mod inflate;
#[cfg(test)]
mod tests;
mod zstd;

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::{Buf, Bytes, BytesMut};

use self::inflate::Inflate;
use self::zstd::{MAX_WINDOW, Zstd};

/// The most that one pull gives, and that waits between two layers.
const PIECE: usize = 32 * 1024;

/// Bytes that are moved in one go, in all layers together; then other tasks have their turn.
const TURN: usize = 64 * 1024;

/// What a coding gives is longer than what it takes, but for its frame and what cannot be compressed. It may take so much
/// more than twice what it gives: otherwise members, frames and blocks of nothing would be decoded without end.
const HOLLOW: usize = 1024 * 1024;

/// Why a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodingError {
    /// Not one of [`KNOWN`], or too many of them.
    Unknown(String),
    /// The body ended before its coding did.
    CutShort(&'static str),
    Malformed(&'static str),
    /// It holds far less than it is long.
    Hollow(&'static str),
    /// The window in bytes: more than who reads zstd from a network need take (RFC 8878 §3.1.1.1.2).
    Window(u64),
}

impl fmt::Display for CodingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(codings) => write!(out, "Content-Encoding {codings:.40?} is not known"),
            Self::CutShort(coding) => write!(out, "its {coding} ends too early"),
            Self::Malformed(coding) => write!(out, "it is not valid {coding}"),
            Self::Hollow(coding) => write!(out, "its {coding} is long and holds next to nothing"),
            Self::Window(bytes) => write!(out, "its zstd wants a window of {bytes} bytes"),
        }
    }
}

impl std::error::Error for CodingError {}

/// The codings that are read, as `Accept-Encoding` lists them.
pub const KNOWN: &str = "gzip, deflate, br, zstd";

/// Who has sent a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Upstream,
}

impl Sender {
    /// More codings than this on one body are no accident.
    fn max_layers(self) -> usize {
        match self {
            Self::Client => 2,
            Self::Upstream => 4,
        }
    }
}

/// What a pull gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    Data(Bytes),
    /// Nothing, until there is more input; or nothing more at all.
    Empty,
    /// Nothing yet, and much work was done: to be pulled again when others have had their turn.
    Later,
}

pub(crate) struct Decoder {
    /// The first takes what comes in.
    layers: Vec<Layer>,
    sender: Sender,
    /// The encoded body has ended.
    ended: bool,
    /// The bytes moved since others had their turn.
    moved: usize,
}

impl Decoder {
    /// A decoder for the codings that these header values list; `None` if they change nothing.
    pub(crate) fn new<'a>(
        sender: Sender,
        headers: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<Self>, CodingError> {
        let mut layers = Vec::new();
        for header in headers {
            let unknown = |coding: &[u8]| CodingError::Unknown(String::from_utf8_lossy(coding).into_owned());
            let codings = std::str::from_utf8(header).map_err(|_| unknown(header))?;
            for coding in codings.split(',').map(str::trim) {
                let coding = match coding.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Coding::Gzip,
                    "deflate" => Coding::Deflate,
                    "br" => Coding::Brotli,
                    "zstd" => Coding::Zstd,
                    _ => return Err(unknown(coding.as_bytes())),
                };
                layers.push(Layer::new(coding));
            }
            if layers.len() > sender.max_layers() {
                return Err(unknown(header));
            }
        }
        layers.reverse(); // listed in the order in which they were applied
        Ok(if layers.is_empty() { None } else { Some(Self { layers, sender, ended: false, moved: 0 }) })
    }

    /// Takes the next encoded bytes. To be called when [`pull`](Self::pull) has nothing left.
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.layers[0].input.extend_from_slice(data);
    }

    /// Says that there are no more encoded bytes.
    pub(crate) fn push_end(&mut self) {
        self.ended = true;
    }

    /// Whether everything has been given out. Meaningful when a pull gave nothing.
    pub(crate) fn is_finished(&self) -> bool {
        self.ended
    }

    /// The most that any layer has given so far.
    pub(crate) fn unfolded(&self) -> usize {
        self.layers.iter().map(|layer| layer.given).max().unwrap_or(0)
    }

    /// The next decoded bytes.
    pub(crate) fn pull(&mut self) -> Result<Pulled, CodingError> {
        let mut output = BytesMut::new();
        while output.len() < PIECE && self.moved < TURN {
            let moved = self.pass(&mut output)?;
            self.moved += moved;
            if moved == 0 {
                return Ok(if output.is_empty() { Pulled::Empty } else { Pulled::Data(output.freeze()) });
            }
        }
        if !output.is_empty() {
            return Ok(Pulled::Data(output.freeze()));
        }
        self.moved = 0;
        Ok(Pulled::Later)
    }

    /// Lets every layer work once, and says how many bytes they have moved.
    fn pass(&mut self, output: &mut BytesMut) -> Result<usize, CodingError> {
        let mut moved = 0;
        let mut ended = self.ended;
        let mut first = 0; // that need be kept
        for index in 0..self.layers.len() {
            let (layers, rest) = self.layers.split_at_mut(index + 1);
            let layer = &mut layers[index];
            let sink = rest.first_mut().map_or(&mut *output, |next| &mut next.input);
            if sink.len() < PIECE {
                let before = (layer.input.len(), sink.len());
                layer.step(sink, ended)?;
                let given = sink.len() - before.1;
                let taken = before.0 - layer.input.len();
                layer.given += given;
                layer.taken += taken;
                moved += taken + given;
                if layer.taken > layer.coding.hollow() + 2 * layer.given {
                    return Err(CodingError::Hollow(layer.coding.name()));
                }
            }
            if layer.is_done() {
                if self.sender == Sender::Client && !layer.input.is_empty() {
                    return Err(CodingError::Malformed(layer.coding.name()));
                }
                layer.input.clear(); // padding, or not ours to judge
                first = index;
            }
            // With room left in the sink, a layer has given all that it can.
            ended = ended && layer.input.is_empty() && sink.len() < PIECE;
        }
        if self.sender == Sender::Upstream {
            self.layers.drain(..first); // whatever they still give would be dropped
        }
        Ok(moved)
    }
}

#[derive(Clone, Copy)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The most that it takes beyond twice what it gives.
    fn hollow(self) -> usize {
        match self {
            // It gives nothing of a window that is not full.
            Self::Zstd => HOLLOW + MAX_WINDOW,
            Self::Gzip | Self::Deflate | Self::Brotli => HOLLOW,
        }
    }

    /// What data that starts like this really is; `None` while too little of it is known.
    fn recognise(self, data: &[u8], ended: bool) -> Option<DecodeState> {
        let needed = match self {
            Self::Gzip | Self::Deflate => 2,
            Self::Zstd => 4,
            Self::Brotli => 1,
        };
        match (data, self) {
            _ if data.len() < needed && !ended => None,
            ([], _) => Some(DecodeState::Plain),
            ([0x1f, 0x8b, ..], Self::Gzip) => Some(DecodeState::Inflate(Box::new(Inflate::gzip()))),
            (_, Self::Gzip) => Some(DecodeState::Plain),
            (&[first, second, ..], Self::Deflate)
                if first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31) =>
            {
                Some(DecodeState::Inflate(Box::new(Inflate::zlib())))
            }
            (_, Self::Deflate) => Some(DecodeState::Inflate(Box::new(Inflate::raw()))),
            (_, Self::Brotli) => Some(DecodeState::Brotli(Box::new(Brotli::new()))),
            (_, Self::Zstd) if Zstd::starts(data) => Some(DecodeState::Zstd(Box::new(Zstd::new()))),
            (_, Self::Zstd) => Some(DecodeState::Plain),
        }
    }
}

struct Layer {
    /// The label of the body.
    coding: Coding,
    state: DecodeState,
    input: BytesMut,
    /// How many bytes it has taken of its input, and given.
    taken: usize,
    given: usize,
}

enum DecodeState {
    /// Nothing seen yet.
    Unknown,
    Plain,
    Inflate(Box<Inflate>),
    Brotli(Box<Brotli>),
    Zstd(Box<Zstd>),
}

impl Layer {
    fn new(coding: Coding) -> Self {
        Self { coding, state: DecodeState::Unknown, input: BytesMut::new(), taken: 0, given: 0 }
    }

    /// Whether what it decodes has ended, so that nothing may follow.
    fn is_done(&self) -> bool {
        match &self.state {
            DecodeState::Inflate(inflate) => inflate.is_done(),
            DecodeState::Brotli(brotli) => brotli.done,
            DecodeState::Unknown | DecodeState::Plain | DecodeState::Zstd(_) => false,
        }
    }

    /// Decodes until `sink` holds a piece, or until the input is used up as far as it can be.
    fn step(&mut self, sink: &mut BytesMut, ended: bool) -> Result<(), CodingError> {
        if let DecodeState::Unknown = self.state {
            match self.coding.recognise(&self.input, ended) {
                Some(state) => self.state = state,
                None => return Ok(()),
            }
        }
        match &mut self.state {
            DecodeState::Unknown => Ok(()),
            DecodeState::Plain => {
                sink.extend_from_slice(&self.input.split());
                Ok(())
            }
            DecodeState::Inflate(inflate) => inflate.step(&mut self.input, sink, ended),
            DecodeState::Brotli(brotli) => brotli.step(&mut self.input, sink, ended),
            DecodeState::Zstd(zstd) => zstd.step(&mut self.input, sink, ended),
        }
    }
}

struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    done: bool,
}

impl Brotli {
    fn new() -> Self {
        let alloc = StandardAlloc::default;
        // Strict: no window beyond the 16 MiB of RFC 7932.
        Self { state: BrotliState::new_strict(alloc(), alloc(), alloc()), done: false }
    }

    fn step(&mut self, input: &mut BytesMut, sink: &mut BytesMut, ended: bool) -> Result<(), CodingError> {
        while !self.done && sink.len() < PIECE {
            let (mut available, mut used, mut total) = (input.len(), 0, 0);
            let result = into_room(sink, |room| {
                let (mut free, mut given) = (room.len(), 0);
                let state = &mut self.state;
                let result = BrotliDecompressStream(
                    &mut available,
                    &mut used,
                    input,
                    &mut free,
                    &mut given,
                    room,
                    &mut total,
                    state,
                );
                (given, result)
            });
            input.advance(used);
            match result {
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::NeedsMoreInput if ended => return Err(CodingError::CutShort("br")),
                BrotliResult::NeedsMoreInput => return Ok(()),
                BrotliResult::ResultSuccess => self.done = true,
                BrotliResult::ResultFailure => return Err(CodingError::Malformed("br")),
            }
        }
        Ok(())
    }
}

/// Lets `write` fill some room at the end of `sink`; it says how much it has used.
fn into_room<T>(sink: &mut BytesMut, write: impl FnOnce(&mut [u8]) -> (usize, T)) -> T {
    let start = sink.len();
    sink.resize(start + PIECE / 2, 0);
    let (given, result) = write(&mut sink[start..]);
    sink.truncate(start + given);
    result
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({} layers)", self.layers.len())
    }
}
