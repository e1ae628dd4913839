//! Detection of changes by other instances on the database.

use super::versions::{Scope, Version};
use super::{Result, Store};

/// How much of what other instances have stored is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Announced changes, and keys that have limits or were used recently.
    Recent,
    Everything,
}

/// Returns the changes by other instances that this instance has not taken over yet.
pub async fn look(store: &Store) -> Result<Vec<Version>> {
    let rows = store.query("SELECT scope, version FROM cache_versions ORDER BY scope", Vec::new()).await?;
    let mut highest = Vec::new();
    for row in &rows {
        let mut row = row.fields();
        let (name, number) = (row.str()?, row.int()?);
        // A newer release may have scopes that are unknown here.
        highest.extend(Scope::parse(name).map(|scope| Version { scope, number }));
    }
    Ok(store.database().versions().behind(highest))
}
