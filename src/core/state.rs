//! The state that all faces share.

use std::collections::HashSet;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

use super::presence::Presence;
use crate::background::Background;
use crate::config::Config;
use crate::flight::Coalesced;
use crate::keys::KeyTable;
use crate::limits::{BodyMemory, RateLimiter, SiteLeases};
use crate::logging::ThrottledWarning;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::routing::{Affinity, LiveTable, Snapshot};
use crate::settings::Settings;
use crate::store::instances::Instance;
use crate::store::relocate::DatabaseAddress;
use crate::store::shared_cooldowns::SharedCooldowns;
use crate::store::snapshot::Source;
use crate::store::uploads::Uploads;
use crate::store::{self, Store};
use crate::sync::lock;
use crate::time::Millis;
use crate::upstream::Client;
use crate::upstream::platforms::SiteMemory;

/// All parts that the faces share.
pub struct Core {
    pub config: Arc<Config>,
    /// The settings in force: an operator's saved values over the configuration.
    pub settings: Arc<ArcSwap<Settings>>,
    /// Notifies jobs that depend on settings of a change.
    pub settings_changed: watch::Sender<()>,
    /// The routing snapshot in force.
    pub snapshot: ArcSwap<Snapshot>,
    /// The managed downstream keys.
    pub keys: ArcSwap<KeyTable>,
    /// Counters and cooldowns, which outlive snapshots.
    pub live: LiveTable,
    pub store: Store,
    /// The database that the environment names, if another one that was saved is in use.
    pub bootstrap: Option<Store>,
    /// The database in use.
    pub database: DatabaseAddress,
    /// How far the shared cooldowns of other instances have been read.
    pub(super) shared_cooldowns: SharedCooldowns,
    /// The id of this process among the instances.
    pub instance: String,
    /// The presence file, if several processes may share the database.
    pub(super) presence: Option<Presence>,
    /// The instances that the database listed when it was last read.
    pub(super) instances: ArcSwap<Vec<Instance>>,
    pub client: Arc<Client>,
    /// What management calls have learnt about sites and sessions.
    pub site_memory: Arc<SiteMemory>,
    /// Sends notices to the operator.
    pub notifier: Notifier,
    pub background: Arc<Background>,
    /// Held from reading the routes to committing the resulting changes: manual edits and rebuilds take turns, so that
    /// neither is decided on rows that the other has changed.
    pub route_edits: Mutex<()>,
    /// Held from reading an account's tokens to committing their change, for the reason of `route_edits`.
    pub token_edits: Mutex<()>,
    /// Held while settings are partly changed. Code that also needs `route_edits` locks that first.
    pub settings_edits: Mutex<()>,
    /// Held while a backup is imported, so that only one import runs at a time.
    pub imports: Mutex<()>,
    /// Held from checking whether a key of the store is being replaced to starting the replacement.
    pub key_edits: Mutex<()>,
    /// The memory for request bodies while they are read and answered.
    pub body_memory: Arc<BodyMemory>,
    pub rates: RateLimiter,
    /// Counts callers that were not let in, for the log.
    pub(super) auth_failures: std::sync::Mutex<ThrottledWarning>,
    /// The slots of upstream sites in use.
    pub leases: SiteLeases,
    /// The channel that served each conversation last.
    pub affinity: Affinity,
    /// The uploads in progress.
    pub uploads: Arc<Uploads>,
    pub metrics: Metrics,
    /// The time when the process began to serve.
    pub started: Millis,
    pub(super) resets: AtomicU64,
    /// Set while no request may be routed.
    pub(super) routing_stopped: AtomicBool,
    pub(super) restart: RestartRequest,
    pub(super) stopping: AtomicBool,
    pub(super) cutting: AtomicBool,
    /// Changes made while a snapshot is built wait for the next one, which they share.
    pub(super) publishes: Coalesced<store::Result<()>>,
    /// The source of the snapshot. Held while the next one is built, so that an older one never replaces a newer one.
    pub(super) publishing: Mutex<Source>,
}

