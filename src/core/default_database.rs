//! Returns to the SQLite file of the data directory, which is in use after a factory reset whatever database was in use
//! before.

use super::start::{named_address, store_options};
use super::state::Core;
use crate::config::{DatabaseKind, DatabaseTls};
use crate::store::relocate::DatabaseAddress;
use crate::store::{self, Error, Store, StoreOptions, next_database, reset};

impl Core {
    /// Has the next start use the default database, emptied like the present one: its contents from before another was
    /// chosen must not come back. Returns whether another database is in use until then.
    pub async fn return_to_default_database(&self, auth_token: &str) -> store::Result<bool> {
        let default = DatabaseAddress {
            kind: DatabaseKind::Sqlite,
            url: String::new(),
            tls: DatabaseTls { is_required: false, ..self.config.database.tls.clone() },
            data_dir: self.config.data_dir.clone(),
        };
        let is_other = self.database.kind != DatabaseKind::Sqlite || self.bootstrap.is_some();
        if !is_other {
            return Ok(false);
        }
        if let Some(bootstrap) = &self.bootstrap {
            reset::everything(bootstrap, auth_token).await?;
        }
        let mut emptied = None;
        let named = named_address(&self.config);
        if !named.is_same_place(&default) && !self.database.is_same_place(&default) {
            let options = StoreOptions {
                kind: default.kind,
                db_url: String::new(),
                tls: default.tls.clone(),
                ..store_options(&self.config)
            };
            let opened = tokio::task::spawn_blocking(move || Store::open(options)).await;
            let opened = opened.map_err(|error| Error::Database(error.to_string()))?;
            let store = opened.map_err(|error| Error::Database(format!("the default database: {error}")))?;
            reset::everything(&store, auth_token).await?;
            emptied = Some(store);
        }
        if !named.is_same_place(&default) {
            let store = self.bootstrap.as_ref().unwrap_or(&self.store);
            store.batch(next_database::save(store, &default)?).await?;
        }
        // Wiping takes its time, and a kill meanwhile must not leave the return undone.
        for store in self.bootstrap.iter().chain(&emptied) {
            reset::wipe(store).await?;
        }
        if let Some(store) = emptied {
            store.close().await;
        }
        Ok(true)
    }
}
