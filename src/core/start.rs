//! Builds the [`Core`] from a configuration, and stops it.
//!
//! ```text
//! store ─▶ settings ─▶ live state ─▶ snapshot ─▶ keys        client ─▶ notices
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use tokio::sync::{Mutex, watch};

use super::presence::{self, Presence};
use super::publish::load_settings;
use super::state::Core;
use crate::background::Background;
use crate::config::{Config, PLACEHOLDER_AUTH_TOKEN};
use crate::exit_code;
use crate::flight::Coalesced;
use crate::keys::KeyTable;
use crate::limits::{BodyMemory, RateLimiter, SiteLeases};
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::routing::health::saved;
use crate::routing::{Affinity, LiveTable};
use crate::store::relocate::{self, DatabaseAddress};
use crate::store::shared_cooldowns::SharedCooldowns;
use crate::store::snapshot::Source;
use crate::store::{
    self, OpenError, Store, StoreOptions, instance_changes, instances, leases, next_database, reset,
    site_addresses,
};
use crate::time::now_ms;
use crate::upstream::{Client, ClientOptions, roots_from_pem};

/// The reason why the service did not start: a message for the operator, and the exit code.
#[derive(Debug)]
pub struct StartError {
    pub message: String,
    pub exit_code: u8,
}

// === impl StartError ===

impl StartError {
    fn failed(message: String) -> Self {
        Self { message, exit_code: exit_code::OTHER }
    }

    /// Builds the error of a store that was opened and cannot be read.
    fn unreadable(error: store::Error) -> Self {
        Self::failed(format!("reading the store: {error}"))
    }
}

/// Reads the further certificate authorities that are trusted.
fn extra_roots(config: &Config) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let Some(path) = &config.extra_roots_file else { return Ok(Vec::new()) };
    let read = std::fs::read(path).map_err(|error| error.to_string()).and_then(|pem| roots_from_pem(&pem));
    read.map_err(|error| {
        let message = format!("SSL_CERT_FILE: {}: {error}", path.display());
        StartError { message, exit_code: exit_code::CONFIGURATION }
    })
}

/// Removes secrets that a reset or a former release has left in the database. A failure does not stop the start.
async fn remove_left_secrets(store: &Store, bootstrap: Option<&Store>) {
    for opened in bootstrap.into_iter().chain([store]) {
        if let Err(error) = reset::wipe_if_due(opened).await {
            log::error!(
                "rows deleted by a reset may still be readable in the files of the database: {error}"
            );
        }
    }
    if let Err(error) = site_addresses::drop_user_info(store).await {
        log::error!("passwords may still be in the addresses of sites: {error}");
    }
}

/// Where a server keeps the data, joins the other instances that use it.
async fn join_others(store: &Store, config: &Config, instance: &str) -> store::Result<Option<Presence>> {
    if !store.database().is_shared() {
        return Ok(None);
    }
    presence::release_dead_processes(store, &config.data_dir).await?;
    let presence = Presence::of(&config.data_dir, instance);
    // Changes that arrive after this are read again later.
    let versions = store.database().versions();
    let there = instance_changes::look(store).await?;
    there.into_iter().for_each(|version| versions.taken_over(version));
    Ok(presence)
}

impl Core {
    /// Opens the store and builds everything on it.
    pub async fn start(config: impl Into<Arc<Config>>) -> Result<Arc<Self>, StartError> {
        let config = config.into();
        let extra_roots = extra_roots(&config)?;
        let OpenedStore { store, bootstrap, database } = open_store(&config).await?;
        remove_left_secrets(&store, bootstrap.as_ref()).await;
        let instance = crate::uuid::v4();
        let presence = join_others(&store, &config, &instance).await.map_err(StartError::unreadable)?;
        let settings = load_settings(&config, &store).await.map_err(StartError::unreadable)?;
        let live = LiveTable::default();
        let saved_health =
            store::settings::get(&store, saved::SETTING).await.map_err(StartError::unreadable)?;
        live.restore_health(saved_health.as_deref().unwrap_or_default());
        let source = Source::load(&store, &live, settings.system_proxy_url.as_deref(), settings.weights)
            .await
            .map_err(StartError::unreadable)?;
        let snapshot = source.snapshot().clone();
        let keys =
            store::keys::load_table(&store, &KeyTable::default()).await.map_err(StartError::unreadable)?;
        let leases = SiteLeases::new(config.proxy.site_leases);
        leases.set_limits(snapshot.site_limits());
        let client = Arc::new(Client::new(ClientOptions { extra_roots, ..ClientOptions::default() }));
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let notifier = Notifier::new(client.clone(), settings.clone(), store.clone(), &config);
        notifier.restore_cooldowns().await.map_err(StartError::unreadable)?;
        Ok(Arc::new(Self {
            settings,
            settings_changed: watch::Sender::new(()),
            snapshot: ArcSwap::new(snapshot),
            keys: ArcSwap::from_pointee(keys),
            live,
            store,
            bootstrap,
            database,
            shared_cooldowns: SharedCooldowns::default(),
            instance,
            presence,
            instances: ArcSwap::default(),
            client,
            site_memory: Arc::default(),
            notifier,
            background: Arc::new(Background::default()),
            route_edits: Mutex::new(()),
            token_edits: Mutex::new(()),
            settings_edits: Mutex::new(()),
            imports: Mutex::new(()),
            key_edits: Mutex::new(()),
            rates: RateLimiter::new(config.rate_limits),
            body_memory: BodyMemory::new(config.request_body_memory),
            auth_failures: std::sync::Mutex::default(),
            leases,
            affinity: Affinity::default(),
            uploads: Arc::default(),
            metrics: Metrics::new(config.metrics_max_series),
            started: now_ms(),
            resets: AtomicU64::new(0),
            restart: Default::default(),
            stopping: AtomicBool::new(false),
            cutting: AtomicBool::new(false),
            publishes: Coalesced::default(),
            routing_stopped: AtomicBool::new(false),
            publishing: Mutex::new(source),
            config,
        }))
    }

