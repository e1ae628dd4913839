//! What several instances on one database tell each other: that something they all hold in memory is another.
//!
//! ```text
//! change committed ─▶ in force here ─▶ version of its scope + 1 ─▶ answered     others look every second
//! ```
//!
//! An instance that dies between the change and its announcement leaves the others behind; so they read everything
//! anew from time to time even when nobody says anything.

use std::sync::atomic::{AtomicI64, Ordering};

use super::sql::{OnConflict, Statement, upsert};
use super::{Result, Store};

/// What is held in memory, in parts that change apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Sites, accounts, tokens, routes and channels.
    Routing,
    /// Downstream keys.
    Keys,
    Settings,
    /// The keys that credentials are sealed and found by.
    Keyring,
}

/// The keyring first: what the others read may be sealed with a key of it.
pub const SCOPES: [Scope; 4] = [Scope::Keyring, Scope::Routing, Scope::Keys, Scope::Settings];

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Self::Routing => "routing",
            Self::Keys => "keys",
            Self::Settings => "settings",
            Self::Keyring => "keyring",
        }
    }
}

/// What this instance knows of the versions in the database.
#[derive(Debug, Default)]
pub struct Versions {
    known: [AtomicI64; SCOPES.len()],
    /// Announcements of our own since the last look.
    own: [AtomicI64; SCOPES.len()],
}

impl Versions {
    /// Tells the others. Without an effect on a database that only this process has open.
    pub async fn announce(&self, store: &Store, scope: Scope) -> Result<()> {
        if !store.database().is_shared() {
            return Ok(());
        }
        let sql =
            upsert(store.database().dialect(), "cache_versions", &["scope"], &[("version", OnConflict::Add)]);
        let args = vec![scope.as_str().into(), 1.into()];
        store.batch(vec![Statement::new(sql, args).touching_nothing()]).await?;
        self.own[scope as usize].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The scopes in which others have changed something since the last look.
    pub async fn look(&self, store: &Store) -> Result<Vec<Scope>> {
        let mut changed = Vec::new();
        for row in &store.query("SELECT scope, version FROM cache_versions", Vec::new()).await? {
            let mut row = row.fields();
            let (name, version) = (row.str()?, row.int()?);
            let Some(scope) = SCOPES.into_iter().find(|scope| scope.as_str() == name) else { continue };
            let own = self.own[scope as usize].swap(0, Ordering::Relaxed);
            let before = self.known[scope as usize].swap(version, Ordering::Relaxed);
            if version != before + own {
                changed.push(scope);
            }
        }
        Ok(changed)
    }
}
