//! Whose turn among channels comes first.

use std::sync::Arc;

use super::route::Channel;
use super::unit::UnitStrategy;
use crate::ids::ChannelId;
use crate::time::Millis;

/// Whose turn comes first: never or longest ago selected. The selection number orders what falls into
/// one millisecond.
pub(super) fn turn(channel: &Channel) -> (Option<Millis>, u64, Option<Millis>, ChannelId) {
    let totals = channel.live.totals();
    (totals.last_selected.or(totals.last_used), channel.live.selection_number(), totals.last_used, channel.id)
}

/// The next of these members of a route unit, which are in their order.
pub(super) fn next_member(strategy: UnitStrategy, members: Vec<&Arc<Channel>>) -> Option<&Arc<Channel>> {
    match strategy {
        UnitStrategy::RoundRobin => members.into_iter().min_by_key(|member| turn(member)),
        // The first of several equals, of which an iteration gives the last.
        UnitStrategy::StickUntilUnavailable => members
            .into_iter()
            .rev()
            .max_by_key(|member| (member.live.totals().last_selected, member.live.selection_number())),
    }
}
