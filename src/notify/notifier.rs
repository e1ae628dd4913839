//! Taking notices without waiting, and sending them in the background.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::channel::Channel;
use super::cooldown::Cooldowns;
use super::letter::{Letter, Zone, one_line, with_merged};
use super::{Notice, Repeats};
use crate::config::Config;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::events::{self, NewEvent};
use crate::time::{monotonic_ms, now_ms};
use crate::upstream::Client;

/// Notices that wait or are being sent; beyond it they are dropped.
const MOST_WAITING: usize = 256;
/// Notices being sent at once: one slow channel then holds up few others.
const PARALLEL: usize = 8;
/// How long [`Notifier::stop`] waits for notices under way.
const DRAIN: Duration = Duration::from_secs(3);

/// The way to the operator. One per process; cheap to clone.
#[derive(Clone)]
pub struct Notifier {
    inner: Arc<Inner>,
}

struct Inner {
    client: Arc<Client>,
    settings: Arc<ArcSwap<Settings>>,
    store: Store,
    zone: Zone,
    hasher: RandomState,
    lately: Mutex<Lately>,
    /// `None` once stopped.
    waiting: Mutex<Option<JoinSet<()>>>,
    slots: Semaphore,
}

/// What was told lately. Events and notices are held back apart: an event is stored also when no
/// channel takes the notice.
#[derive(Default)]
struct Lately {
    notices: Cooldowns,
    events: Cooldowns,
}

/// How a delivery went, channel by channel.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Each usable channel with why it failed, in the order of the settings.
    pub channels: Vec<(&'static str, Result<(), String>)>,
}

/// A notice on its way.
struct Outgoing {
    notice: Notice,
    /// Those like it that were held back before it.
    merged: u64,
    /// What it is known by, when the cool-down has to hear that nobody was reached.
    signature: Option<u64>,
}

impl Notifier {
    pub fn new(client: Arc<Client>, settings: Arc<ArcSwap<Settings>>, store: Store, config: &Config) -> Self {
        let zone = Zone { zone: config.time_zone.clone(), name: config.time_zone_name.clone() };
        Self {
            inner: Arc::new(Inner {
                client,
                settings,
                store,
                zone,
                hasher: RandomState::new(),
                lately: Mutex::default(),
                waiting: Mutex::new(Some(JoinSet::new())),
                slots: Semaphore::new(PARALLEL),
            }),
        }
    }

    /// Sends on every usable channel, in the background: gives at once, and never an error. Stores no event.
    ///
    /// Nothing is sent when no channel is usable; when the same was sent less than `notifyCooldownSec` ago (it
    /// is counted, and the next one tells how many); when 256 notices wait already, or the service stops (both
    /// are log lines). A channel that fails is a log line; a notice that reached no channel was not sent, as far
    /// as the cool-down is concerned.
    pub fn send(&self, notice: Notice) {
        let signature = match &notice.repeats {
            Repeats::ByText => Some(self.inner.hasher.hash_one((
                notice.level.as_str(),
                notice.title.trim(),
                notice.message.trim(),
            ))),
            Repeats::About(subject) => Some(self.inner.hasher.hash_one(subject)),
            Repeats::Sent => None,
        };
        let merged = match signature {
            Some(signature) => {
                let cooldown = self.cooldown();
                let passed = lock(&self.inner.lately).notices.pass(signature, cooldown, monotonic_ms());
                let Some(merged) = passed else { return };
                merged
            }
            None => 0,
        };
        self.enqueue(None, Some(Outgoing { notice, merged, signature }));
    }

    /// Stores an event and sends it as a notice, both in the background, unless one about the same `subject` was told
    /// within the cool-down. For places where it may happen with every request: `make` runs, and anything is
    /// allocated, only when there is something to tell.
    pub fn alert(&self, subject: impl Hash, make: impl FnOnce() -> NewEvent) {
        let signature = self.inner.hasher.hash_one(subject);
        let (cooldown, now) = (self.cooldown(), monotonic_ms());
        let (event_due, notice_due) = {
            let mut lately = lock(&self.inner.lately);
            let event = lately.events.pass(signature, cooldown, now);
            (event, lately.notices.pass(signature, cooldown, now))
        };
        if event_due.is_none() && notice_due.is_none() {
            return;
        }
        let event = make();
        let notice = Notice::from(&event);
        let outgoing = notice_due.map(|merged| Outgoing { notice, merged, signature: Some(signature) });
        let event = event_due.map(|merged| NewEvent {
            message: event.message.as_deref().map(|message| with_merged(message, merged)),
            ..event
        });
        self.enqueue(event, outgoing);
    }

