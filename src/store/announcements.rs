//! Announcements of sites. There is one row per site and source key; a cleared row is kept hidden, so that the
//! next sync does not take it for new.

use super::events::NewEvent;
use super::sql::{Fields, Statement, Value};
use super::{Result, Store};
use crate::ids::{AnnouncementId, SiteId};
use crate::time::Millis;

/// The number of rows kept for each site. Some sites write the time of day into their notice, so that each
/// reading is a new one.
const KEPT_PER_SITE: i64 = 500;

/// An announcement as read from a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteAnnouncement {
    pub source_key: String,
    pub title: String,
    pub content: String,
    /// info, warning or error.
    pub level: String,
    pub source_url: Option<String>,
    pub starts_at: Option<Millis>,
    pub ends_at: Option<Millis>,
    pub upstream_created_at: Option<Millis>,
    pub upstream_updated_at: Option<Millis>,
    /// JSON text as received from the site.
    pub raw_payload: Option<String>,
}

/// A stored announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncementRow {
    pub id: AnnouncementId,
    pub site_id: SiteId,
    pub platform: String,
    pub seen: SiteAnnouncement,
    pub first_seen_at: Option<Millis>,
    pub last_seen_at: Option<Millis>,
    pub read_at: Option<Millis>,
    pub dismissed_at: Option<Millis>,
}

/// The filter of an announcement list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub site_id: Option<SiteId>,
    pub platform: Option<String>,
    pub read: Option<bool>,
    pub state: Option<AnnouncementState>,
    pub limit: i64,
    pub offset: i64,
}

/// The state by which announcements are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnouncementState {
    /// Neither dismissed nor ended.
    Active,
    /// Ended, but not dismissed.
    Expired,
    Dismissed,
}

/// Returns the matching announcements, newest first.
pub async fn list(store: &Store, filter: &Filter, now: Millis) -> Result<Vec<AnnouncementRow>> {
    let mut sql = String::from(
        "SELECT id, site_id, platform, source_key, title, content, level, source_url, starts_at, ends_at, \
         upstream_created_at, upstream_updated_at, raw_payload, first_seen_at, last_seen_at, read_at, \
         dismissed_at FROM site_announcements WHERE cleared_at IS NULL",
    );
    let mut args: Vec<Value> = Vec::new();
    if let Some(id) = filter.site_id {
        sql.push_str(" AND site_id = ?");
        args.push(id.into());
    }
    if let Some(platform) = &filter.platform {
        sql.push_str(" AND platform = ?");
        args.push(platform.as_str().into());
    }
    sql.push_str(match filter.read {
        Some(true) => " AND read_at IS NOT NULL",
        Some(false) => " AND read_at IS NULL",
        None => "",
    });
    match filter.state {
        Some(AnnouncementState::Active) => {
            sql.push_str(" AND dismissed_at IS NULL AND (ends_at IS NULL OR ends_at > ?)");
            args.push(now.into());
        }
        Some(AnnouncementState::Expired) => {
            sql.push_str(" AND dismissed_at IS NULL AND ends_at <= ?");
            args.push(now.into());
        }
        Some(AnnouncementState::Dismissed) => sql.push_str(" AND dismissed_at IS NOT NULL"),
        None => {}
    }
    sql.push_str(" ORDER BY first_seen_at DESC, id DESC LIMIT ? OFFSET ?");
    args.extend([filter.limit.into(), filter.offset.into()]);
    store.rows(sql, args, read).await
}

fn read(row: &mut Fields<'_>) -> Result<AnnouncementRow> {
    let (id, site_id, platform) = (row.id()?, row.id()?, row.text()?);
    let seen = SiteAnnouncement {
        source_key: row.text()?,
        title: row.text()?,
        content: row.text()?,
        level: row.text()?,
        source_url: row.opt_text()?,
        starts_at: row.opt_int()?,
        ends_at: row.opt_int()?,
        upstream_created_at: row.opt_int()?,
        upstream_updated_at: row.opt_int()?,
        raw_payload: row.opt_text()?,
    };
    Ok(AnnouncementRow {
        id,
        site_id,
        platform,
        seen,
        first_seen_at: row.opt_int()?,
        last_seen_at: row.opt_int()?,
        read_at: row.opt_int()?,
        dismissed_at: row.opt_int()?,
    })
}

