//! The usage lookups under way, limited in total and per site, and the sites whose logs do not answer.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::booked_lines::BookedLines;
use super::concurrency::{Concurrency, SitePlace, SitePlaces};
use crate::ids::SiteId;
use crate::logging::ThrottledWarning;
use crate::sync::lock;

/// The most lookups that may wait.
const WAITING: Concurrency = Concurrency { total: 512, per_site: 256 };
/// The number of lookups that ask their sites at once.
const PARALLEL: Concurrency = Concurrency { total: 8, per_site: 4 };
/// The time for which a log is not read after it has not answered in time.
const PAUSE: Duration = Duration::from_secs(60);

/// The lookups under way; [`Jobs`](super::Jobs) holds one.
pub struct LookupQueue {
    waiting: SitePlaces,
    pub(super) slots: SitePlaces,
    pub(super) booked: BookedLines,
    /// The sites whose logs are not read, and until when.
    paused: Mutex<HashMap<SiteId, Instant>>,
    refused: Mutex<ThrottledWarning>,
}

impl Default for LookupQueue {
    fn default() -> Self {
        Self {
            waiting: SitePlaces::new(WAITING),
            slots: SitePlaces::new(PARALLEL),
            booked: BookedLines::default(),
            paused: Mutex::default(),
            refused: Mutex::default(),
        }
    }
}

impl LookupQueue {
    /// Returns a place for a request of this site to wait in; `None` when too many wait, which is logged now and then.
    pub(super) fn admit(&self, site: SiteId) -> Option<SitePlace> {
        let place = self.waiting.try_acquire(site);
        if place.is_none() {
            lock(&self.refused).warn(|| {
                "a request keeps its estimated usage and cost: too many wait for the logs or price lists of sites"
                    .to_owned()
            });
        }
        place
    }

    /// Notes that the log of this site has not answered in time.
    pub(super) fn pause(&self, site: SiteId) {
        lock(&self.paused).insert(site, Instant::now() + PAUSE);
    }

    /// Whether the log of this site has lately not answered in time.
    pub(super) fn is_paused(&self, site: SiteId) -> bool {
        let (mut paused, now) = (lock(&self.paused), Instant::now());
        paused.retain(|_, until| *until > now);
        paused.contains_key(&site)
    }
}
