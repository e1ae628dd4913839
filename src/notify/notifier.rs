//! Queues notices and sends them in the background. Sent notices are remembered across restarts: a process that
//! restarts every minute must not send the same notice every minute.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use ring::digest::{Context, SHA256};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::channel::Channel;
use super::cooldown::{Cooldowns, SentRecord};
use super::message::{Message, Zone, with_merged};
use super::{Notice, Repeats};
use crate::config::Config;
use crate::one_line::one_line;
use crate::settings::Settings;
use crate::store::events::{self, NewEvent};
use crate::store::sent_notices::{self, SentRow};
use crate::store::{self, Store};
use crate::sync::lock;
use crate::time::{monotonic_ms, now_ms};
use crate::upstream::Client;

/// Maximum number of notices that wait or are being sent; further ones are dropped.
const MOST_WAITING: usize = 256;
/// The number of notices sent at once, so that one slow channel delays few others.
const PARALLEL: usize = 8;
/// The time that [`Notifier::stop`] waits for notices in progress.
const DRAIN: Duration = Duration::from_secs(3);

/// Sends notices to the operator. One per process; cheap to clone.
#[derive(Clone)]
pub struct Notifier {
    inner: Arc<Inner>,
}

struct Inner {
    client: Arc<Client>,
    settings: Arc<ArcSwap<Settings>>,
    store: Store,
    zone: Zone,
    recent: Mutex<RecentlySent>,
    /// The sends in progress; `None` once stopped.
    waiting: Mutex<Option<JoinSet<()>>>,
    slots: Semaphore,
}

/// The notices and events sent recently. Both have cool-downs of their own: an event is stored even if no channel
/// accepts the notice.
#[derive(Default)]
struct RecentlySent {
    notices: Cooldowns,
    events: Cooldowns,
}

/// The kind of record that a cool-down applies to.
#[derive(Clone, Copy)]
enum CooldownSubject {
    Notice,
    Event,
}

/// An event to store, and the signature of its subject.
struct PendingEvent {
    event: NewEvent,
    /// The number of equal alerts that its message reports.
    merged: u64,
    signature: u64,
}

/// The outcome of a delivery, by channel.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Each usable channel with its result or failure, in the order of the settings.
    pub channels: Vec<(&'static str, Result<(), String>)>,
}

/// A notice to send.
struct QueuedNotice {
    notice: Notice,
    /// The number of repeats that were held back before it.
    merged: u64,
    /// The signature of its subject, to take the cool-down back if no channel was reached.
    signature: Option<u64>,
}

/// An event to store and a notice to send, or one of them.
struct Alert {
    event: Option<PendingEvent>,
    notice: Option<QueuedNotice>,
}