/// Returns the source keys of a site's known announcements, including cleared ones.
pub async fn known_keys(store: &Store, site_id: SiteId) -> Result<Vec<String>> {
    let sql = "SELECT source_key FROM site_announcements WHERE site_id = ?";
    store.rows(sql, vec![site_id.into()], |row| row.text()).await
}

/// Stores an announcement seen for the first time, together with its event if it has one, in one transaction. Deletes the
/// site's rows beyond `KEPT_PER_SITE`, those last seen longest ago first. Returns the announcement's id.
pub async fn insert(
    store: &Store,
    site_id: SiteId,
    platform: &str,
    seen: &SiteAnnouncement,
    event: Option<NewEvent>,
    now: Millis,
) -> Result<AnnouncementId> {
    let mut args = vec![site_id.into(), platform.into(), seen.source_key.as_str().into()];
    args.extend(column_values(seen));
    args.extend([now.into(), now.into()]);
    let row = Statement::new(
        "INSERT INTO site_announcements (site_id, platform, source_key, title, content, level, source_url, \
         starts_at, ends_at, upstream_created_at, upstream_updated_at, raw_payload, first_seen_at, \
         last_seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        args,
    );
    let event = event.map(|event| event.insert_related_to(0, now));
    let forgotten = Statement::new(
        "DELETE FROM site_announcements WHERE id IN (SELECT id FROM (SELECT id FROM site_announcements \
         WHERE site_id = ? ORDER BY last_seen_at DESC, id DESC LIMIT 1000 OFFSET ?) AS forgotten)",
        vec![site_id.into(), KEPT_PER_SITE.into()],
    );
    let batch = [row].into_iter().chain(event).chain([forgotten]).collect();
    Ok(store.batch(batch).await?[0].id())
}

/// Returns the values of an announcement in the order of its columns.
fn column_values(seen: &SiteAnnouncement) -> Vec<Value> {
    vec![
        seen.title.as_str().into(),
        seen.content.as_str().into(),
        seen.level.as_str().into(),
        seen.source_url.as_deref().into(),
        seen.starts_at.into(),
        seen.ends_at.into(),
        seen.upstream_created_at.into(),
        seen.upstream_updated_at.into(),
        seen.raw_payload.as_deref().into(),
    ]
}

/// Stores the current text of a known announcement; for a cleared one, only that it was seen again.
pub async fn update(store: &Store, site_id: SiteId, seen: &SiteAnnouncement, now: Millis) -> Result<()> {
    let mut args = column_values(seen);
    args.extend([site_id.into(), seen.source_key.as_str().into()]);
    let text = Statement::new(
        "UPDATE site_announcements SET title = ?, content = ?, level = ?, source_url = ?, starts_at = ?, \
         ends_at = ?, upstream_created_at = ?, upstream_updated_at = ?, raw_payload = ? \
         WHERE site_id = ? AND source_key = ? AND cleared_at IS NULL",
        args,
    );
    let there = Statement::new(
        "UPDATE site_announcements SET last_seen_at = ? WHERE site_id = ? AND source_key = ?",
        vec![now.into(), site_id.into(), seen.source_key.as_str().into()],
    );
    store.batch(vec![text, there]).await.map(drop)
}

/// Marks one announcement as read.
pub async fn mark_read(store: &Store, id: AnnouncementId, now: Millis) -> Result<()> {
    let sql = "UPDATE site_announcements SET read_at = ? WHERE id = ? AND read_at IS NULL";
    store.batch(vec![Statement::new(sql, vec![now.into(), id.into()])]).await.map(drop)
}

/// Marks all announcements as read.
pub async fn mark_all_read(store: &Store, now: Millis) -> Result<()> {
    let sql = "UPDATE site_announcements SET read_at = ? WHERE read_at IS NULL";
    store.batch(vec![Statement::new(sql, vec![now.into()])]).await.map(drop)
}

/// Hides all announcements and deletes their content.
pub async fn clear(store: &Store, now: Millis) -> Result<()> {
    let sql = "UPDATE site_announcements SET cleared_at = ?, content = '', raw_payload = NULL \
               WHERE cleared_at IS NULL";
    store.batch(vec![Statement::new(sql, vec![now.into()])]).await.map(drop)
}
