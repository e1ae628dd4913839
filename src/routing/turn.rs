//! Whose turn among channels comes first.

use super::route::Channel;
use crate::time::Millis;

/// Whose turn comes first: never or longest ago selected. The selection number orders what falls into
/// one millisecond.
pub(super) fn turn(channel: &Channel) -> (Option<Millis>, u64, Option<Millis>, i64) {
    let totals = channel.live.totals();
    (totals.last_selected.or(totals.last_used), channel.live.selection_number(), totals.last_used, channel.id)
}
