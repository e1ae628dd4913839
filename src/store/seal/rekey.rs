//! Replacing a key of the database while the service runs.
//!
//! ```text
//! replace ─▶ new row `active`, the former one `retired`, one commit; from here on writes use the new key
//! finish  ─▶ the former key's values are sealed or hashed again, 200 rows a transaction, each only if unchanged meanwhile
//!         ─▶ the retired key is deleted once nothing uses it
//! ```
//!
//! If the process ends in between, the retired keys show that there is something to finish, and open what they
//! sealed until it is done. A value that does not open stays as it is, and keeps its seal key.
//!
//! A write that was under way when its key was retired loses nothing. A sealed text holds a claim on its key
//! until the writer is done with it ([`super::sealed`]); while there is a claim, the key is not deleted.
//! Look-up hashes are stored in turns ([`super::sealer::Hashing`]), and the index key changes between two of
//! them.

use std::time::Duration;

use super::columns::{COLUMNS, Column};
use super::sealer::{Purpose, StoredKey};
use crate::store::sql::{Statement, Value};
use crate::store::{Result, Store, instances, settings};
use crate::time::{DAY, Millis, now_ms};

/// The number of rows per transaction.
const BATCH: usize = 200;
/// How long writes under way may take to reach the database. They take milliseconds; after a longer one the
/// retired key stays until the next start, when nothing is under way.
const SETTLING: Duration = Duration::from_secs(30);
/// How long a retired key is kept while there are other instances, in milliseconds.
const KEPT_MS: Millis = DAY;

/// The result of finishing the replacement of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// The id of the key that is now in use.
    pub active: i64,
    /// The number of values sealed again or hashes renewed.
    pub renewed: u64,
    /// The number of values that do not open, which stay as they are.
    pub unreadable: u64,
    /// The number of retired keys that were deleted.
    pub deleted: u64,
    /// The number of retired keys that are still needed.
    pub kept: u64,
}

/// A callback that is called after each batch with the number of values renewed so far.
pub type Tell<'a> = &'a (dyn Fn(u64) + Send + Sync);

/// Creates a new key and uses it from now on; returns its id. [`finish`] does the rest. Fails with
/// [`Error::NotFound`](crate::store::Error::NotFound) when another caller has just replaced the same key.
pub async fn replace(store: &Store, purpose: Purpose) -> Result<i64> {
    let sealer = store.sealer();
    // Two rows with the same value would get different hashes if one were hashed before the change and the
    // other after.
    let _pause = match purpose {
        Purpose::Index => Some(sealer.pause_hashing().await),
        Purpose::Seal => None,
    };
    // Waits for the first start's keys, which the writer stores before anything else.
    store.batch(Vec::new()).await?;
    // The newest key is never deleted before there is a newer one, so that no id is used twice.
    let newest = store.row("SELECT MAX(id) FROM crypto_keys", Vec::new(), |row| row.int()).await?;
    let new = sealer.make(purpose, newest.unwrap_or_default() + 1)?;
    let retire = Statement::new(
        "UPDATE crypto_keys SET status = 'retired' WHERE id = ? AND status = 'active'",
        vec![sealer.active(purpose).into()],
    );
    let insert = Statement::new(
        "INSERT INTO crypto_keys (id, purpose, wrapped, status, created_at) VALUES (?, ?, ?, 'active', ?)",
        vec![new.id.into(), purpose.as_str().into(), new.wrapped.as_str().into(), now_ms().into()],
    );
    store.batch(vec![retire.must_change(), insert]).await?;
    sealer.adopt(&new);
    Ok(new.id)
}

/// Takes over keys that another instance on the database has created, retired or deleted.
pub async fn follow(store: &Store) -> Result<()> {
    let stored: Vec<StoredKey> = store.rows(StoredKey::SELECT, Vec::new(), StoredKey::read).await?;
    let sealer = store.sealer();
    // Ensures that no hash is between being made with the former key and being stored.
    let _pause = sealer.pause_hashing().await;
    sealer.follow(&stored)
}

/// Takes over keys like [`follow`], but only when there is a key that is unknown here. Call it before reading
/// rows that another instance may have just sealed again.
pub async fn follow_new(store: &Store) -> Result<()> {
    if !store.database().is_shared() {
        return Ok(());
    }
    let sql = "SELECT MAX(id) FROM crypto_keys";
    let newest = store.row(sql, Vec::new(), |row| row.opt_int()).await?.flatten();
    let known = [Purpose::Seal, Purpose::Index].map(|purpose| store.sealer().active(purpose));
    if newest.is_some_and(|newest| !known.iter().any(|id| *id >= newest)) {
        follow(store).await
    } else {
        Ok(())
    }
}

