//! Finds where the body of an answer ends (RFC 9112 §6 and §7).

/// The most bytes of a chunked body that are no data, since the last chunk with data: extensions and blanks behind a
/// chunk's size, and trailers.
const MAX_UNUSED: u32 = 16 * 1024;

/// The framing of a body: how much is still to come, and what the transfer coding adds to it.
#[derive(Debug)]
pub enum Framing {
    /// A body of this many bytes.
    Length(u64),
    Chunked(Chunked),
    /// Everything until the upstream closes the connection.
    UntilClose,
}

/// Why a chunked body is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingError(pub &'static str);

/// The beginning of the next input: this many bytes of coding, then this many bytes of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramingStep {
    pub coding: usize,
    pub data: usize,
}

/// The position in a chunked body.
#[derive(Debug, Default)]
pub struct Chunked {
    place: ChunkPlace,
    /// The size of the current chunk while its digits are read, then how many of its bytes are still to come.
    left: u64,
    /// The bytes that are no data, since the last chunk with data.
    unused: u32,
}

/// What comes next in a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkPlace {
    /// The first digit of a size.
    #[default]
    Size,
    MoreSize,
    /// Blanks between a size and what follows.
    BehindSize,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The beginning of a trailer, or of the empty line at the end.
    Trailers,
    Trailer,
    TrailerLf,
    EndLf,
    Ended,
}

impl Framing {
    /// Returns what `input` begins with, which then counts as read. There is no data in it when more input is needed,
    /// and when the body has ended.
    pub fn step(&mut self, input: &[u8]) -> Result<FramingStep, FramingError> {
        match self {
            Self::Length(left) => {
                let data = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= data as u64;
                Ok(FramingStep { coding: 0, data })
            }
            Self::Chunked(chunked) => chunked.step(input),
            Self::UntilClose => Ok(FramingStep { coding: 0, data: input.len() }),
        }
    }

    /// Whether the whole body has been read. Never true of a body that ends with the connection.
    pub fn is_ended(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.place == ChunkPlace::Ended,
            Self::UntilClose => false,
        }
    }

    /// Returns how many bytes of the body are still to come, where its framing tells.
    pub fn exact_left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Chunked(_) | Self::UntilClose => None,
        }
    }
}

impl Chunked {
    fn step(&mut self, input: &[u8]) -> Result<FramingStep, FramingError> {
        for (at, &byte) in input.iter().enumerate() {
            match self.place {
                ChunkPlace::Data => {
                    let here = input.len() - at;
                    let data = usize::try_from(self.left).unwrap_or(usize::MAX).min(here);
                    self.left -= data as u64;
                    if self.left == 0 {
                        self.place = ChunkPlace::DataCr;
                    }
                    return Ok(FramingStep { coding: at, data });
                }
                ChunkPlace::Ended => return Ok(FramingStep { coding: at, data: 0 }),
                _ => self.place = self.after(byte)?,
            }
        }
        Ok(FramingStep { coding: input.len(), data: 0 })
    }

    /// Returns what comes after a byte of the coding.
    fn after(&mut self, byte: u8) -> Result<ChunkPlace, FramingError> {
        let error = |what| Err(FramingError(what));
        match (self.place, byte) {
            (ChunkPlace::Size | ChunkPlace::MoreSize, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                let Some(larger) = self.left.checked_mul(16) else {
                    return error("a chunk's size is too large");
                };
                self.left = larger | u64::from(digit);
                Ok(ChunkPlace::MoreSize)
            }
            (ChunkPlace::MoreSize | ChunkPlace::BehindSize, b' ' | b'\t') => {
                self.skip(ChunkPlace::BehindSize)
            }
            (ChunkPlace::MoreSize | ChunkPlace::BehindSize, b';') => Ok(ChunkPlace::Extension),
            (ChunkPlace::MoreSize | ChunkPlace::BehindSize | ChunkPlace::Extension, b'\r') => {
                Ok(ChunkPlace::SizeLf)
            }
            (ChunkPlace::Size | ChunkPlace::MoreSize | ChunkPlace::BehindSize, _) => {
                error("a chunk's size is not a number")
            }
            (ChunkPlace::Extension, b'\n') => error("a chunk's size ends with a bare line feed"),
            (ChunkPlace::Extension, _) => self.skip(ChunkPlace::Extension),
            (ChunkPlace::SizeLf, b'\n') if self.left == 0 => Ok(ChunkPlace::Trailers),
            (ChunkPlace::SizeLf, b'\n') => {
                self.unused = 0;
                Ok(ChunkPlace::Data)
            }
            (ChunkPlace::DataCr, b'\r') => Ok(ChunkPlace::DataLf),
            (ChunkPlace::DataLf, b'\n') => Ok(ChunkPlace::Size),
            (ChunkPlace::DataCr | ChunkPlace::DataLf, _) => error("a chunk is longer than its size"),
            (ChunkPlace::Trailers, b'\r') => Ok(ChunkPlace::EndLf),
            (ChunkPlace::Trailers, _) => self.skip(ChunkPlace::Trailer),
            (ChunkPlace::Trailer, b'\r') => Ok(ChunkPlace::TrailerLf),
            (ChunkPlace::Trailer, _) => self.skip(ChunkPlace::Trailer),
            (ChunkPlace::TrailerLf, b'\n') => Ok(ChunkPlace::Trailers),
            (ChunkPlace::EndLf, b'\n') => Ok(ChunkPlace::Ended),
            (ChunkPlace::SizeLf | ChunkPlace::TrailerLf | ChunkPlace::EndLf, _) => {
                error("a carriage return without a line feed")
            }
            (place @ (ChunkPlace::Data | ChunkPlace::Ended), _) => Ok(place),
        }
    }

