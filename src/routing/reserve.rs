//! Who may be tried although it rests, so that no channel is out of reach for long without having been tried.
//!
//! | a channel | is tried |
//! |---|---|
//! | half-open | by one request in a quarter of an hour, while others can serve |
//! | half-open | when no other can serve |
//! | that cooled longest | when all that could serve cool, after a pause |
//!
//! Each by one request at a time: whoever takes what is offered here begins a
//! [`Trial`](super::live::Trial) first, and selects again when somebody else was faster.

use std::sync::Arc;

use super::eligibility::{Obstacle, SelectionQuery};
use super::route::Channel;
use super::selection_reason::SelectionReason;
use crate::time::Millis;

/// The resting channels of a route that have no other obstacle.
#[derive(Default)]
pub(super) struct Reserve<'r> {
    half_open: Vec<&'r Arc<Channel>>,
    /// The one that has cooled longest: all cool for the same time.
    coolest: Option<(Millis, &'r Arc<Channel>)>,
}

// === impl Reserve ===

impl<'r> Reserve<'r> {
    /// Takes a channel in whose only obstacle is that it rests.
    pub(super) fn note(&mut self, channel: &'r Arc<Channel>, obstacle: Obstacle) {
        match obstacle {
            Obstacle::HalfOpen { .. } => self.half_open.push(channel),
            Obstacle::Cooling { until } if self.coolest.is_none_or(|(earliest, _)| until < earliest) => {
                self.coolest = Some((until, channel));
            }
            _ => {}
        }
    }

    /// The half-open channel that is due to be tried instead of a channel of this priority. A request that has
    /// failed once is not put at risk again.
    pub(super) fn trial(&self, query: &SelectionQuery<'_>, priority: i64) -> Option<&'r Arc<Channel>> {
        let due = self.half_open.iter().copied().filter(|channel| {
            let live = &channel.live;
            channel.priority <= priority && !live.is_on_trial() && live.is_due_for_trial(query.now)
        });
        due.filter(|_| query.tried.is_empty()).min_by_key(|channel| (channel.live.last_trial(), channel.id))
    }

    /// Who is tried when no other channel can serve.
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

    /// When the first of them comes back, or may be free.
    pub(super) fn earliest(&self, now: Millis) -> Option<Millis> {
        if self.half_open.is_empty() { self.coolest.map(|(until, _)| until) } else { Some(now) }
    }
}
