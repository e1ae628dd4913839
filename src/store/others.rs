//! Looking for what other instances on the database have changed.

use super::versions::{Scope, Version};
use super::{Result, Store};

/// What others have changed and this instance has not taken over.
pub async fn look(store: &Store) -> Result<Vec<Version>> {
    let rows = store.query("SELECT scope, version FROM cache_versions ORDER BY scope", Vec::new()).await?;
    let mut highest = Vec::new();
    for row in &rows {
        let mut row = row.fields();
        let (name, number) = (row.str()?, row.int()?);
        // A newer program may have more of them.
        highest.extend(Scope::parse(name).map(|scope| Version { scope, number }));
    }
    Ok(store.database().versions().behind(highest))
}
