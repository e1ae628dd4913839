//! What only jobs use, and the core below them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::announcement_turn::Announcements;
use super::backups::Backups;
use super::checkin::runs::Checkins;
use super::health_saver::Saver;
use super::models::runs::ModelRefresh;
use super::oauth::logins::Logins;
use super::oauth::renewals::FailedRenewals;
use super::price_lists::Prices;
use super::probe::busy::Probes;
use super::sessions::renewals::Renewals;
use super::tasks::{COPY, DRY_RUN, IMPORT, Notice, Tasks};
use super::usage_lookups::UsageLookup;
use crate::core::Core;
use crate::notify::Notifier;
use crate::store::Store;
use crate::store::events::{self, EventLevel, NewEvent};

/// The jobs: what they keep from one run to the next.
pub struct Jobs {
    pub core: Arc<Core>,
    pub tasks: Tasks,
    pub model_refresh: ModelRefresh,
    pub prices: Prices,
    /// Sessions and tokens that are being renewed.
    pub renewals: Renewals,
    /// Providers that failed to renew a token.
    pub failed_renewals: FailedRenewals,
    /// Logins in a browser.
    pub logins: Logins,
    pub checkins: Checkins,
    /// The backup on a server that is being written or read.
    pub backups: Backups,
    pub probes: Probes,
    pub announcements: Announcements,
    pub usage_lookup: UsageLookup,
    /// Keeps the health of sites over a restart.
    pub health_saver: Saver,
    /// Held by the look for updates under way: two would both take the same for new.
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
            announcements: Announcements::default(),
            usage_lookup: UsageLookup::default(),
            health_saver: Saver::default(),
            update_checks: tokio::sync::Mutex::default(),
            route_changes: AtomicU64::new(0),
        })
    }

    /// How many rebuilds have changed routes. Who keeps what was told of routes compares.
    pub fn route_changes(&self) -> u64 {
        self.route_changes.load(Ordering::SeqCst)
    }

    /// Counts a rebuild that has changed routes.
    pub(super) fn note_route_change(&self) {
        self.route_changes.fetch_add(1, Ordering::SeqCst);
    }
}

/// The kind of task whose result lists its failures site by site.
const QUIET_TASK: &str = "site-announcements-sync";

/// Every start and end of a task is an event that operators see; a failure is also sent, but for the tasks that fail
/// as a matter of course.
fn task_events(
    store: Store,
    notifier: Notifier,
) -> impl Fn(Notice) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync {
    move |notice| {
        let (store, notifier) = (store.clone(), notifier.clone());
        Box::pin(async move {
            if [IMPORT, DRY_RUN, COPY].contains(&notice.kind) {
                return;
            }
            let event = NewEvent {
                kind: "status",
                title: notice.title,
                message: Some(notice.message),
                level: if notice.failed { EventLevel::Error } else { EventLevel::Info },
                related_id: None,
                related_type: Some("task"),
            };
            if notice.failed && notice.kind != QUIET_TASK {
                notifier.send((&event).into());
            }
            if let Err(error) = events::insert(&store, event).await {
                log::warn!("the event of a task could not be stored: {error}");
            }
        })
    }
}