impl Alert {
    fn title(&self) -> &str {
        let notice = self.notice.as_ref().map(|queued| queued.notice.title.as_str());
        let event = || self.event.as_ref().map(|pending| pending.event.title.as_str());
        notice.or_else(event).unwrap_or_default()
    }
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
                recent: Mutex::default(),
                waiting: Mutex::new(Some(JoinSet::new())),
                slots: Semaphore::new(PARALLEL),
            }),
        }
    }

    /// Sends a notice on every usable channel, in the background: returns at once, and never fails. Stores no event.
    ///
    /// Nothing is sent if no channel is usable; if the same notice was sent less than `notifyCooldownSec` ago (it is
    /// counted, and the next one reports how many); or if 256 notices already wait, or the service is stopping (both
    /// are logged). The failure of a channel is logged; a notice that reached no channel does not start the cool-down.
    pub fn send(&self, notice: Notice) {
        let signature = match &notice.repeats {
            Repeats::ByText => {
                let (level, title, message) =
                    (notice.level.as_str(), notice.title.trim(), notice.message.trim());
                Some(signature(format_args!("text:{level}\n{title}\n{message}")))
            }
            Repeats::About(subject) => Some(signature(format_args!("about:{subject}"))),
            Repeats::Sent => None,
        };
        let merged = match signature {
            Some(signature) => {
                let cooldown = self.inner.cooldown();
                let passed = lock(&self.inner.recent).notices.pass(signature, cooldown, monotonic_ms());
                let Some(merged) = passed else { return };
                merged
            }
            None => 0,
        };
        self.enqueue(Alert { event: None, notice: Some(QueuedNotice { notice, merged, signature }) });
    }

    /// Stores an event and sends it as a notice, both in the background, unless one about the same `subject` was sent
    /// within the cool-down. For events that may occur with every request: `make` is called, and memory is allocated,
    /// only if there is something to report.
    pub fn alert(&self, subject: fmt::Arguments<'_>, make: impl FnOnce() -> NewEvent) {
        let signature = signature(subject);
        let (cooldown, now) = (self.inner.cooldown(), monotonic_ms());
        let (event_due, notice_due) = {
            let mut recent = lock(&self.inner.recent);
            let event = recent.events.pass(signature, cooldown, now);
            (event, recent.notices.pass(signature, cooldown, now))
        };
        if event_due.is_none() && notice_due.is_none() {
            return;
        }
        let event = make();
        let notice = Notice::from(&event);
        let notice = notice_due.map(|merged| QueuedNotice { notice, merged, signature: Some(signature) });
        let event = event_due.map(|merged| {
            let message = event.message.as_deref().map(|message| with_merged(message, merged));
            PendingEvent { event: NewEvent { message, ..event }, merged, signature }
        });
        self.enqueue(Alert { event, notice });
    }

    /// Sends a notice now, regardless of earlier ones, and reports the outcome; takes up to 22 s if a channel hangs.
    pub async fn deliver(&self, notice: &Notice) -> Report {
        self.inner.deliver(notice, 0).await
    }

    /// Loads the records of notices sent before the last stop. Call it before anything is sent.
    pub async fn restore_cooldowns(&self) -> store::Result<()> {
        let (now, now_here) = (now_ms(), monotonic_ms());
        let rows = sent_notices::all(&self.inner.store).await?;
        let mut recent = lock(&self.inner.recent);
        for row in rows {
            let Some((kind, signature)) = CooldownSubject::of_stored(&row.signature) else { continue };
            // A time in the future was recorded by a clock that has been set back since.
            let Some(ago) = now.checked_sub(row.last_sent_at).filter(|ago| *ago >= 0) else { continue };
            recent.cooldowns(kind).restore(SentRecord {
                signature,
                at: now_here - ago,
                held_back: row.held_back,
            });
        }
        Ok(())
    }

    /// Forgets the notices that were sent: channels have changed, and the new ones have received nothing yet.
    pub async fn reset_cooldowns(&self) {
        *lock(&self.inner.recent) = RecentlySent::default();
        if let Err(error) = sent_notices::clear(&self.inner.store).await {
            log::warn!(
                "the record of sent notifications could not be deleted and will apply again after a \
                 restart: {error}"
            );
        }
    }

    /// Refuses further notices, and waits at most three seconds for those in progress. The numbers of held back repeats
    /// are stored for the next process.
    pub async fn stop(&self) {
        let Some(mut waiting) = lock(&self.inner.waiting).take() else { return };
        let all_sent = async { while waiting.join_next().await.is_some() {} };
        if timeout(DRAIN, all_sent).await.is_err() {
            log::warn!("{} notification(s) could not be sent before the stop", waiting.len());
        }
        waiting.shutdown().await;
        let held_back: Vec<(CooldownSubject, SentRecord)> = {
            let recent = lock(&self.inner.recent);
            let notices = recent.notices.held_back().map(|record| (CooldownSubject::Notice, record));
            notices.chain(recent.events.held_back().map(|record| (CooldownSubject::Event, record))).collect()
        };
        self.inner.persist(held_back).await;
    }

    fn enqueue(&self, alert: Alert) {
        let mut waiting = lock(&self.inner.waiting);
        let Some(waiting) = waiting.as_mut() else {
            log::warn!("notify failed: \"{}\" came while the service was stopping", alert.title());
            return self.inner.take_back(&alert);
        };
        while let Some(ended) = waiting.try_join_next() {
            if let Err(panic) = ended {
                log::error!("a notification panicked: {panic}");
            }
        }
        if waiting.len() >= MOST_WAITING {
            let title = alert.title();
            log::warn!("notify failed: {MOST_WAITING} notifications are waiting, \"{title}\" is dropped");
            return self.inner.take_back(&alert);
        }
        let inner = self.inner.clone();
        waiting.spawn(async move { inner.carry_out(alert).await });
    }
}

impl Inner {
    /// Lets the next alert and notice of this kind pass: these were not stored and not sent.
    fn take_back(&self, alert: &Alert) {
        let mut recent = lock(&self.recent);
        if let Some(event) = &alert.event {
            recent.events.take_back(event.signature, event.merged);
        }
        if let Some(QueuedNotice { merged, signature: Some(signature), .. }) = &alert.notice {
            recent.notices.take_back(*signature, *merged);
        }
    }

