//! Content codings: for clients that compress their requests, and for upstreams that compress although they are asked
//! for `identity`.
//!
//! A decoder is a chain of layers, in the order in which the codings are removed: the output of one is the input of the
//! next. Each pull returns a bounded piece ([`PIECE`]), and a layer works only while the next one has room, so that a
//! small input that unfolds into gigabytes does not fill the memory. Nor does it block a thread: a layer may take much
//! input and give no output (empty members, frames to skip), so a pull also ends after a bounded amount of work
//! ([`TURN`]). Data behind the end of a coding is not decoded: from a client it is refused, from an upstream it is
//! dropped with the layers that brought it.
//!
//! Wrong labels are common: a relay decodes the response of its own upstream and keeps the header. Data without the
//! magic of the coding in its label (zstd, gzip) is therefore passed as it is, and `deflate` is read with or without
//! its zlib wrapper.
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

/// Maximum output of one pull, and of one layer that waits for the next, in bytes.
const PIECE: usize = 32 * 1024;

/// The number of bytes that all layers together move before other tasks have their turn.
const TURN: usize = 64 * 1024;

/// The number of input bytes, beyond twice its output, that a layer may take. A coding normally gives more than it
/// takes, except for its frame and incompressible data; without this limit, empty members, frames and blocks would be
/// decoded without end.
const HOLLOW: usize = 1024 * 1024;

/// The largest windows of gzip and deflate (RFC 1951), and of brotli (RFC 7932), in bytes.
const INFLATE_WINDOW: usize = 32 * 1024;
const BROTLI_WINDOW: usize = 16 * 1024 * 1024;

/// The reason why a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodingError {
    /// A coding that is not one of [`KNOWN`], or too many codings.
    Unknown(String),
    /// The body ended before its coding did.
    CutShort(&'static str),
    Malformed(&'static str),
    /// The output is far smaller than the input.
    Hollow(&'static str),
    /// A zstd window of this many bytes, which is more than a decoder need accept from a network (RFC 8878 §3.1.1.1.2).
    Window(u64),
}

impl fmt::Display for CodingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(codings) => write!(out, "Content-Encoding {codings:.40?} is not known"),
            Self::CutShort(coding) => write!(out, "its {coding} ends too early"),
            Self::Malformed(coding) => write!(out, "it is not valid {coding}"),
            Self::Hollow(coding) => {
                write!(out, "its {coding} is mostly padding: long input, next to no output")
            }
            Self::Window(bytes) => write!(out, "its zstd window of {bytes} bytes is too large"),
        }
    }
}

impl std::error::Error for CodingError {}

/// The supported codings, as `Accept-Encoding` lists them.
pub const KNOWN: &str = "gzip, deflate, br, zstd";

/// Who has encoded a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Upstream,
}

impl Side {
    /// Returns the maximum number of codings on one body; more are no accident.
    fn max_layers(self) -> usize {
        match self {
            Self::Client => 2,
            Self::Upstream => 4,
        }
    }
}

/// The result of a pull.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    Data(Bytes),
    /// No output until there is more input, or none at all if the input has ended.
    Empty,
    /// No output yet after much work: pull again when other tasks have had their turn.
    Later,
}

pub(crate) struct Decoder {
    /// The layers; the first one takes the encoded input.
    layers: Vec<Layer>,
    side: Side,
    /// Whether the encoded body has ended.
    ended: bool,
    /// The number of bytes moved since other tasks had their turn.
    moved: usize,
}