/// A request to stop and start again.
#[derive(Default)]
pub(super) struct RestartRequest {
    wanted: Notify,
    begun: watch::Sender<bool>,
}

/// Keeps the empty snapshot in force.
pub struct RoutingStop<'c>(&'c AtomicBool);

impl Drop for RoutingStop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Core {
    /// Logs a caller that was not let in; of many within a minute only the first.
    pub fn note_auth_failure(&self, client: IpAddr, why: &str) {
        lock(&self.auth_failures).warn(|| format!("auth failed for {client}: {why}"));
    }

    /// Returns the number of factory resets. Code that waits between reading and storing compares it.
    pub fn resets(&self) -> u64 {
        self.resets.load(Ordering::SeqCst)
    }

    /// Forgets what was learnt, for a factory reset. A new field does not compile until it is decided here.
    pub async fn forget_everything(&self) {
        let Self {
            live,
            rates,
            notifier,
            // Of the process and its configuration.
            config: _,
            client: _,
            instance: _,
            presence: _,
            background: _,
            metrics: _,
            started: _,
            resets: _,
            routing_stopped: _,
            restart: _,
            stopping: _,
            cutting: _,
            auth_failures: _,
            // Read from the database, which a reset reads again.
            settings: _,
            settings_changed: _,
            snapshot: _,
            keys: _,
            store: _,
            bootstrap: _,
            database: _,
            shared_cooldowns: _,
            instances: _,
            publishes: _,
            publishing: _,
            // Held by work under way, which gives them back.
            route_edits: _,
            token_edits: _,
            settings_edits: _,
            imports: _,
            key_edits: _,
            body_memory: _,
            leases: _,
            uploads: _,
            // Found by ids of rows, which are not used again, or by addresses and sessions at sites.
            affinity: _,
            site_memory: _,
        } = self;
        live.retain_prices(&HashSet::new());
        live.retain_limits(&HashSet::new());
        rates.clear();
        notifier.reset_cooldowns().await;
    }

    /// Counts a factory reset, before anything is deleted.
    pub fn begin_reset(&self) {
        self.resets.fetch_add(1, Ordering::SeqCst);
    }

    /// Keeps tokens, routes and settings unchanged until the guards are dropped.
    pub async fn lock_all_edits(&self) -> [MutexGuard<'_, ()>; 3] {
        [self.token_edits.lock().await, self.route_edits.lock().await, self.settings_edits.lock().await]
    }

    /// Routes no request until the guard is dropped and a snapshot is published.
    pub async fn stop_routing(&self) -> RoutingStop<'_> {
        let _turn = self.publishing.lock().await;
        self.routing_stopped.store(true, Ordering::SeqCst);
        self.snapshot.store(Arc::default());
        RoutingStop(&self.routing_stopped)
    }

    /// Requests that the service stops and starts again on the database that is now named. When this returns, no
    /// further connection is accepted before that. If a stop is already in progress, the next start is on that database
    /// anyway.
    pub async fn request_restart(&self) {
        self.restart.wanted.notify_one();
        // The sender lives as long as this.
        drop(self.restart.begun.subscribe().wait_for(|begun| *begun).await);
    }

    /// Waits until a new start is requested.
    pub async fn restart_requested(&self) {
        self.restart.wanted.notified().await;
    }

    /// Notifies all who requested it that no connection is accepted any more.
    pub fn confirm_restart(&self) {
        self.restart.begun.send_replace(true);
    }

    /// Whether the process is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Marks the process as stopping.
    pub fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the grace period is over and the remaining requests are cut off.
    pub fn is_cutting(&self) -> bool {
        self.cutting.load(Ordering::Relaxed)
    }

    /// Waits for work on a request, at the longest until the grace period of a stop is over; gives `None` then. The
    /// server wakes the handlers and streams that are open at that moment.
    pub async fn until_cut<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Pending if self.is_cutting() => Poll::Ready(None),
            polled => polled.map(Some),
        })
        .await
    }

    /// Marks the requests that end from now on as cut off by the stop.
    pub fn begin_cut(&self) {
        self.cutting.store(true, Ordering::Relaxed);
    }
}