    /// Closes the store after committing everything that was handed to it.
    pub async fn stop(&self) {
        self.leave().await;
        self.close().await;
    }

    /// Commits everything that was handed to the store, and gives back what this instance holds in its database.
    pub async fn leave(&self) {
        self.store.flush().await;
        if self.store.database().is_shared() {
            let left = async {
                leases::give_back(&self.store, &self.instance).await?;
                instances::leave(&self.store, &self.instance).await
            };
            match (left.await, &self.presence) {
                (Ok(()), Some(presence)) => presence.end(),
                (Ok(()), None) => {}
                (Err(error), _) => {
                    log::warn!("the leases of jobs could not be released and last until they expire: {error}")
                }
            }
        }
    }

    /// Closes the store.
    pub async fn close(&self) {
        let bootstrap = async {
            if let Some(bootstrap) = &self.bootstrap {
                bootstrap.close().await;
            }
        };
        tokio::join!(self.store.close(), bootstrap);
    }
}

/// The opened store and where it came from.
struct OpenedStore {
    store: Store,
    bootstrap: Option<Store>,
    database: DatabaseAddress,
}

/// Opens the database that the environment names, and from there the one that an operator has saved.
async fn open_store(config: &Config) -> Result<OpenedStore, StartError> {
    let named = named_address(config);
    let options = store_options(config);
    let store = open(options).await?;
    let saved = next_database::saved(&store, &config.data_dir, &config.database.tls)
        .await
        .map_err(StartError::unreadable)?;
    let Some(saved) = saved.filter(|saved| !saved.is_same_place(&named)) else {
        return Ok(OpenedStore { store, bootstrap: None, database: named });
    };
    let opened = match relocate::require_file(&saved) {
        Ok(()) => open(saved.options(store_options(config))).await,
        Err(error) => Err(refused(&error)),
    };
    match opened {
        Ok(other) => {
            log::info!("the database that was saved in the settings is used: {}", saved.masked());
            Ok(OpenedStore { store: other, bootstrap: Some(store), database: saved })
        }
        Err(error) if config.database.falls_back => {
            log::error!(
                "DB_FALLBACK_TO_ENV: the database that was saved in the settings cannot be opened and is \
                 not used: {}",
                error.message
            );
            Ok(OpenedStore { store, bootstrap: None, database: named })
        }
        Err(error) => Err(StartError {
            message: format!(
                "{}. This database was saved in the settings; to start on the one that the environment \
                 names, set DB_FALLBACK_TO_ENV=true",
                error.message
            ),
            ..error
        }),
    }
}

async fn open(options: StoreOptions) -> Result<Store, StartError> {
    tokio::task::spawn_blocking(move || Store::open(options))
        .await
        .map_err(|error| StartError::failed(format!("opening the store: {error}")))?
        .map_err(|error| refused(&error))
}

fn refused(error: &OpenError) -> StartError {
    StartError { exit_code: error.exit_code(), message: error.to_string() }
}

/// Returns the database that the environment names.
pub fn named_address(config: &Config) -> DatabaseAddress {
    DatabaseAddress {
        kind: config.database.kind,
        url: config.database.url.clone(),
        tls: config.database.tls.clone(),
        data_dir: config.data_dir.clone(),
    }
}

/// Returns the options for opening the store of this configuration.
pub fn store_options(config: &Config) -> StoreOptions {
    // While no secret was set, the AUTH_TOKEN was used, and without that the built-in one.
    let formerly = [config.auth_token.clone(), PLACEHOLDER_AUTH_TOKEN.to_owned()];
    StoreOptions {
        kind: config.database.kind,
        db_url: config.database.url.clone(),
        tls: config.database.tls.clone(),
        previous_secrets: config.credential_secret_previous.iter().cloned().chain(formerly).collect(),
        secret_lost: config.credential_secret_lost,
        synchronous: config.database.synchronous,
        time_zone: config.time_zone.clone(),
        ..StoreOptions::in_dir(&config.data_dir, config.credential_secret.clone())
    }
}