impl Decoder {
    /// Creates a decoder for the codings that these header values list; `None` if they change nothing.
    pub(crate) fn new<'a>(
        side: Side,
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
            if layers.len() > side.max_layers() {
                return Err(unknown(header));
            }
        }
        layers.reverse(); // listed in the order in which they were applied
        Ok(if layers.is_empty() { None } else { Some(Self { layers, side, ended: false, moved: 0 }) })
    }

    /// Takes the next encoded bytes. Call it when [`pull`](Self::pull) has nothing left.
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.layers[0].input.extend_from_slice(data);
    }

    /// Marks the end of the encoded bytes.
    pub(crate) fn push_end(&mut self) {
        self.ended = true;
    }

    /// Whether all output has been returned. Meaningful only after a pull returned nothing.
    pub(crate) fn is_finished(&self) -> bool {
        self.ended
    }

    /// Returns the largest number of bytes that any layer has given so far.
    pub(crate) fn unfolded(&self) -> usize {
        self.layers.iter().map(|layer| layer.given).max().unwrap_or(0)
    }

    /// Returns about how many bytes are held: input that waits, and the output that may still be referred to.
    pub(crate) fn held(&self) -> usize {
        self.layers.iter().map(|layer| layer.input.len() + layer.window()).sum()
    }

    /// Returns how many bytes of output are held back, at most.
    fn withheld(&self) -> usize {
        let of_layer =
            |layer: &Layer| if let DecodeState::Zstd(zstd) = &layer.state { zstd.held() } else { 0 };
        self.layers.iter().map(of_layer).sum()
    }

    /// Returns the next decoded bytes.
    pub(crate) fn pull(&mut self) -> Result<Pulled, CodingError> {
        let mut output = BytesMut::new();
        while output.len() < PIECE && self.moved < TURN {
            let withheld = self.withheld();
            let moved = self.pass(&mut output)?;
            self.moved += moved + self.withheld().saturating_sub(withheld);
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

    /// Lets every layer work once; returns the number of bytes moved.
    fn pass(&mut self, output: &mut BytesMut) -> Result<usize, CodingError> {
        let mut moved = 0;
        let mut ended = self.ended;
        let mut first = 0; // the first layer that must be kept
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
                if self.side == Side::Client && !layer.input.is_empty() {
                    return Err(CodingError::Malformed(layer.coding.name()));
                }
                layer.input.clear(); // padding, or not ours to judge
                first = index;
            }
            // A layer that leaves room in its sink has given all that it can.
            ended = ended && layer.input.is_empty() && sink.len() < PIECE;
        }
        if self.side == Side::Upstream {
            self.layers.drain(..first); // their remaining output would be dropped
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

    /// Returns the number of bytes, beyond twice its output, that the coding may take.
    fn hollow(self) -> usize {
        match self {
            // zstd gives no output of a window that is not full.
            Self::Zstd => HOLLOW + MAX_WINDOW,
            Self::Gzip | Self::Deflate | Self::Brotli => HOLLOW,
        }
    }

    /// Recognises the real coding by the first bytes; `None` while there are too few of them.
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
    /// The coding in the body's label.
    coding: Coding,
    state: DecodeState,
    input: BytesMut,
    /// The number of bytes that it has taken from its input.
    taken: usize,
    given: usize,
}

enum DecodeState {
    /// No data seen yet.
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

    /// Returns how many bytes of output are held, at most, because the rest may refer to them.
    fn window(&self) -> usize {
        match &self.state {
            DecodeState::Unknown | DecodeState::Plain => 0,
            DecodeState::Inflate(_) => self.given.min(INFLATE_WINDOW),
            DecodeState::Brotli(_) => self.given.min(BROTLI_WINDOW),
            DecodeState::Zstd(zstd) => zstd.held(),
        }
    }

    /// Whether the decoded stream has ended, so that nothing may follow.
    fn is_done(&self) -> bool {
        match &self.state {
            DecodeState::Inflate(inflate) => inflate.is_done(),
            DecodeState::Brotli(brotli) => brotli.done,
            DecodeState::Unknown | DecodeState::Plain | DecodeState::Zstd(_) => false,
        }
    }

    /// Decodes until `sink` holds a piece, or until the input is used up as far as possible.
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

/// Lets `write` fill some room at the end of `sink`; it returns the number of bytes used.
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
