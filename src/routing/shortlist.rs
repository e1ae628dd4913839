//! Who among the eligible the choice is between: those of the most preferred priority, without those
//! that had better stand back (routing.md 6.1).
//!
//! A channel stands back behind an open breaker and after failures in a row, each only while somebody
//! else remains: a request is never refused because of it.

use std::sync::Arc;

use super::eligibility::Asked;
use super::route::Channel;

/// The candidates by ascending id, and who stands back for them.
#[derive(Default)]
pub struct Shortlist<'r> {
    pub candidates: Vec<&'r Arc<Channel>>,
    pub behind_breaker: Vec<&'r Arc<Channel>>,
    pub failed_lately: Vec<&'r Arc<Channel>>,
}

/// The channels of one priority; one alone, the usual case, costs no allocation.
pub(super) enum Layer<'r> {
    Empty,
    One(&'r Arc<Channel>),
    Several(Vec<&'r Arc<Channel>>),
}

// === impl Shortlist ===

impl<'r> Shortlist<'r> {
    pub fn new(mut candidates: Vec<&'r Arc<Channel>>, asked: &Asked<'_>) -> Self {
        let behind_breaker = stand_back(&mut candidates, |channel| asked.is_behind_breaker(channel));
        let failed_lately = stand_back(&mut candidates, |channel| asked.failed_lately(channel));
        Self { candidates, behind_breaker, failed_lately }
    }

    pub fn stood_back(&self) -> usize {
        self.behind_breaker.len() + self.failed_lately.len()
    }
}

// === impl Layer ===

impl<'r> Layer<'r> {
    /// Those of the lowest priority number, in their order.
    pub(super) fn preferred(eligible: impl Iterator<Item = &'r Arc<Channel>>) -> Self {
        let mut layer = Self::Empty;
        let mut priority = i64::MAX;
        for channel in eligible {
            if channel.priority > priority {
                continue;
            }
            layer = match layer {
                Self::One(first) if channel.priority == priority => Self::Several(vec![first, channel]),
                Self::Several(mut channels) if channel.priority == priority => {
                    channels.push(channel);
                    Self::Several(channels)
                }
                _ => Self::One(channel),
            };
            priority = channel.priority;
        }
        layer
    }
}

/// Takes out and gives those that are to stand back, unless nobody would be left.
fn stand_back<'r>(
    candidates: &mut Vec<&'r Arc<Channel>>,
    stands_back: impl Fn(&Channel) -> bool,
) -> Vec<&'r Arc<Channel>> {
    if candidates.len() < 2 || !candidates.iter().any(|channel| stands_back(channel)) {
        return Vec::new();
    }
    let (back, stay): (Vec<_>, Vec<_>) = candidates.iter().copied().partition(|channel| stands_back(channel));
    if stay.is_empty() {
        return Vec::new();
    }
    *candidates = stay;
    back
}
