//! Writes a backup: rows as of one moment, page by page, in canonical form with the checksum at the end.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::report::ImportError;
use super::scope::BackupScope;
use super::{canonical, document, preferences, rows};
use crate::core::Core;
use crate::hex;
use crate::idle_thread::{run_on_idle_thread, yield_thread};
use crate::store::staging::tables::{Kind, StoredRows, TABLES, Table};
use crate::store::{ReadView, Row, Store, rekey, settings};
use crate::time::now_ms;

/// The number of rows read at once.
const PAGE: usize = 500;
/// The version of the document format.
pub(super) const VERSION: &str = "2.1";
/// The member that names the installation that wrote a document.
pub(super) const INSTALLATION: &str = "installation";

/// Writes a backup of what is committed now, and returns the writer.
pub async fn export<W: Write + Send + 'static>(
    core: &Arc<Core>,
    what: BackupScope,
    out: W,
) -> Result<W, ImportError> {
    let core = core.clone();
    run_on_idle_thread(move || write_all(&core, what, out)).await?
}

fn write_all<W: Write>(core: &Arc<Core>, what: BackupScope, out: W) -> Result<W, ImportError> {
    let mut out = Digested { out: io::BufWriter::new(out), digest: document::Digest::default() };
    Handle::current().block_on(rekey::follow_new(&core.store))?;
    let moment = ReadView::of(&core.store)?;
    out.write_all(b"{")?;
    if what != BackupScope::Preferences {
        out.write_all(b"\"accounts\":{")?;
        // Sorted by name, as in the canonical form.
        let mut tables: Vec<&Table> = TABLES.iter().filter(|table| table.is_exported()).collect();
        tables.sort_by_key(|table| table.array);
        for (index, table) in tables.into_iter().enumerate() {
            out.write_all(if index == 0 { b"" } else { b"," })?;
            write!(out, "\"{}\":[", table.array)?;
            write_rows(core, &moment, table, &mut out)?;
            out.write_all(b"]")?;
        }
        out.write_all(b"},")?;
    }
    write!(out, "\"format\":\"{}\",\"{INSTALLATION}\":\"{}\",", document::FORMAT, installation(&core.store))?;
    if what != BackupScope::Accounts {
        let saved = Handle::current().block_on(settings::all(&core.store))?;
        let mut settings = json!({ "settings": preferences::exported(saved) });
        out.write_all(b"\"preferences\":")?;
        canonical::write(&mut settings, &mut out)?;
        out.write_all(b",")?;
    }
    write!(out, "\"timestamp\":{}", now_ms())?;
    if what != BackupScope::All {
        write!(out, ",\"type\":\"{}\"", what.as_str())?;
    }
    write!(out, ",\"version\":\"{VERSION}\"")?;
    let Digested { mut out, mut digest } = out;
    digest.write_all(b"}")?;
    write!(out, ",\"checksum\":\"{}\"}}", digest.finish())?;
    out.into_inner().map_err(|error| error.into_error().into())
}

/// Returns the name of this installation in its documents. It changes with the index key of the database.
pub fn installation(store: &Store) -> String {
    hex::encode(&store.sealer().derive(&[b"backup"])[..16])
}

fn write_rows(
    core: &Core,
    moment: &ReadView,
    table: &Table,
    out: &mut impl Write,
) -> Result<(), ImportError> {
    let columns: Vec<&str> =
        table.columns.iter().filter(|column| rows::is_written(column)).map(|column| column.sql).collect();
    let StoredRows { table: source, condition } = table.stored_rows();
    // The last row of a page shows where the next one begins.
    let order = table.key().join(", ");
    let selected = if table.has_id { format!("id, {}", columns.join(", ")) } else { columns.join(", ") };
    let mut last: Option<(i64, Option<Value>)> = None;
    let mut written: u64 = 0;
    loop {
        let (after, args) = match &last {
            None => ("1 = 1".to_owned(), Vec::new()),
            Some((id, None)) => (format!("{order} > ?"), vec![(*id).into()]),
            Some((id, Some(second))) => {
                let second = match second {
                    Value::String(text) => text.as_str().into(),
                    other => other.as_i64().into(),
                };
                (format!("({order}) > (?, ?)"), vec![(*id).into(), second])
            }
        };
        let sql = format!(
            "SELECT {selected} FROM {source} WHERE {condition} AND {after} ORDER BY {order} LIMIT {PAGE}"
        );
        let page = moment.query(&sql, args)?;
        for row in &page {
            yield_thread();
            last = Some(place(table, row)?);
            let Some(mut row) = rows::write(&core.store, table, row)? else { continue };
            out.write_all(if written == 0 { b"" } else { b"," })?;
            written += 1;
            if table.is_numbered_in_exports {
                row["id"] = written.into();
            }
            canonical::write(&mut row, out)?;
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

/// Returns the values by which a row is ordered.
fn place(table: &Table, row: &Row) -> Result<(i64, Option<Value>), ImportError> {
    let mut fields = row.fields();
    let first = fields.int()?;
    if table.has_id {
        return Ok((first, None));
    }
    let second = match table.columns.get(1).map(|column| column.kind) {
        Some(Kind::Int) => fields.int()?.into(),
        _ => fields.text()?.into(),
    };
    Ok((first, Some(second)))
}

/// A writer that also computes the digest of what is written.
struct Digested<W> {
    out: W,
    digest: document::Digest,
}

impl<W: Write> Write for Digested<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.digest.write_all(&bytes[..count])?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
