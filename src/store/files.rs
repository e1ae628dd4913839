//! Files that clients uploaded.
//!
//! ```text
//! proxy_files ──sha256──▶ proxy_file_blobs ──upload──▶ proxy_file_chunks (upload, position)
//! one per upload          one per content, counted      [`CHUNK`] bytes each
//! ```
//!
//! An upload appends its chunks one transaction at a time, so that no other write waits for long, and then
//! becomes a file in one transaction: if the same content is already stored, the upload's own chunks are
//! deleted. Deleting a file hides it at once and frees its content when no other file uses it. Chunks that no
//! blob refers to are left over from an upload that never ended or an interrupted deletion: [`sweep`] removes
//! them.

use std::collections::HashSet;

use super::owner::Owner;
use super::sql::{Fields, OnConflict, Statement, Value, upsert};
use super::uploads::Uploads;
use super::{Error, Result, Store};
use crate::ids::FileId;
use crate::time::Millis;

/// The size of a chunk in bytes; the last one of a file may be smaller.
pub const CHUNK: usize = 512 * 1024;
/// The number of chunks that one transaction deletes.
const DELETED_AT_ONCE: i64 = 16;
/// The number of database pages that deleting this many chunks frees.
const PAGES_FREED: u32 = 4096;
/// The number of files or uploads that one query for deletable ones returns.
const LOOK: i64 = 100;

/// A file that has no row yet.
pub struct NewFile {
    pub public_id: String,
    pub filename: String,
    pub mime_type: String,
    pub purpose: String,
    pub byte_size: i64,
    /// In hexadecimal.
    pub sha256: String,
    pub created_at: Millis,
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    pub id: FileId,
    pub public_id: String,
    pub filename: String,
    pub mime_type: String,
    pub purpose: Option<String>,
    pub byte_size: i64,
    pub sha256: String,
    pub created_at: Millis,
    /// The upload whose chunks are the content.
    pub upload: Option<String>,
}

/// A page of a file list.
pub struct Page<'a> {
    pub purpose: Option<&'a str>,
    /// Only files that come after this one in the list.
    pub after: Option<FileId>,
    pub newest_first: bool,
    pub limit: i64,
}

/// Appends a chunk to an upload.
pub async fn append(store: &Store, upload: &str, position: i64, bytes: Vec<u8>, now: Millis) -> Result<()> {
    let insert = Statement::new(
        "INSERT INTO proxy_file_chunks (upload, position, bytes, created_at) VALUES (?, ?, ?, ?)",
        vec![upload.into(), position.into(), Value::Blob(bytes), now.into()],
    );
    store.batch(vec![insert]).await.map(drop)
}

/// Turns a complete upload, whose chunks are stored under the file's public id, into a file. Returns `None`,
/// and stores nothing, if the owner's files would exceed `quota` bytes: other uploads may have ended since the
/// caller checked.
pub async fn finish(
    store: &Store,
    owner: &Owner,
    quota: Option<u64>,
    file: NewFile,
) -> Result<Option<FileRow>> {
    let blob = upsert(
        store.database().dialect(),
        "proxy_file_blobs",
        &["sha256"],
        &[
            ("reference_count", OnConflict::Add),
            ("created_at", OnConflict::Keep),
            ("upload", OnConflict::Keep),
        ],
    );
    let blob = Statement::new(
        blob,
        vec![
            file.sha256.as_str().into(),
            0i64.into(),
            file.created_at.into(),
            file.public_id.as_str().into(),
        ],
    );
    let [kind, id] = owner.args();
    let quota = quota.and_then(|quota| i64::try_from(quota).ok()).unwrap_or(i64::MAX);
    let share = Statement::new(
        "UPDATE proxy_file_blobs SET reference_count = reference_count + 1 WHERE sha256 = ? AND \
         (SELECT COALESCE(SUM(byte_size), 0) FROM proxy_files \
         WHERE owner_type = ? AND owner_id = ? AND deleted_at IS NULL) <= ?",
        vec![file.sha256.as_str().into(), kind, id, quota.into()],
    );
    let [owner_kind, owner_id] = owner.args();
    let row = Statement::insert(
        "proxy_files",
        [
            ("public_id", file.public_id.as_str().into()),
            ("owner_type", owner_kind),
            ("owner_id", owner_id),
            ("filename", file.filename.into()),
            ("mime_type", file.mime_type.into()),
            ("purpose", file.purpose.into()),
            ("byte_size", file.byte_size.into()),
            ("sha256", file.sha256.into()),
            ("created_at", file.created_at.into()),
            ("updated_at", file.created_at.into()),
        ],
    );
    match store.batch(vec![blob, row, share.must_change()]).await {
        Err(Error::NotFound) => return Ok(None),
        done => done?,
    };
    let stored = find(store, owner, &file.public_id).await?.ok_or(Error::NotFound)?;
    if stored.upload.as_deref() != Some(&file.public_id) {
        discard(store, &file.public_id).await?;
    }
    Ok(Some(stored))
}

