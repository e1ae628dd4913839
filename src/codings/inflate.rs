//! gzip (RFC 1952), zlib (RFC 1950) and bare deflate (RFC 1951): one engine in three wrappers.
//!
//! Checksums are not verified: the transport has done so, and a truncated body is found without them.

use bytes::{Buf, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};

use super::{CodingError, PIECE, into_room};

/// The longest gzip header, in bytes. It may carry a file name and a comment of any length; an honest one is short.
const MAX_HEADER: usize = 8 * 1024;
/// The data of an empty gzip member, as encoders write it. Starting the engine for one takes longer than all the rest
/// of it, and a megabyte holds fifty thousand of them.
const NOTHING: [u8; 2] = [3, 0];
/// The most members that are not empty: encoders that write in blocks make them of some ten KiB each.
const MAX_MEMBERS: usize = 10_000;

pub(super) struct Inflate {
    engine: Decompress,
    wrapper: Wrapper,
    part: MemberPart,
    /// The number of members that the engine has begun.
    members: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrapper {
    Gzip,
    Zlib,
    Raw,
}

#[derive(Clone, Copy)]
enum MemberPart {
    Header,
    /// The beginning of a member's data, which tells whether the engine is needed for it.
    Start,
    Data,
    Trailer,
    /// One more member may follow.
    After,
    Done,
}

impl Inflate {
    pub(super) fn gzip() -> Self {
        Self::new(Wrapper::Gzip)
    }

    pub(super) fn zlib() -> Self {
        Self::new(Wrapper::Zlib)
    }

    pub(super) fn raw() -> Self {
        Self::new(Wrapper::Raw)
    }

    fn new(wrapper: Wrapper) -> Self {
        Self { engine: Decompress::new(false), wrapper, part: MemberPart::Header, members: 0 }
    }

    /// Whether the coding is over, so that the rest of the input does not belong to it.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.part, MemberPart::Done)
    }

    pub(super) fn step(
        &mut self,
        input: &mut BytesMut,
        sink: &mut BytesMut,
        ended: bool,
    ) -> Result<(), CodingError> {
        while sink.len() < PIECE {
            let goes_on = match self.part {
                MemberPart::Header => self.pass_header(input, ended)?,
                MemberPart::Start => self.start_member(input, ended)?,
                MemberPart::Data => self.inflate(input, sink, ended)?,
                MemberPart::Trailer => self.pass_trailer(input, ended),
                MemberPart::After => self.look_for_another_member(input, ended),
                MemberPart::Done => false,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    // Each of these does a part, and returns whether the next one can be done: it cannot while input is missing.

    fn pass_header(&mut self, input: &mut BytesMut, ended: bool) -> Result<bool, CodingError> {
        let length = match self.wrapper {
            Wrapper::Gzip => gzip_header_length(input),
            Wrapper::Zlib => (input.len() >= 2).then_some(2),
            Wrapper::Raw => Some(0),
        };
        match length {
            Some(length) => input.advance(length),
            None if ended => return Err(self.cut_short()),
            None if input.len() > MAX_HEADER => return Err(CodingError::Malformed("gzip")),
            None => return Ok(false),
        }
        self.part = MemberPart::Start;
        Ok(true)
    }

    fn start_member(&mut self, input: &mut BytesMut, ended: bool) -> Result<bool, CodingError> {
        if self.wrapper == Wrapper::Gzip {
            if input.len() < NOTHING.len() && !ended {
                return Ok(false);
            }
            if input.starts_with(&NOTHING) {
                input.advance(NOTHING.len());
                self.part = MemberPart::Trailer;
                return Ok(true);
            }
        }
        if self.members > 0 {
            self.engine.reset(false);
        }
        self.members += 1;
        if self.members > MAX_MEMBERS {
            return Err(CodingError::Malformed(self.name()));
        }
        self.part = MemberPart::Data;
        Ok(true)
    }

    fn inflate(
        &mut self,
        input: &mut BytesMut,
        sink: &mut BytesMut,
        ended: bool,
    ) -> Result<bool, CodingError> {
        let engine = &mut self.engine;
        let (read_before, written_before) = (engine.total_in(), engine.total_out());
        let status = into_room(sink, |room| {
            let status = engine.decompress(input, room, FlushDecompress::None);
            ((engine.total_out() - written_before) as usize, status)
        });
        let read = (engine.total_in() - read_before) as usize;
        let has_moved = read > 0 || engine.total_out() > written_before;
        input.advance(read);
        match status {
            Ok(Status::StreamEnd) => self.part = MemberPart::Trailer,
            Ok(_) if has_moved => {}
            Ok(_) if ended => return Err(self.cut_short()),
            Ok(_) => return Ok(false),
            Err(_) => return Err(CodingError::Malformed(self.name())),
        }
        Ok(true)
    }

    fn pass_trailer(&mut self, input: &mut BytesMut, ended: bool) -> bool {
        let length = match self.wrapper {
            Wrapper::Gzip => 8,
            Wrapper::Zlib => 4,
            Wrapper::Raw => 0,
        };
        if input.len() < length && !ended {
            return false;
        }
        input.advance(length.min(input.len()));
        self.part = MemberPart::After;
        true
    }

    /// A gzip file may have several members (RFC 1952, 2.2).
    fn look_for_another_member(&mut self, input: &BytesMut, ended: bool) -> bool {
        if self.wrapper == Wrapper::Gzip && input.len() < 2 && !ended {
            return false;
        }
        let has_another = self.wrapper == Wrapper::Gzip && input.starts_with(&[0x1f, 0x8b]);
        self.part = if has_another { MemberPart::Header } else { MemberPart::Done };
        true
    }

    fn cut_short(&self) -> CodingError {
        CodingError::CutShort(self.name())
    }

    fn name(&self) -> &'static str {
        if self.wrapper == Wrapper::Gzip { "gzip" } else { "deflate" }
    }
}

/// Returns the length of the gzip header that `data` starts with; `None` while it is not whole.
fn gzip_header_length(data: &[u8]) -> Option<usize> {
    const CHECKSUM: u8 = 1 << 1;
    const EXTRA: u8 = 1 << 2;
    const NAME: u8 = 1 << 3;
    const COMMENT: u8 = 1 << 4;
    let flags = *data.get(3)?;
    let mut length = 10;
    if flags & EXTRA != 0 {
        let size = data.get(length..length + 2)?;
        length += 2 + usize::from(u16::from_le_bytes([size[0], size[1]]));
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            length += memchr::memchr(0, data.get(length..)?)? + 1;
        }
    }
    if flags & CHECKSUM != 0 {
        length += 2;
    }
    (data.len() >= length).then_some(length)
}