/// Whether a retired key may be deleted. Another instance that does not know the new key yet, or is cut off,
/// would go on sealing with the retired one: while there are other instances it is kept for a day.
async fn may_be_deleted(store: &Store, purpose: Purpose) -> Result<bool> {
    if !store.database().is_shared() || instances::count(store).await? < 2 {
        return Ok(true);
    }
    let sql = "SELECT MAX(created_at) FROM crypto_keys WHERE purpose = ? AND status = 'active'";
    let since = store.row(sql, vec![purpose.as_str().into()], |row| row.opt_int()).await?.flatten();
    Ok(since.is_none_or(|since| now_ms() - since >= KEPT_MS))
}

/// Whether there are retired keys of this purpose for [`finish`].
pub fn is_unfinished(store: &Store, purpose: Purpose) -> bool {
    !store.sealer().retired(purpose).is_empty()
}

/// Renews what the retired keys of this purpose sealed or hashed, and deletes the keys.
pub async fn finish(store: &Store, purpose: Purpose, tell: Tell<'_>) -> Result<Finished> {
    match purpose {
        Purpose::Seal => reseal(store, tell).await,
        Purpose::Index => rehash(store, tell).await,
    }
}

// === Sealed values ===

async fn reseal(store: &Store, tell: Tell<'_>) -> Result<Finished> {
    let sealer = store.sealer();
    let retired = sealer.retired(Purpose::Seal);
    sealer.settle(SETTLING).await;
    let mut count = Count { tell, renewed: 0, unreadable: 0 };
    for &Column { table, name, .. } in COLUMNS {
        reseal_column(store, table, name, &mut count).await?;
    }
    reseal_settings(store, &mut count).await?;
    let mut deleted = Vec::new();
    let may_be_deleted = may_be_deleted(store, Purpose::Seal).await?;
    for &id in retired.iter().filter(|&&id| may_be_deleted && sealer.is_settled(id)) {
        // The claims are settled: a value that this statement does not see is sealed with a newer key.
        if store.batch(vec![delete_unused(id)]).await?[0].rows > 0 {
            deleted.push(id);
        }
    }
    sealer.forget(&deleted);
    Ok(count.finished(sealer.active(Purpose::Seal), retired.len(), deleted.len()))
}

async fn reseal_column(store: &Store, table: &str, column: &str, count: &mut Count<'_>) -> Result<()> {
    let mut after = 0;
    loop {
        let active = store.sealer().active(Purpose::Seal);
        let sql = format!(
            "SELECT id, {column} FROM {table} WHERE id > ? AND {column} LIKE 'enc:2:%' \
             AND {column} NOT LIKE 'enc:2:{active}:%' ORDER BY id LIMIT {BATCH}"
        );
        let rows = store.query(sql, vec![after.into()]).await?;
        let mut batch = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut row = row.fields();
            let (id, stored) = (row.int()?, row.str()?);
            after = id;
            let Some(sealed) = sealed_anew(store, table, column, stored, id, count)? else { continue };
            let sql = format!("UPDATE {table} SET {column} = ? WHERE id = ? AND {column} = ?");
            batch.push(Statement::new(sql, vec![sealed, id.into(), stored.into()]).touching_nothing());
        }
        count.add(store, batch).await?;
        if rows.len() < BATCH {
            return Ok(());
        }
    }
}

async fn reseal_settings(store: &Store, count: &mut Count<'_>) -> Result<()> {
    let active = store.sealer().active(Purpose::Seal);
    let sql = format!(
        "SELECT name, value FROM settings WHERE value LIKE 'enc:2:%' AND value NOT LIKE 'enc:2:{active}:%'"
    );
    let mut batch = Vec::new();
    for row in &store.query(sql, Vec::new()).await? {
        let mut row = row.fields();
        let (name, stored) = (row.str()?, row.str()?);
        if !settings::SEALED.contains(&name) {
            continue;
        }
        let Some(sealed) = sealed_anew(store, "settings", name, stored, name, count)? else { continue };
        let sql = "UPDATE settings SET value = ? WHERE name = ? AND value = ?";
        batch.push(Statement::new(sql, vec![sealed, name.into(), stored.into()]));
    }
    count.add(store, batch).await
}

/// Seals the value again under the active key; returns `None` when it does not open.
fn sealed_anew(
    store: &Store,
    table: &str,
    column: &str,
    stored: &str,
    row: impl std::fmt::Display,
    count: &mut Count<'_>,
) -> Result<Option<Value>> {
    let Ok(plain) = store.sealer().open(table, column, stored) else {
        log::warn!("{table}.{column} of row {row} cannot be decrypted and stays sealed with its old key");
        count.unreadable += 1;
        return Ok(None);
    };
    Ok(Some(store.sealer().seal(table, column, plain.expose())?.into()))
}