const COLUMNS: &str = "f.id, f.public_id, f.filename, f.mime_type, f.purpose, f.byte_size, f.sha256, \
     f.created_at, b.upload FROM proxy_files f LEFT JOIN proxy_file_blobs b ON b.sha256 = f.sha256";

/// Returns a file of this owner that is not deleted.
pub async fn find(store: &Store, owner: &Owner, public_id: &str) -> Result<Option<FileRow>> {
    let [kind, id] = owner.args();
    let sql = format!(
        "SELECT {COLUMNS} WHERE f.public_id = ? AND f.owner_type = ? AND f.owner_id = ? AND f.deleted_at IS NULL"
    );
    store.row(sql, vec![public_id.into(), kind, id], read).await
}

/// Returns the files of this owner, ordered by age.
pub async fn list(store: &Store, owner: &Owner, page: &Page<'_>) -> Result<Vec<FileRow>> {
    let mut args = Vec::from(owner.args());
    let mut sql =
        format!("SELECT {COLUMNS} WHERE f.owner_type = ? AND f.owner_id = ? AND f.deleted_at IS NULL");
    if let Some(purpose) = page.purpose {
        sql.push_str(" AND f.purpose = ?");
        args.push(purpose.into());
    }
    if let Some(after) = page.after {
        sql.push_str(if page.newest_first { " AND f.id < ?" } else { " AND f.id > ?" });
        args.push(after.into());
    }
    sql.push_str(if page.newest_first { " ORDER BY f.id DESC LIMIT ?" } else { " ORDER BY f.id LIMIT ?" });
    args.push(page.limit.into());
    store.rows(sql, args, read).await
}

/// Returns the total size in bytes of this owner's files.
pub async fn used_bytes(store: &Store, owner: &Owner) -> Result<i64> {
    let sql = "SELECT COALESCE(SUM(byte_size), 0) FROM proxy_files \
               WHERE owner_type = ? AND owner_id = ? AND deleted_at IS NULL";
    Ok(store.row(sql, Vec::from(owner.args()), |row| row.int()).await?.unwrap_or_default())
}

/// Returns one chunk of an upload; `None` after the last one, and once it has been deleted.
pub async fn chunk(store: &Store, upload: &str, position: i64) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT bytes FROM proxy_file_chunks WHERE upload = ? AND position = ?";
    let rows = store.query(sql, vec![upload.into(), position.into()]).await?;
    match rows.into_iter().next().and_then(|row| row.0.into_iter().next()) {
        None => Ok(None),
        Some(Value::Blob(bytes)) => Ok(Some(bytes)),
        Some(_) => Err(Error::Database("a chunk of a file is not bytes".to_owned())),
    }
}

/// Hides a file and frees the content that only it used. Fails with [`Error::NotFound`] when it is already
/// hidden.
pub async fn delete(store: &Store, file: &FileRow, now: Millis) -> Result<()> {
    let hide = Statement::new(
        "UPDATE proxy_files SET deleted_at = ?, updated_at = ? WHERE id = ? AND deleted_at IS NULL",
        vec![now.into(), now.into(), file.id.into()],
    );
    release(store, file, vec![hide.must_change()]).await
}

