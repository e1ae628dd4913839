//! Puts committed changes in force.
//!
//! A change of configuration commits in the store, which records what it touched; then [`Core::publish`] builds the
//! next snapshot from the previous one and the touched rows, and swaps it in; then the caller answers: so an answered
//! change is in force. Changes that are committed while a snapshot is built share the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use super::state::Core;
use crate::config::Config;
use crate::ids::AccountId;
use crate::settings::Settings;
use crate::store::instance_changes::Extent;
use crate::store::versions::{SCOPES, Scope};
use crate::store::{self, Store, instance_changes, rekey, shared_key_usage};

impl Core {
    /// Updates the routing snapshot from the store. Call it after every committed change of sites, accounts, tokens,
    /// routes and channels, before answering.
    pub async fn publish(&self) -> store::Result<()> {
        self.publishes.run(|| self.publish_touched()).await
    }

    async fn publish_touched(&self) -> store::Result<()> {
        let mut source = self.publishing.lock().await;
        if self.routing_stopped.load(SeqCst) {
            // Whoever stopped it publishes afterwards.
            return Ok(());
        }
        if !Arc::ptr_eq(&self.snapshot.load(), source.snapshot()) {
            // A reset took the snapshot out of force.
            self.store.journal().note_everything();
        }
        rekey::follow_new(&self.store).await?;
        let changes = self.store.journal().take();
        let settings = self.settings.load_full();
        let system_proxy = settings.system_proxy_url.as_deref();
        let (store, live) = (&self.store, &self.live);
        let gone = source.follow(store, live, &changes.touched, system_proxy, settings.weights).await?;
        changes.settled();
        self.affinity.forget(&gone);
        let snapshot = source.snapshot().clone();
        self.snapshot.store(snapshot.clone());
        // Set afterwards: requests that this admits check the snapshot again.
        self.leases.set_limits(snapshot.site_limits());
        Ok(())
    }

    /// Updates the snapshot with another instance's possible changes of an account.
    pub async fn take_over_account(&self, id: AccountId) -> store::Result<()> {
        if !self.store.database().is_shared() {
            return Ok(());
        }
        self.store.journal().note_account(id);
        self.publishes.run(|| self.publish_touched()).await
    }

    /// Updates the downstream keys from the store. Call it after every committed change of one, before answering.
    pub async fn publish_keys(&self) -> store::Result<()> {
        let _turn = self.publishing.lock().await;
        rekey::follow_new(&self.store).await?;
        let keys = store::keys::load_table(&self.store, &self.keys.load()).await?;
        self.keys.store(Arc::new(keys));
        Ok(())
    }

    /// Puts saved settings in force. Call it after every committed change of a setting.
    pub async fn reload_settings(&self) -> store::Result<()> {
        let _turn = self.publishing.lock().await;
        rekey::follow_new(&self.store).await?;
        self.settings.store(Arc::new(load_settings(&self.config, &self.store).await?));
        self.settings_changed.send_replace(());
        Ok(())
    }

    /// Puts changes of other instances on this database in force. Returns what had changed.
    pub async fn follow_others(&self, extent: Extent) -> store::Result<Vec<Scope>> {
        let versions = self.store.database().versions();
        let changed = instance_changes::look(&self.store).await?;
        // Secrets that were read before the new key was known did not open.
        let reads_all =
            extent == Extent::Everything || changed.iter().any(|version| version.scope == Scope::Keyring);
        for scope in SCOPES {
            let version = changed.iter().find(|version| version.scope == scope);
            if !reads_all && version.is_none() {
                continue;
            }
            match scope {
                Scope::Routing => {
                    self.store.journal().note_everything();
                    self.publish().await?;
                }
                Scope::Keys => self.publish_keys().await?,
                Scope::Settings => self.reload_settings().await?,
                Scope::Keyring => rekey::follow(&self.store).await?,
            }
            if let Some(version) = version {
                versions.taken_over(*version);
            }
        }
        Ok(changed.into_iter().map(|version| version.scope).collect())
    }

    /// Takes over what other instances have recorded about channels and the usage of keys.
    pub async fn follow_use(&self, extent: Extent) -> store::Result<()> {
        self.shared_cooldowns.follow(&self.store, &self.live).await?;
        shared_key_usage::follow(&self.store, &self.keys.load_full(), extent).await
    }
}

/// Loads the saved settings over the configuration.
pub(super) async fn load_settings(config: &Config, store: &Store) -> store::Result<Settings> {
    let saved = store::settings::all(store).await?;
    let saved = saved.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
    Ok(Settings::new(config, &saved))
}
