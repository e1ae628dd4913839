//! The body of a request to an upstream.

use std::fmt;

use bytes::Bytes;

/// Up to three pieces of bytes, sent one after the other without being copied together: a body whose `model` value was
/// replaced is the bytes before it, the new value, and the bytes after it. A clone costs three reference counts.
#[derive(Clone, Default)]
pub struct RequestBody([Bytes; 3]);

impl RequestBody {
    pub fn empty() -> Self {
        Self::default()
    }

    pub fn pieces(&self) -> &[Bytes; 3] {
        &self.0
    }

    /// In bytes.
    pub(super) fn length(&self) -> u64 {
        self.0.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl From<[Bytes; 3]> for RequestBody {
    fn from(pieces: [Bytes; 3]) -> Self {
        Self(pieces)
    }
}

impl From<(Bytes, Bytes, Bytes)> for RequestBody {
    fn from((first, second, third): (Bytes, Bytes, Bytes)) -> Self {
        Self([first, second, third])
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self([bytes, Bytes::new(), Bytes::new()])
    }
}

impl From<()> for RequestBody {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

/// Without the bytes, which are somebody's conversation.
impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestBody({} bytes)", self.length())
    }
}
