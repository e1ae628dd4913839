//! Batches whose usage is not booked yet: those that are being booked, and why one cannot be deleted before it is.

use crate::flight::KeyedFlight;
use crate::http::Response;
use crate::ids::BatchId;
use crate::proxy::reply::ErrorShape;

/// The batches that are being booked: results are long, and are not read again for each poll.
pub(in crate::proxy) type Bookings = KeyedFlight<BatchId, Result<(), Unbooked>>;

/// Why the usage of a batch that has ended is not booked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Unbooked {
    /// Its results are being read.
    UnderWay,
    /// Its results could not be read, or their usage could not be stored.
    Failed,
}

impl Unbooked {
    /// Refuses to delete what the usage is read from.
    pub(super) fn refuse(self, shape: ErrorShape) -> Response {
        match self {
            Self::UnderWay => {
                let message = "The usage of this batch is being read from its results. Try again in a minute";
                shape.refuse(409, message, None, Some("batch_id"))
            }
            Self::Failed => {
                let message =
                    "The usage of this batch could not be read from its results yet. Try again later";
                shape.refuse(503, message, None, Some("batch_id"))
            }
        }
    }
}