    /// Goes on to `place` over a byte that nobody needs; fails when there are too many of them.
    fn skip(&mut self, place: ChunkPlace) -> Result<ChunkPlace, FramingError> {
        self.unused += 1;
        if self.unused > MAX_UNUSED {
            return Err(FramingError("its extensions and trailers are too long"));
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the data of a body that is fed in pieces of at most `piece` bytes, and the input that is left behind it.
    fn read(mut framing: Framing, text: &[u8], piece: usize) -> Result<(Vec<u8>, usize, bool), FramingError> {
        let (mut body, mut at, mut end) = (Vec::new(), 0, 0);
        loop {
            let step = framing.step(&text[at..end])?;
            body.extend_from_slice(&text[at + step.coding..at + step.coding + step.data]);
            at += step.coding + step.data;
            if framing.is_ended() {
                return Ok((body, text.len() - at, true));
            }
            if at == end {
                if end == text.len() {
                    return Ok((body, 0, false));
                }
                end = (end + piece).min(text.len());
            }
        }
    }

    fn chunked() -> Framing {
        Framing::Chunked(Chunked::default())
    }

    #[test]
    fn a_body_ends_where_its_framing_says_however_it_is_cut() {
        for (framing, text, body, behind, is_ended) in [
            ((|| Framing::Length(2)) as fn() -> Framing, "okay", "ok", 2, true),
            (|| Framing::Length(0), "x", "", 1, true),
            (|| Framing::Length(5), "ok", "ok", 0, false),
            (|| Framing::UntilClose, "0\r\n\r\n", "0\r\n\r\n", 0, false),
            (chunked, "2\r\nok\r\n0\r\n\r\nHTTP", "ok", 4, true),
            (chunked, "2 \t;a=\"b;\"\r\nok\r\nB;x\r\n0123456789a\r\n000\r\n\r\n", "ok0123456789a", 0, true),
            (chunked, "1\r\n\r\r\n1\r\n\n\r\n0\r\nx-sum: 1\r\ny: 2\r\n\r\n", "\r\n", 0, true),
            (chunked, "2\r\nok\r\n0\r\n", "ok", 0, false),
            (chunked, "", "", 0, false),
        ] {
            for piece in 1..=text.len().max(1) {
                let wanted = Ok((body.as_bytes().to_vec(), behind, is_ended));
                assert_eq!(read(framing(), text.as_bytes(), piece), wanted, "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let long = |before: &str, after: &str| format!("{before}{}{after}", "x".repeat(17_000));
        for text in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "0x2\r\nok\r\n",
            " 2\r\nok\r\n",
            "2 2\r\nok\r\n",
            "2\nok\r\n",
            "2;x\nok\r\n",
            "2\r\nokay\r\n",
            "2\r\nok\n0\r\n\r\n",
            "2\r\nok\r\r\n",
            "10000000000000000\r\n",
            "0\r\n\rx",
            "0\r\nx: y\r\r\n",
            &long("1;", "\r\nx\r\n0\r\n\r\n"),
            &long("0\r\nx: ", "\r\n\r\n"),
        ] {
            for piece in [1, 3, text.len()] {
                assert!(read(chunked(), text.as_bytes(), piece).is_err(), "{text:?}");
            }
        }
    }

    #[test]
    fn every_chunk_may_have_a_padded_size_and_an_extension() {
        let text = format!("{}0\r\n\r\n", "2    ;sum=\"0123456789\"\r\nok\r\n".repeat(2_000));
        let wanted = Ok(("ok".repeat(2_000).into_bytes(), 0, true));
        assert_eq!(read(chunked(), text.as_bytes(), text.len()), wanted);
    }

    proptest! {
        #[test]
        fn any_bytes_read_the_same_however_they_are_cut(
            text in "[0-9a-fF;x \r\n]{0,60}",
            piece in 1_usize..9,
        ) {
            prop_assert_eq!(read(chunked(), text.as_bytes(), piece), read(chunked(), text.as_bytes(), text.len().max(1)));
        }

        #[test]
        fn chunks_are_read_back(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            piece in 1_usize..20,
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(read(chunked(), &text, piece), Ok((chunks.concat(), 0, true)));
        }
    }
}
