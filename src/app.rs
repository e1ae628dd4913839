//! The parts of the service, built in order and handed to every handler.
//!
//! ```text
//! store ─▶ settings ─▶ live state ─▶ snapshot        client   tasks   guards   metrics
//! ```
//!
//! A change of configuration commits in the store, which notes what it touched; then [`App::publish`] makes
//! the next snapshot of the one before and the rows that were touched, and swaps it in; then the caller answers:
//! so an answered change is in force. Changes that are committed while a snapshot is made share the next one.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, watch};

use crate::admin::accounts::ListCache;
use crate::admin::decisions::DecisionCache;
use crate::admin::marketplace::MarketplaceCache;
use crate::admin::playground::Jobs as Playground;
use crate::admin::stats_cache::StatsCache;
use crate::background::Background;
use crate::config::Config;
use crate::http::Endpoint;
use crate::jobs::announcements::Announcements;
use crate::jobs::checkin::Checkins;
use crate::jobs::flight::Coalesced;
use crate::jobs::health;
use crate::jobs::model_refresh::ModelRefresh;
use crate::jobs::prices::Prices;
use crate::jobs::probe::Probes;
use crate::jobs::quotas;
use crate::jobs::renewal::Renewals;
use crate::jobs::tasks::{Notice, Tasks};
use crate::jobs::usage_lookup::UsageLookup;
use crate::keys::KeyTable;
use crate::limits::{Conversions, Guards, RateLimiter, SessionLeases, SiteLeases};
use crate::logging::Complaint;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::routing::health::saved;
use crate::routing::{Affinity, Channel, LiveTable, Snapshot};
use crate::settings::Settings;
use crate::store::events::{EventLevel, NewEvent};
use crate::store::snapshot::Source;
use crate::store::uploads::Uploads;
use crate::store::{self, Store, StoreOptions};
use crate::sync::lock;
use crate::time::{Millis, now_ms};
use crate::upstream::platforms::SiteMemory;
use crate::upstream::{Client, ClientOptions, roots_from_pem};

/// Everything that handlers and jobs work with.
pub struct App {
    pub config: Config,
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
    /// Keeps the health of sites over a restart.
    pub health_saver: health::Saver,
    pub store: Store,
    pub client: Arc<Client>,
    /// What management calls have learnt of sites and sessions.
    pub site_memory: Arc<SiteMemory>,
    /// The way to the operator.
    pub notifier: Notifier,
    pub tasks: Tasks,
    pub background: Arc<Background>,
    pub model_refresh: ModelRefresh,
    pub prices: Prices,
    /// Sessions that are being renewed.
    pub renewals: Renewals,
    pub checkins: Checkins,
    pub probes: Probes,
    pub announcements: Announcements,
    pub usage_lookup: UsageLookup,
    /// Held from reading the routes to committing what follows from them: edits by hand and rebuilds
    /// take turns, so that neither is decided on rows that the other has changed.
    pub route_edits: Mutex<()>,
    /// Held from reading an account's token rows to committing their change.
    pub token_edits: Mutex<()>,
    /// Held from reading the settings to committing a change of some of them. Who needs both locks takes
    /// `route_edits` first.
    pub settings_edits: Mutex<()>,
    /// Held from looking whether a key of the store is being replaced to beginning it.
    pub key_edits: Mutex<()>,
    /// Held from looking for the account of a login to storing it: one name at a site has one.
    pub account_logins: Mutex<()>,
    pub guards: Guards,
    pub rates: RateLimiter,
    /// Counts callers that were not let in.
    auth_failures: std::sync::Mutex<Complaint>,
    /// Who is at which upstream site right now.
    pub leases: SiteLeases,
    /// Large bodies on their way from one dialect to another.
    pub conversions: Conversions,
    /// Which dialects sites have refused.
    pub formats: crate::proxy::FormatMemory,
    /// Which sites have refused a key for the cache of a prompt.
    pub cache_keys: crate::proxy::CacheKeyMemory,
    /// Files on their way in.
    pub uploads: Arc<Uploads>,
    /// Answers that clients may refer to and no upstream keeps.
    pub stored_responses: Arc<crate::proxy::ResponseStore>,
    /// Whose the answers are that upstreams store.
    pub response_owners: crate::proxy::ResponseOwners,
    /// Signatures of calls that clients cannot carry.
    pub call_signatures: Arc<crate::proxy::CallSignatures>,
    /// Which sessions are at work on which channel right now.
    pub session_leases: SessionLeases,
    /// Which channel served which conversation last.
    pub affinity: Affinity,
    pub metrics: Metrics,
    /// The account list as last made.
    pub accounts_list: ListCache,
    /// The models on offer as last gathered.
    pub marketplace: MarketplaceCache,
    /// Statistics as last made.
    pub stats: StatsCache,
    /// The explanations last asked to be kept with their routes.
    pub decisions: DecisionCache,
    /// Requests to the proxy that operators sent as jobs, to look at later.
    pub playground: Playground,
    /// What is asked for where, over all routes.
    pub endpoints: Vec<Endpoint>,
    /// When the process began to serve.
    pub started: Millis,
    resets: AtomicU64,
    stopping: AtomicBool,
    cutting: AtomicBool,
    /// Who changes something while a snapshot is made waits for the next, with all others.
    publishes: Coalesced<store::Result<()>>,
    /// What the snapshot was made of. Held while the next is made, so that an older one never replaces a newer.
    publishing: Mutex<Source>,
}

