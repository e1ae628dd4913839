//! The order in which channels take turns.

use std::sync::Arc;

use super::route::Channel;
use super::unit::UnitStrategy;
use crate::ids::ChannelId;
use crate::time::Millis;

/// Returns the sort key of a channel's turn: a channel that was never selected comes first, then the one selected longest
/// ago. The selection number orders selections within one millisecond.
pub(super) fn turn(channel: &Channel) -> (Option<Millis>, u64, Option<Millis>, ChannelId) {
    let totals = channel.live.totals();
    (totals.last_selected.or(totals.last_used), channel.live.selection_number(), totals.last_used, channel.id)
}

/// Picks the next of a route unit's members, which are given in their order.
pub(super) fn next_member(strategy: UnitStrategy, members: Vec<&Arc<Channel>>) -> Option<&Arc<Channel>> {
    match strategy {
        UnitStrategy::RoundRobin => members.into_iter().min_by_key(|member| turn(member)),
        // `max_by_key` returns the last of several equals; reversed, the first member is that one.
        UnitStrategy::StickUntilUnavailable => members
            .into_iter()
            .rev()
            .max_by_key(|member| (member.live.totals().last_selected, member.live.selection_number())),
    }
}
