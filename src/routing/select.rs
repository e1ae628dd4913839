//! One channel out of those that may be picked (routing.md 6).
//!
//! A selection writes nothing: the caller records it once it dispatches
//! ([`ChannelLive::record_selection`](super::ChannelLive::record_selection)). It walks the channels of
//! one route once, and allocates only when there is a choice to weigh.
//!
//! `weighted` draws among the candidates of the most preferred priority that has any; `round_robin` takes
//! whoever waited longest, whatever its priority; `stable_first` draws as `weighted` does for now.

use std::sync::Arc;

use super::eligibility::{Ask, Asked, Obstacle};
use super::pattern::alias_equal;
use super::route::{Channel, Strategy};
use super::score::{Score, scores};
use super::snapshot::Match;
use crate::time::Millis;

/// What a selection gives.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'r> {
    Channel {
        channel: &'r Arc<Channel>,
        /// The model's name for this upstream.
        upstream_model: &'r str,
    },
    NoneEligible {
        /// When the first of those that only cool comes back; None when waiting would not help.
        earliest_cooldown: Option<Millis>,
    },
}

/// Picks a channel of the matched route. `random` gives numbers in [0, 1) and is asked only when there
/// are several candidates.
pub fn select<'r>(found: &Match<'r>, ask: &Ask<'r>, random: &mut dyn FnMut() -> f64) -> Selection<'r> {
    let asked = Asked::new(found.route, found.by_display_name, ask);
    let mut earliest_cooldown: Option<Millis> = None;
    let eligible = found.route.channels.iter().filter(|channel| match asked.obstacle(channel) {
        None => true,
        Some(Obstacle::Cooling { until }) => {
            earliest_cooldown = Some(earliest_cooldown.map_or(until, |earliest| earliest.min(until)));
            false
        }
        Some(_) => false,
    });
    let picked = match found.route.strategy {
        Strategy::RoundRobin => eligible.min_by_key(|channel| turn(channel)),
        Strategy::Weighted | Strategy::StableFirst => match preferred(eligible) {
            Candidates::None => None,
            Candidates::One(channel) => Some(channel),
            Candidates::Several(channels) => {
                let scores = scores(
                    &channels,
                    found.weights,
                    ask.policy,
                    |channel| upstream_model(channel, &asked),
                    |_| 1.0,
                );
                Some(channels[drawn(&scores, random())])
            }
        },
    };
    match picked {
        Some(channel) => Selection::Channel { channel, upstream_model: upstream_model(channel, &asked) },
        None => Selection::NoneEligible { earliest_cooldown },
    }
}

/// The channels of one priority.
enum Candidates<'r> {
    None,
    One(&'r Arc<Channel>),
    Several(Vec<&'r Arc<Channel>>),
}

/// Those of the lowest priority number, in their order.
fn preferred<'r>(eligible: impl Iterator<Item = &'r Arc<Channel>>) -> Candidates<'r> {
    let mut candidates = Candidates::None;
    let mut priority = i64::MAX;
    for channel in eligible {
        if channel.priority > priority {
            continue;
        }
        candidates = match candidates {
            Candidates::One(first) if channel.priority == priority => {
                Candidates::Several(vec![first, channel])
            }
            Candidates::Several(mut channels) if channel.priority == priority => {
                channels.push(channel);
                Candidates::Several(channels)
            }
            _ => Candidates::One(channel),
        };
        priority = channel.priority;
    }
    candidates
}

/// Walks the shares until `u` of their sum is used up. Where nobody has a share, all have the same.
fn drawn(scores: &[Score], u: f64) -> usize {
    let last = scores.len() - 1;
    let sum: f64 = scores.iter().map(|score| score.contribution).sum();
    if sum <= 0.0 {
        return ((u * scores.len() as f64) as usize).min(last);
    }
    let mut left = u * sum;
    let reached = scores.iter().position(|score| {
        left -= score.contribution;
        left <= 0.0 && score.contribution > 0.0
    });
    reached.unwrap_or(last)
}

/// Whose turn comes first: never or longest ago selected. The selection number orders what falls into
/// one millisecond.
fn turn(channel: &Channel) -> (Option<Millis>, u64, Option<Millis>, i64) {
    let totals = channel.live.totals();
    (totals.last_selected.or(totals.last_used), channel.live.selection_number(), totals.last_used, channel.id)
}

/// The model as this upstream calls it (routing.md 3.3): behind an alias the channel's own name for it;
/// else the mapped name, in the channel's spelling where the two name one model.
fn upstream_model<'r>(channel: &'r Channel, asked: &Asked<'r>) -> &'r str {
    match &channel.source_model {
        Some(source) if asked.by_display_name || alias_equal(source.as_str(), asked.mapped) => {
            source.as_str()
        }
        _ => asked.mapped,
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