/// Deletes files older than the cutoff, including hidden ones; returns the number deleted.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    let mut pruned = 0;
    loop {
        let sql = format!("SELECT {COLUMNS} WHERE f.created_at < ? ORDER BY f.created_at, f.id LIMIT ?");
        let files: Vec<FileRow> = store.rows(sql, vec![cutoff.into(), LOOK.into()], read).await?;
        for file in &files {
            // A hidden file has already released its content.
            match delete(store, file, cutoff).await {
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
            let forget = Statement::new("DELETE FROM proxy_files WHERE id = ?", vec![file.id.into()]);
            pruned += store.batch(vec![forget]).await?[0].rows;
        }
        if files.len() < LOOK as usize {
            return Ok(pruned);
        }
    }
}

/// Removes chunks older than the cutoff that belong to no file and to no upload in progress; returns the number
/// of uploads they belonged to.
pub async fn sweep(store: &Store, uploads: &Uploads, cutoff: Millis) -> Result<u64> {
    let mut swept = HashSet::new();
    loop {
        let before = swept.len();
        let sql = "SELECT DISTINCT c.upload FROM proxy_file_chunks c WHERE c.created_at < ? AND NOT EXISTS \
                   (SELECT 1 FROM proxy_file_blobs b WHERE b.upload = c.upload) LIMIT ?";
        let rows = store.query(sql, vec![cutoff.into(), LOOK.into()]).await?;
        for row in &rows {
            let upload = row.fields().text()?;
            if !uploads.is_under_way(&upload) {
                discard(store, &upload).await?;
                swept.insert(upload);
            }
        }
        if rows.len() < LOOK as usize || swept.len() == before {
            return Ok(swept.len() as u64);
        }
    }
}

/// Removes the chunks of an upload, a few at a time, unless a file has them: a caller that did not learn whether the
/// upload became one may discard it.
pub async fn discard(store: &Store, upload: &str) -> Result<()> {
    loop {
        let some = Statement::new(
            "DELETE FROM proxy_file_chunks WHERE upload = ? AND position IN (SELECT position FROM \
             (SELECT position FROM proxy_file_chunks WHERE upload = ? ORDER BY position LIMIT ?) AS first) \
             AND NOT EXISTS (SELECT 1 FROM proxy_file_blobs WHERE proxy_file_blobs.upload = ?)",
            vec![upload.into(), upload.into(), DELETED_AT_ONCE.into(), upload.into()],
        );
        let rows = store.batch(vec![some]).await?[0].rows;
        if rows > 0 {
            store.database().reclaim(PAGES_FREED).await?;
        }
        if rows < DELETED_AT_ONCE as u64 {
            return Ok(());
        }
    }
}

/// Commits a change that removes a file, together with its share of the content; removes the content when that
/// was the last share. Both are in one transaction, so that an upload of the same content either still finds it
/// or brings its own.
async fn release(store: &Store, file: &FileRow, mut change: Vec<Statement>) -> Result<()> {
    let sha256 = || vec![file.sha256.as_str().into()];
    change.push(Statement::new(
        "UPDATE proxy_file_blobs SET reference_count = reference_count - 1 WHERE sha256 = ?",
        sha256(),
    ));
    change.push(Statement::new(
        "DELETE FROM proxy_file_blobs WHERE sha256 = ? AND reference_count <= 0",
        sha256(),
    ));
    let was_last = store.batch(change).await?.last().is_some_and(|outcome| outcome.rows > 0);
    match &file.upload {
        Some(upload) if was_last => discard(store, upload).await,
        _ => Ok(()),
    }
}

fn read(row: &mut Fields<'_>) -> Result<FileRow> {
    Ok(FileRow {
        id: row.id()?,
        public_id: row.text()?,
        filename: row.text()?,
        mime_type: row.text()?,
        purpose: row.opt_text()?,
        byte_size: row.int()?,
        sha256: row.text()?,
        created_at: row.int()?,
        upload: row.opt_text()?,
    })
}
