//! The state that only jobs use, with the core below them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::backups::Backups;
use super::checkin::runs::Checkins;
use super::health_saver::Saver;
use super::lookup_queue::LookupQueue;
use super::models::runs::ModelRefresh;
use super::oauth::logins::Logins;
use super::oauth::renewals::FailedRenewals;
use super::price_lists::Prices;
use super::probe::busy::Probes;
use super::sessions::renewals::Renewals;
use super::tasks::{TaskEvents, TaskReport, Tasks};
use crate::background::BoxedWork;
use crate::core::Core;
use crate::notify::Notifier;
use crate::store::Store;
use crate::store::events::{self, EventLevel, NewEvent};

/// The jobs: the state that they keep from one run to the next.
pub struct Jobs {
    pub core: Arc<Core>,
    pub tasks: Tasks,
    pub model_refresh: ModelRefresh,
    pub prices: Prices,
    /// The sessions and tokens that are being renewed.
    pub renewals: Renewals,
    /// The failed renewals of tokens.
    pub failed_renewals: FailedRenewals,
    /// The logins in a browser.
    pub logins: Logins,
    pub checkins: Checkins,
    /// The lock of the backup on a WebDAV server.
    pub backups: Backups,
    pub probes: Probes,
    /// Held by the pass over the announcements of sites: two passes would both take the same announcement for new.
    pub announcement_passes: tokio::sync::Mutex<()>,
    pub lookups: LookupQueue,
    /// The signal that saves the health of sites.
    pub health_saver: Saver,
    /// Held by the update check under way: two checks would both take the same version for new.
    pub update_checks: tokio::sync::Mutex<()>,
    route_changes: AtomicU64,
}

impl Jobs {
    pub fn new(core: &Arc<Core>) -> Arc<Self> {
        let listener = task_events(core.store.clone(), core.notifier.clone());
        Arc::new(Self {
            core: core.clone(),
            tasks: Tasks::new(core.background.clone(), listener),
            model_refresh: ModelRefresh::default(),
            prices: Prices::default(),
            renewals: Renewals::default(),
            failed_renewals: FailedRenewals::default(),
            logins: Logins::default(),
            checkins: Checkins::default(),
            backups: Backups::default(),
            probes: Probes::default(),
            announcement_passes: tokio::sync::Mutex::default(),
            lookups: LookupQueue::default(),
            health_saver: Saver::default(),
            update_checks: tokio::sync::Mutex::default(),
            route_changes: AtomicU64::new(0),
        })
    }

    /// Forgets what was learnt, for a factory reset. A new field does not compile until it is decided here.
    pub fn forget_everything(&self) {
        let Self {
            logins,
            core: _,
            // Found by ids of rows, which are not used again.
            prices: _,
            renewals: _,
            failed_renewals: _,
            checkins: _,
            probes: _,
            // Runs and their locks; a reset stops all tasks first.
            tasks: _,
            model_refresh: _,
            backups: _,
            announcement_passes: _,
            lookups: _,
            health_saver: _,
            update_checks: _,
            // Only compared with itself.
            route_changes: _,
        } = self;
        logins.clear();
    }

    /// Returns the number of rebuilds that have changed routes. A cache of answers about routes compares it.
    pub fn route_changes(&self) -> u64 {
        self.route_changes.load(Ordering::SeqCst)
    }

    /// Counts a rebuild that has changed routes.
    pub(super) fn note_route_change(&self) {
        self.route_changes.fetch_add(1, Ordering::SeqCst);
    }
}

/// Builds the listener of tasks. It stores the start and the end of a task as events that operators see and sends failures,
/// as far as the task's [`TaskEvents`] say so.
fn task_events(store: Store, notifier: Notifier) -> impl Fn(TaskReport) -> BoxedWork<()> + Send + Sync {
    move |report| {
        let (store, notifier) = (store.clone(), notifier.clone());
        Box::pin(async move {
            if report.events == TaskEvents::None {
                return;
            }
            let event = NewEvent {
                kind: "status",
                title: report.title,
                message: Some(report.message),
                level: if report.failed { EventLevel::Error } else { EventLevel::Info },
                related_id: None,
                related_type: Some("task"),
            };
            if report.failed && report.events == TaskEvents::Sent {
                notifier.send((&event).into());
            }
            if let Err(error) = events::insert(&store, event).await {
                log::warn!("the event of a task could not be stored: {error}");
            }
        })
    }
}