    /// Stores the event, then sends the notice.
    async fn carry_out(&self, alert: Alert) {
        if let Some(pending) = alert.event {
            match events::insert(&self.store, pending.event.clone()).await {
                Ok(_) => self.persist_one(CooldownSubject::Event, pending.signature).await,
                Err(error) => {
                    log::warn!("the event of an alert could not be stored: {error}");
                    self.take_back(&Alert { event: Some(pending), notice: None });
                }
            }
        }
        if let Some(notice) = alert.notice {
            self.send(notice).await;
        }
    }

    async fn send(&self, queued: QueuedNotice) {
        let QueuedNotice { notice, merged, signature } = queued;
        let _slot = self.slots.acquire().await;
        let report = self.deliver(&notice, merged).await;
        let Some(signature) = signature else { return };
        if report.succeeded() > 0 {
            self.persist_one(CooldownSubject::Notice, signature).await;
        } else if report.attempted() > 0 {
            lock(&self.recent).notices.take_back(signature, merged);
        }
    }

    fn cooldown(&self) -> Duration {
        Duration::from_secs(self.settings.load().values.count("notify_cooldown_sec"))
    }

    /// Stores the record of a sent notice for the next process.
    async fn persist_one(&self, kind: CooldownSubject, signature: u64) {
        let record = lock(&self.recent).cooldowns(kind).record(signature);
        self.persist(record.map(|record| (kind, record)).into_iter().collect()).await;
    }

    async fn persist(&self, records: Vec<(CooldownSubject, SentRecord)>) {
        if records.is_empty() {
            return;
        }
        let (now, now_here) = (now_ms(), monotonic_ms());
        let rows = records.into_iter().map(|(kind, record)| SentRow {
            signature: kind.stored(record.signature),
            last_sent_at: now - (now_here - record.at),
            held_back: record.held_back,
        });
        let cutoff = now.saturating_sub(Cooldowns::memory(self.cooldown()));
        if let Err(error) = sent_notices::note(&self.store, rows.collect(), cutoff).await {
            log::warn!(
                "sent notifications could not be recorded and may be sent again after a restart: {error}"
            );
        }
    }

    async fn deliver(&self, notice: &Notice, merged: u64) -> Report {
        let channels = Channel::usable(&self.settings.load().values);
        let message = Arc::new(Message::new(notice, merged, now_ms(), &self.zone));
        let mut report = Report::default();
        let mut deliveries = JoinSet::new();
        for (index, channel) in channels.into_iter().enumerate() {
            // The initial result: a delivery that panics never reports another one.
            report.channels.push((channel.name(), Err("internal error".to_owned())));
            let (client, message) = (self.client.clone(), message.clone());
            deliveries.spawn(async move { (index, channel.deliver(&client, &message).await) });
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

impl RecentlySent {
    fn cooldowns(&mut self, kind: CooldownSubject) -> &mut Cooldowns {
        match kind {
            CooldownSubject::Notice => &mut self.notices,
            CooldownSubject::Event => &mut self.events,
        }
    }
}

impl CooldownSubject {
    fn stored(self, signature: u64) -> String {
        match self {
            Self::Notice => format!("notice:{signature:016x}"),
            Self::Event => format!("event:{signature:016x}"),
        }
    }

    fn of_stored(text: &str) -> Option<(Self, u64)> {
        let (kind, signature) = text.split_once(':')?;
        let kind = match kind {
            "notice" => Self::Notice,
            "event" => Self::Event,
            _ => return None,
        };
        Some((kind, u64::from_str_radix(signature, 16).ok()?))
    }
}

impl Report {
    pub fn attempted(&self) -> usize {
        self.channels.len()
    }

    pub fn succeeded(&self) -> usize {
        self.channels.iter().filter(|(_, outcome)| outcome.is_ok()).count()
    }

    /// Returns each channel that failed, with the reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.channels.iter().filter_map(|(name, outcome)| Some((*name, outcome.as_ref().err()?.as_str())))
    }
}

/// Returns the signature of a subject, stable across restarts and updates: the first eight bytes of its SHA-256.
fn signature(subject: fmt::Arguments<'_>) -> u64 {
    struct Digest(Context);
    impl Write for Digest {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut digest = Digest(Context::new(&SHA256));
    // Formatting texts and numbers cannot fail.
    let _ = digest.write_fmt(subject);
    let hash = digest.0.finish();
    hash.as_ref().iter().take(8).fold(0, |signature, byte| signature << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::signature;

    /// The signatures are stored: a build with other signatures would send everything once more.
    #[test]
    fn signatures_are_the_same_in_every_build() {
        assert_eq!(signature(format_args!("about:{}", "token-expired:7")), 0x9447_c6e6_3aae_e50c);
        assert_ne!(signature(format_args!("a{}", 1)), signature(format_args!("a{}", 2)));
    }
}
