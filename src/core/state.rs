//! The parts that every face works with.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, Notify, watch};

use super::presence::Presence;
use crate::background::Background;
use crate::config::Config;
use crate::flight::Coalesced;
use crate::keys::KeyTable;
use crate::limits::{BodyMemory, RateLimiter, SiteLeases};
use crate::logging::Complaint;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::routing::{Affinity, LiveTable, Snapshot};
use crate::settings::Settings;
use crate::store::instances::Instance;
use crate::store::relocate::Place;
use crate::store::rests::Rests;
use crate::store::snapshot::Source;
use crate::store::uploads::Uploads;
use crate::store::{self, Store};
use crate::sync::lock;
use crate::time::Millis;
use crate::upstream::Client;
use crate::upstream::platforms::SiteMemory;

/// Everything that the faces share.
pub struct Core {
    pub config: Arc<Config>,
    /// What an operator saved, over the configuration.
    pub settings: Arc<ArcSwap<Settings>>,
    /// Tells the jobs that go by settings when those are others.
    pub settings_changed: watch::Sender<()>,
    /// What requests are routed by.
    pub snapshot: ArcSwap<Snapshot>,
    /// The managed downstream keys.
    pub keys: ArcSwap<KeyTable>,
    /// Counters and cooldowns, which outlive snapshots.
    pub live: LiveTable,
    pub store: Store,
    /// The database that the environment names, where another one that was saved is in use.
    pub bootstrap: Option<Store>,
    /// The database in use.
    pub database: Place,
    /// What has been read of the rests that others know of.
    pub(super) rests: Rests,
    /// What this process is called among them.
    pub instance: String,
    /// Where several processes may share the database.
    pub(super) presence: Option<Presence>,
    /// Those that the database knew when it was last asked.
    pub(super) instances: ArcSwap<Vec<Instance>>,
    pub client: Arc<Client>,
    /// What management calls have learnt of sites and sessions.
    pub site_memory: Arc<SiteMemory>,
    /// The way to the operator.
    pub notifier: Notifier,
    pub background: Arc<Background>,
    /// Held from reading the routes to committing what follows from them: edits by hand and rebuilds
    /// take turns, so that neither is decided on rows that the other has changed.
    pub route_edits: Mutex<()>,
    /// Held from reading an account's tokens to committing their change, for the reason of `route_edits`.
    pub token_edits: Mutex<()>,
    /// Held while settings are changed in part. Who needs `route_edits` as well takes that first.
    pub settings_edits: Mutex<()>,
    /// Held while a backup is imported: one at a time.
    pub imports: Mutex<()>,
    /// Held from looking whether a key of the store is being replaced to beginning it.
    pub key_edits: Mutex<()>,
    /// What request bodies take while they are read and answered.
    pub body_memory: Arc<BodyMemory>,
    pub rates: RateLimiter,
    /// Counts callers that were not let in.
    pub(super) auth_failures: std::sync::Mutex<Complaint>,
    /// Who is at which upstream site right now.
    pub leases: SiteLeases,
    /// Which channel served which conversation last.
    pub affinity: Affinity,
    /// Files on their way in.
    pub uploads: Arc<Uploads>,
    pub metrics: Metrics,
    /// When the process began to serve.
    pub started: Millis,
    pub(super) resets: AtomicU64,
    pub(super) new_start: NewStart,
    pub(super) stopping: AtomicBool,
    pub(super) cutting: AtomicBool,
    /// Who changes something while a snapshot is made waits for the next, with all others.
    pub(super) publishes: Coalesced<store::Result<()>>,
    /// What the snapshot was made of. Held while the next is made, so that an older one never replaces a newer.
    pub(super) publishing: Mutex<Source>,
}

/// A stop that a start follows.
#[derive(Default)]
pub(super) struct NewStart {
    wanted: Notify,
    begun: watch::Sender<bool>,
}

impl Core {
    /// Tells the log of a caller that was not let in; of many soon after each other only the first.
    pub fn note_auth_failure(&self, client: IpAddr, why: &str) {
        lock(&self.auth_failures).say(|| format!("auth failed for {client}: {why}"));
    }

    /// How many factory resets there have been. Who waits between looking at things and storing something compares.
    pub fn resets(&self) -> u64 {
        self.resets.load(Ordering::SeqCst)
    }

    /// Counts a factory reset, before anything is deleted.
    pub fn begin_reset(&self) {
        self.resets.fetch_add(1, Ordering::SeqCst);
    }

    /// Has the service stop, and start again on the database that is named now. When this ends, no further connection is
    /// taken before that. A stop that is under way already is as good: the next start is on that database.
    pub async fn start_anew(&self) {
        self.new_start.wanted.notify_one();
        // The sender lives as long as this.
        drop(self.new_start.begun.subscribe().wait_for(|begun| *begun).await);
    }

    /// Ends when somebody wants that.
    pub async fn wants_new_start(&self) {
        self.new_start.wanted.notified().await;
    }

    /// Tells all who want it that no connection is taken any more.
    pub fn new_start_begins(&self) {
        self.new_start.begun.send_replace(true);
    }

    /// True once the process is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Marks the process as stopping.
    pub fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// True once the requests that are left are cut off: the grace period is over.
    pub fn is_cutting(&self) -> bool {
        self.cutting.load(Ordering::Relaxed)
    }

    /// Marks the requests that end from now on as cut off by the stop.
    pub fn begin_cut(&self) {
        self.cutting.store(true, Ordering::Relaxed);
    }
}