/// Why the service did not start: what to tell the operator, and the exit status.
#[derive(Debug)]
pub struct StartError {
    pub message: String,
    pub exit_code: u8,
}

impl App {
    /// Opens the store and builds everything on it.
    pub async fn start(config: Config) -> Result<Arc<Self>, StartError> {
        let fail = |message: String| StartError { message, exit_code: 1 };
        let unconfigured = |message: String| StartError { message, exit_code: 78 };
        let extra_roots = match &config.extra_roots_file {
            None => Vec::new(),
            Some(path) => std::fs::read(path)
                .map_err(|error| error.to_string())
                .and_then(|pem| roots_from_pem(&pem))
                .map_err(|error| unconfigured(format!("SSL_CERT_FILE: {}: {error}", path.display())))?,
        };
        let options = store_options(&config);
        let store = tokio::task::spawn_blocking(move || Store::open(options))
            .await
            .map_err(|error| fail(format!("opening the store: {error}")))?
            .map_err(|error| StartError { exit_code: error.exit_code(), message: error.to_string() })?;
        let unreadable = |error: store::Error| fail(format!("reading the store: {error}"));
        let settings = load_settings(&config, &store).await.map_err(unreadable)?;
        let live = LiveTable::default();
        let saved_health = store::settings::get(&store, saved::SETTING).await.map_err(unreadable)?;
        live.restore_health(saved_health.as_deref().unwrap_or_default());
        let source = Source::load(&store, &live, settings.system_proxy_url.as_deref(), settings.weights)
            .await
            .map_err(unreadable)?;
        let snapshot = source.snapshot().clone();
        let keys = store::keys::load_table(&store, &KeyTable::default()).await.map_err(unreadable)?;
        let leases = SiteLeases::new(config.proxy.site_leases);
        leases.set_limits(snapshot.site_limits());
        let background = Arc::new(Background::default());
        let client = Arc::new(Client::new(ClientOptions { extra_roots, ..ClientOptions::default() }));
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let notifier = Notifier::new(client.clone(), settings.clone(), store.clone(), &config);
        notifier.restore_cooldowns().await.map_err(unreadable)?;
        Ok(Arc::new(Self {
            settings,
            settings_changed: watch::Sender::new(()),
            snapshot: ArcSwap::new(snapshot),
            keys: ArcSwap::from_pointee(keys),
            live,
            health_saver: health::Saver::default(),
            client,
            site_memory: Arc::default(),
            tasks: Tasks::new(background.clone(), task_events(store.clone(), notifier.clone())),
            notifier,
            background,
            store,
            model_refresh: ModelRefresh::default(),
            prices: Prices::default(),
            renewals: Renewals::default(),
            checkins: Checkins::default(),
            probes: Probes::default(),
            announcements: Announcements::default(),
            usage_lookup: UsageLookup::default(),
            route_edits: Mutex::new(()),
            token_edits: Mutex::new(()),
            settings_edits: Mutex::new(()),
            key_edits: Mutex::new(()),
            account_logins: Mutex::new(()),
            guards: Guards::default(),
            rates: RateLimiter::new(config.rate_limits),
            auth_failures: std::sync::Mutex::default(),
            leases,
            conversions: Conversions::new(config.proxy.conversion_memory),
            formats: crate::proxy::FormatMemory::default(),
            cache_keys: crate::proxy::CacheKeyMemory::default(),
            uploads: Arc::default(),
            stored_responses: Arc::default(),
            response_owners: Default::default(),
            call_signatures: Arc::default(),
            session_leases: SessionLeases::default(),
            affinity: Affinity::default(),
            metrics: Metrics::default(),
            accounts_list: ListCache::default(),
            marketplace: MarketplaceCache::default(),
            stats: StatsCache::default(),
            decisions: DecisionCache::default(),
            playground: Playground::default(),
            endpoints: crate::admin::routes()
                .iter()
                .chain(&crate::proxy::routes())
                .map(|route| route.endpoint().clone())
                .collect(),
            started: now_ms(),
            resets: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            cutting: AtomicBool::new(false),
            publishes: Coalesced::default(),
            publishing: Mutex::new(source),
            config,
        }))
    }