/// Builds the statement that deletes a retired seal key unless something is still sealed with it.
fn delete_unused(id: i64) -> Statement {
    let mut sql =
        String::from("DELETE FROM crypto_keys WHERE id = ? AND purpose = 'seal' AND status = 'retired'");
    let columns = COLUMNS.iter().map(|column| (column.table, column.name));
    for (table, column) in columns.chain([("settings", "value")]) {
        sql += &format!(" AND NOT EXISTS (SELECT 1 FROM {table} WHERE {column} LIKE 'enc:2:{id}:%')");
    }
    Statement::new(sql, vec![id.into()])
}

// === Look-up hashes ===

async fn rehash(store: &Store, tell: Tell<'_>) -> Result<Finished> {
    let sealer = store.sealer();
    let retired = sealer.retired(Purpose::Index);
    let mut count = Count { tell, renewed: 0, unreadable: 0 };
    // A hash does not show its key, so each pass compares them all. A row that was written in the middle of its
    // batch is found by the next pass, and the last pass finds nothing.
    loop {
        count.unreadable = 0;
        let mut stale = 0;
        for &Column { table, name, hash } in COLUMNS {
            if let Some(hash) = hash {
                stale += rehash_column(store, table, name, hash, &mut count).await?;
            }
        }
        if stale == 0 {
            break;
        }
    }
    if !may_be_deleted(store, Purpose::Index).await? {
        return Ok(count.finished(sealer.active(Purpose::Index), retired.len(), 0));
    }
    let sql = "DELETE FROM crypto_keys WHERE id = ? AND purpose = 'index' AND status = 'retired'";
    let delete = |&id: &i64| Statement::new(sql, vec![id.into()]);
    let outcomes = store.batch(retired.iter().map(delete).collect()).await?;
    sealer.forget(&retired);
    let deleted = outcomes.iter().filter(|outcome| outcome.rows > 0).count();
    Ok(count.finished(sealer.active(Purpose::Index), deleted, deleted))
}

/// Renews the outdated hashes of a column; returns how many there were. A row whose value does not open cannot
/// be found by its hash anyway: its hash stays, but the retired key need not be kept for it.
async fn rehash_column(
    store: &Store,
    table: &str,
    column: &str,
    hash: &str,
    count: &mut Count<'_>,
) -> Result<u64> {
    let (mut after, mut stale) = (0, 0);
    loop {
        // Held until the batch is committed.
        let hashing = store.sealer().hashing().await;
        let sql = format!(
            "SELECT id, {column}, {hash} FROM {table} WHERE id > ? AND {column} <> '' AND {hash} IS NOT NULL \
             ORDER BY id LIMIT {BATCH}"
        );
        let rows = store.query(sql, vec![after.into()]).await?;
        let mut batch = Vec::new();
        for row in &rows {
            let mut row = row.fields();
            let (id, stored, former) = (row.int()?, row.str()?, row.str()?);
            after = id;
            let Ok(plain) = store.sealer().open(table, column, stored) else {
                log::warn!("{table}.{column} of row {id} cannot be decrypted and keeps its old {hash}");
                count.unreadable += 1;
                continue;
            };
            let index = hashing.index(plain.expose());
            if index == former {
                continue;
            }
            stale += 1;
            let sql = format!("UPDATE {table} SET {hash} = ? WHERE id = ? AND {column} = ? AND {hash} = ?");
            let args = vec![index.into(), id.into(), stored.into(), former.into()];
            batch.push(Statement::new(sql, args).touching_nothing());
        }
        count.add(store, batch).await?;
        if rows.len() < BATCH {
            return Ok(stale);
        }
    }
}

/// The progress of the renewal.
struct Count<'a> {
    tell: Tell<'a>,
    renewed: u64,
    unreadable: u64,
}

impl Count<'_> {
    /// Commits a batch, and counts the rows that had not been changed meanwhile.
    async fn add(&mut self, store: &Store, batch: Vec<Statement>) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let outcomes = store.batch(batch).await?;
        self.renewed += outcomes.iter().map(|outcome| outcome.rows).sum::<u64>();
        (self.tell)(self.renewed);
        Ok(())
    }

    fn finished(&self, active: i64, retired: usize, deleted: usize) -> Finished {
        Finished {
            active,
            renewed: self.renewed,
            unreadable: self.unreadable,
            deleted: deleted as u64,
            kept: (retired - deleted) as u64,
        }
    }
}
