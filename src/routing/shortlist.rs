//! The channels that a selection chooses from: the eligible ones of the most preferred priority, without those to be
//! avoided.
//!
//! A channel is avoided while its breaker is open or after failures in a row, but only while another candidate remains: a
//! request is never refused because of it.

use std::sync::Arc;

use super::eligibility::RouteRequest;
use super::route::Channel;

/// The candidates by ascending id, and the channels that are avoided in their favour.
#[derive(Default)]
pub struct Shortlist<'r> {
    pub candidates: Vec<&'r Arc<Channel>>,
    pub behind_breaker: Vec<&'r Arc<Channel>>,
    pub failed_recently: Vec<&'r Arc<Channel>>,
}

/// The eligible channels of one priority. A single channel, the usual case, costs no allocation.
pub(super) enum Layer<'r> {
    Empty,
    One(&'r Arc<Channel>),
    Several(Vec<&'r Arc<Channel>>),
}

// === impl Shortlist ===

impl<'r> Shortlist<'r> {
    pub fn new(mut candidates: Vec<&'r Arc<Channel>>, request: &RouteRequest<'_>) -> Self {
        let behind_breaker = take_avoided(&mut candidates, |channel| request.is_behind_breaker(channel));
        let failed_recently = take_avoided(&mut candidates, |channel| request.failed_recently(channel));
        Self { candidates, behind_breaker, failed_recently }
    }

    /// Returns the number of avoided channels, for either reason.
    pub fn avoided(&self) -> usize {
        self.behind_breaker.len() + self.failed_recently.len()
    }
}

// === impl Layer ===

impl<'r> Layer<'r> {
    /// Collects the channels of the lowest priority number, in the order given.
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

/// Removes and returns the candidates to be avoided, unless none would be left.
fn take_avoided<'r>(
    candidates: &mut Vec<&'r Arc<Channel>>,
    is_avoided: impl Fn(&Channel) -> bool,
) -> Vec<&'r Arc<Channel>> {
    if candidates.len() < 2 || !candidates.iter().any(|channel| is_avoided(channel)) {
        return Vec::new();
    }
    let (back, stay): (Vec<_>, Vec<_>) = candidates.iter().copied().partition(|channel| is_avoided(channel));
    if stay.is_empty() {
        return Vec::new();
    }
    *candidates = stay;
    back
}