    /// Routes by what the store now says. Call it after every committed change of sites, accounts,
    /// tokens, routes and channels, before answering.
    pub async fn publish(&self) -> store::Result<()> {
        self.publishes.run(|| self.publish_touched()).await
    }

    async fn publish_touched(&self) -> store::Result<()> {
        let mut source = self.publishing.lock().await;
        if !Arc::ptr_eq(&self.snapshot.load(), source.snapshot()) {
            // A reset took the snapshot out of force.
            self.store.journal().note_everything();
        }
        let changes = self.store.journal().take();
        let settings = self.settings.load_full();
        let system_proxy = settings.system_proxy_url.as_deref();
        let (store, live) = (&self.store, &self.live);
        let gone = source.follow(store, live, &changes.touched, system_proxy, settings.weights).await?;
        changes.settled();
        self.affinity.forget(&gone);
        let snapshot = source.snapshot().clone();
        self.snapshot.store(snapshot.clone());
        // After it: those whom this admits look at the snapshot once more.
        self.leases.set_limits(snapshot.site_limits());
        Ok(())
    }

    /// Lets in by what the store now says of downstream keys. Call it after every committed change of
    /// one, before answering.
    pub async fn publish_keys(&self) -> store::Result<()> {
        let _turn = self.publishing.lock().await;
        let keys = store::keys::load_table(&self.store, &self.keys.load()).await?;
        self.keys.store(Arc::new(keys));
        Ok(())
    }

    /// Puts saved settings in force. Call it after every committed change of a setting.
    pub async fn reload_settings(&self) -> store::Result<()> {
        let _turn = self.publishing.lock().await;
        self.settings.store(Arc::new(load_settings(&self.config, &self.store).await?));
        self.settings_changed.send_replace(());
        Ok(())
    }

    /// What the conversations under way on a channel leave of its share.
    pub fn load_of(&self, channel: &Channel) -> f64 {
        if !channel.account.session_scoped {
            return 1.0;
        }
        let limit = self.settings.load().session_leases.limit;
        self.session_leases.load(channel.id, limit).multiplier()
    }

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

    /// Ends background work and closes the store, everything handed to it committed.
    pub async fn stop(&self) {
        tokio::join!(self.renewals.drain(), self.checkins.drain());
        self.background.stop().await;
        self.notifier.stop().await;
        if let Err(error) = quotas::give_back_all(self).await {
            log::warn!("reserved requests of downstream keys stay counted: {error}");
        }
        if let Err(error) = health::save(self).await {
            log::warn!("the health of sites is not kept: {error}");
        }
        self.store.flush().await;
        self.store.close().await;
    }
}

fn store_options(config: &Config) -> StoreOptions {
    StoreOptions {
        kind: config.database.kind,
        db_url: config.database.url.clone(),
        previous_secrets: config.credential_secret_previous.clone(),
        secret_lost: config.credential_secret_lost,
        synchronous: config.database.synchronous,
        time_zone: config.time_zone.clone(),
        ..StoreOptions::in_dir(&config.data_dir, config.credential_secret.clone())
    }
}

async fn load_settings(config: &Config, store: &Store) -> store::Result<Settings> {
    let saved = store::settings::all(store).await?;
    let saved = saved.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
    Ok(Settings::new(config, &saved))
}

/// The kind of task whose result lists its failures site by site.
const QUIET_TASK: &str = "site-announcements-sync";

/// Every start and end of a task is an event that operators see; a failure is also
/// sent, but for the tasks that fail as a matter of course.
fn task_events(
    store: Store,
    notifier: Notifier,
) -> impl Fn(Notice) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync {
    move |notice| {
        let (store, notifier) = (store.clone(), notifier.clone());
        Box::pin(async move {
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
            if let Err(error) = store::events::insert(&store, event).await {
                log::warn!("the event of a task could not be stored: {error}");
            }
        })
    }
}