    /// Sends now, whatever was sent before, and tells how it went; takes up to 22 s when a channel hangs.
    pub async fn deliver(&self, notice: &Notice) -> Report {
        self.inner.deliver(notice, 0).await
    }

    /// Forgets what was sent: channels have changed, and the new ones have heard of nothing yet.
    pub fn forget(&self) {
        *lock(&self.inner.lately) = Lately::default();
    }

    /// Takes no more notices, and waits, at most three seconds, for those under way.
    pub async fn stop(&self) {
        let Some(mut waiting) = lock(&self.inner.waiting).take() else { return };
        let all_sent = async { while waiting.join_next().await.is_some() {} };
        if timeout(DRAIN, all_sent).await.is_err() {
            log::warn!("{} notification(s) could not be sent before the stop", waiting.len());
        }
        waiting.shutdown().await;
    }

    fn cooldown(&self) -> Duration {
        Duration::from_secs(self.inner.settings.load().values.count("notify_cooldown_sec"))
    }

    fn enqueue(&self, event: Option<NewEvent>, outgoing: Option<Outgoing>) {
        let mut waiting = lock(&self.inner.waiting);
        let title = || {
            let notice = outgoing.as_ref().map(|outgoing| outgoing.notice.title.as_str());
            notice.or(event.as_ref().map(|event| event.title.as_str())).unwrap_or_default().to_owned()
        };
        let Some(waiting) = waiting.as_mut() else {
            log::warn!("notify failed: \"{}\" comes while the service stops", title());
            return;
        };
        while let Some(ended) = waiting.try_join_next() {
            if let Err(panic) = ended {
                log::error!("a notification panicked: {panic}");
            }
        }
        if waiting.len() >= MOST_WAITING {
            log::warn!("notify failed: {MOST_WAITING} notifications wait, \"{}\" is dropped", title());
            return;
        }
        let inner = self.inner.clone();
        waiting.spawn(async move {
            if let Some(event) = event
                && let Err(error) = events::insert(&inner.store, event).await
            {
                log::warn!("the event of an alert could not be stored: {error}");
            }
            if let Some(outgoing) = outgoing {
                inner.send(outgoing).await;
            }
        });
    }
}

impl Inner {
    async fn send(&self, outgoing: Outgoing) {
        let Outgoing { notice, merged, signature } = outgoing;
        let _slot = self.slots.acquire().await;
        let report = self.deliver(&notice, merged).await;
        if let Some(signature) = signature
            && report.attempted() > 0
            && report.succeeded() == 0
        {
            lock(&self.lately).notices.take_back(signature, merged);
        }
    }

    async fn deliver(&self, notice: &Notice, merged: u64) -> Report {
        let channels = Channel::usable(&self.settings.load().values);
        let letter = Arc::new(Letter::new(notice, merged, now_ms(), &self.zone));
        let mut report = Report::default();
        let mut deliveries = JoinSet::new();
        for (index, channel) in channels.into_iter().enumerate() {
            // Says so until it is known better: a delivery that panics never reports.
            report.channels.push((channel.name(), Err("internal error".to_owned())));
            let (client, letter) = (self.client.clone(), letter.clone());
            deliveries.spawn(async move { (index, channel.deliver(&client, &letter).await) });
        }
        while let Some(ended) = deliveries.join_next().await {
            match ended {
                Ok((index, outcome)) => {
                    if let Some(channel) = report.channels.get_mut(index) {
                        channel.1 = outcome;
                    }
                }
                Err(panic) => log::error!("a notification channel panicked: {panic}"),
            }
        }
        for (channel, error) in report.failures() {
            log::warn!("notify failed ({channel}): \"{}\": {error}", one_line(&notice.title));
        }
        report
    }
}

impl Report {
    pub fn attempted(&self) -> usize {
        self.channels.len()
    }

    pub fn succeeded(&self) -> usize {
        self.channels.iter().filter(|(_, outcome)| outcome.is_ok()).count()
    }

    /// Each channel that failed, with why.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.channels.iter().filter_map(|(name, outcome)| Some((*name, outcome.as_ref().err()?.as_str())))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
