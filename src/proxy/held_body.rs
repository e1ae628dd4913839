//! A body that is read to the end, or to a limit.

use bytes::Bytes;

/// The part of a body that was read.
pub(super) struct HeldBody {
    pub(super) bytes: Bytes,
    /// Whether that is the whole body.
    pub(super) is_whole: bool,
}

impl HeldBody {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { bytes, is_whole: true }
    }

    pub(super) fn part(bytes: Bytes) -> Self {
        Self { bytes, is_whole: false }
    }
}
