//! Decides which cooling channels may be tried, so that none stays out of use for long without a test.
//!
//! | channel | when it is tried |
//! |---|---|
//! | half-open | once in a quarter of an hour, while others can serve |
//! | half-open | when no other can serve |
//! | cooling the longest | after a pause, when every channel that could serve is cooling |
//!
//! Each is tried by one request at a time: the request that takes a channel from here begins a
//! [`Trial`](super::live::Trial) first, and selects again when another request was faster.

use std::sync::Arc;

use super::eligibility::{Obstacle, SelectionQuery};
use super::route::Channel;
use super::selection_reason::SelectionReason;
use crate::time::Millis;

/// The cooling channels of a route that have no other obstacle.
#[derive(Default)]
pub(super) struct Reserve<'r> {
    half_open: Vec<&'r Arc<Channel>>,
    /// The channel whose cooldown ends first, and that time. All cool for the same time, so it has cooled longest.
    coolest: Option<(Millis, &'r Arc<Channel>)>,
}

// === impl Reserve ===

impl<'r> Reserve<'r> {
    /// Adds a channel whose only obstacle is that it cools.
    pub(super) fn note(&mut self, channel: &'r Arc<Channel>, obstacle: Obstacle) {
        match obstacle {
            Obstacle::HalfOpen { .. } => self.half_open.push(channel),
            Obstacle::Cooling { until } if self.coolest.is_none_or(|(earliest, _)| until < earliest) => {
                self.coolest = Some((until, channel));
            }
            _ => {}
        }
    }

    /// Returns the half-open channel that is due to be tried instead of a channel of this priority. A request that has
    /// failed once is not put at risk again.
    pub(super) fn trial(&self, query: &SelectionQuery<'_>, priority: i64) -> Option<&'r Arc<Channel>> {
        let due = self.half_open.iter().copied().filter(|channel| {
            let live = &channel.live;
            channel.priority <= priority && !live.is_on_trial() && live.is_due_for_trial(query.now)
        });
        due.filter(|_| query.tried.is_empty()).min_by_key(|channel| (channel.live.last_trial(), channel.id))
    }

    /// Returns the channel to try when no other can serve.
    pub(super) fn last(&self, query: &SelectionQuery<'_>) -> Option<(&'r Arc<Channel>, SelectionReason)> {
        if !self.half_open.is_empty() {
            let free = self.half_open.iter().copied().filter(|channel| !channel.live.is_on_trial());
            let first = free.min_by_key(|channel| (channel.priority, channel.live.last_trial(), channel.id));
            return first.map(|channel| (channel, SelectionReason::HalfOpen));
        }
        let (_, channel) = self.coolest?;
        let pause = query.last_resort?;
        let may = !channel.live.is_on_trial() && channel.live.may_be_last_resort(query.now, pause);
        may.then_some((channel, SelectionReason::LastResort))
    }

    /// Returns when the first of these channels ends its cooldown; `now` if one is half-open.
    pub(super) fn earliest(&self, now: Millis) -> Option<Millis> {
        if self.half_open.is_empty() { self.coolest.map(|(until, _)| until) } else { Some(now) }
    }
}
