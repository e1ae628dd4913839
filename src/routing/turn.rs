//! The order in which channels take turns.

use std::sync::Arc;

use super::route::Channel;
use super::unit::UnitStrategy;
use crate::ids::ChannelId;
use crate::time::Millis;

/// The place of a channel in the order: a channel that was never selected comes first, then the one selected longest ago.
/// Later fields decide among equals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TurnKey {
    selected_at: Option<Millis>,
    /// Orders selections within one millisecond.
    selection_number: u64,
    used_at: Option<Millis>,
    id: ChannelId,
}

/// Returns the place of a channel.
pub(super) fn turn(channel: &Channel) -> TurnKey {
    let totals = channel.live.totals();
    TurnKey {
        selected_at: totals.last_selected.or(totals.last_used),
        selection_number: channel.live.selection_number(),
        used_at: totals.last_used,
        id: channel.id,
    }
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
