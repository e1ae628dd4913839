//! Reads the announcements of sites.
//!
//! Sites are asked one after the other. An announcement that is seen for the first time becomes a row, an event and a
//! notice to the operator; a known one is only updated. Of many new ones at a site the first become events and notices,
//! and one more event and notice tells how many there are beside them. A site that fails is reported and does not hold up
//! the others.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::sessions::session::Session;
use super::sessions::site_client::site_client_at;
use super::tasks::{Done, Outcome, Spec, Started, TaskEvents};
use crate::core::Core;
use crate::ids::SiteId;
use crate::jobs::Jobs;
use crate::notify::Notice;
use crate::one_line::{short_line, short_text};
use crate::platform::Platform;
use crate::store;
use crate::store::accounts::{self, AccountStatus};
use crate::store::announcements::{self, SiteAnnouncement};
use crate::store::events::{self, EventLevel, NewEvent};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::time::now_ms;
use crate::upstream::platforms::{Announcement, GENERIC_TITLE, NoticeLevel, SiteError, SiteErrorKind};

/// The interval at which all sites are asked.
pub const INTERVAL: Duration = Duration::from_secs(900);
/// The most announcements that are read from a site at once: fewer than are kept, so that those it shows are known the
/// next time.
const MAX_SHOWN: usize = 200;
/// The most announcements of a site that one pass tells the operator.
const MAX_NOTIFIED: usize = 10;
/// The longest key that the store can index, in characters.
const MAX_KEY_CHARS: usize = 191;
/// The longest title, and the longest text, in characters.
const MAX_TITLE: usize = 300;
const MAX_TEXT: usize = 8_000;
/// The longest announcement that is stored as its site sent it, in bytes of JSON.
const MAX_RAW: usize = 64 * 1024;

/// The counts of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Synced {
    pub scanned_sites: usize,
    pub inserted: usize,
    pub updated: usize,
    pub unsupported: usize,
    pub notifications: usize,
    pub events: usize,
    pub failed: usize,
    pub failed_sites: Vec<FailedSite>,
}

/// A site that could not be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedSite {
    pub site_id: SiteId,
    pub site_name: String,
    pub message: String,
}

/// Starts a task that syncs one site, or all active ones; returns the running task if there is one.
pub fn start_sync(jobs: &Arc<Jobs>, site: Option<SiteId>) -> Started {
    let scope = site.map_or_else(|| "all".to_owned(), |id| id.to_string());
    let spec = Spec {
        kind: "site-announcements-sync",
        title: "Sync the announcements of sites".to_owned(),
        dedupe_key: Some(format!("site-announcements:{scope}")),
        events: TaskEvents::NotSent,
    };
    let work = jobs.clone();
    jobs.tasks.start(spec, move |_progress| async move { task(&work, site).await })
}

async fn task(jobs: &Arc<Jobs>, site: Option<SiteId>) -> Outcome {
    let synced = sync(jobs, site).await?;
    let message =
        format!("{} site(s) asked, {} new, {} failed", synced.scanned_sites, synced.inserted, synced.failed);
    Ok(Done { message, result: json!(synced) })
}

/// Syncs one site, or all active ones.
pub async fn sync(jobs: &Arc<Jobs>, site: Option<SiteId>) -> store::Result<Synced> {
    let _turn = jobs.announcement_passes.lock().await;
    let mut synced = Synced::default();
    for row in sites::list(&jobs.core.store).await? {
        let is_asked = row.status == SiteStatus::Active && site.is_none_or(|id| id == row.id);
        if !is_asked {
            continue;
        }
        synced.scanned_sites += 1;
        match ask(jobs, &row).await {
            Ok(found) => match take_in(&jobs.core, &row, found, &mut synced).await {
                // The site was deleted while it was asked.
                Err(store::Error::Dangling(_)) => {}
                taken => taken?,
            },
            Err(error) if matches!(error.kind, SiteErrorKind::Unsupported | SiteErrorKind::Missing) => {
                synced.unsupported += 1;
            }
            Err(error) => {
                log::warn!("the announcements of site \"{}\" were not read: {}", row.name, error.message);
                synced.failed += 1;
                synced.failed_sites.push(FailedSite {
                    site_id: row.id,
                    site_name: row.name,
                    message: error.message,
                });
            }
        }
    }
    Ok(synced)
}

/// Reads a site's announcements as its first active session account, or without an account where there is none.
async fn ask(jobs: &Arc<Jobs>, site: &SiteRow) -> Result<Vec<Announcement>, SiteError> {
    let platform = Platform::parse(&site.platform);
    if !platform.is_some_and(|platform| platform.abilities().announcements) {
        return Err(SiteError::new(SiteErrorKind::Unsupported, "the platform has no announcements"));
    }
    let rows = accounts::of_site(&jobs.core.store, site.id).await;
    let rows = rows.map_err(|error| SiteError::new(SiteErrorKind::Failed, error.to_string()))?;
    let account = rows.into_iter().find(|row| row.status == AccountStatus::Active && row.is_session());
    let Some(account) = account else {
        if platform == Some(Platform::Sub2Api) {
            return Err(SiteError::new(
                SiteErrorKind::Unsupported,
                "they are told to accounts with a session only",
            ));
        }
        return site_client_at(&jobs.core, site, None, None)?.announcements(&jobs.core.client).await;
    };
    let mut session = Session::open(jobs, site.clone(), account).await?;
    let mut found = session.site_client().announcements(&jobs.core.client).await;
    if session.is_renewed_after(jobs, &mut found).await {
        found = session.site_client().announcements(&jobs.core.client).await;
    }
    found
}

async fn take_in(
    core: &Core,
    site: &SiteRow,
    found: Vec<Announcement>,
    synced: &mut Synced,
) -> store::Result<()> {
    let mut known: HashSet<String> =
        announcements::known_keys(&core.store, site.id).await?.into_iter().collect();
    let (mut notified, mut counted) = (0, 0);
    for announcement in found.into_iter().take(MAX_SHOWN) {
        let level = level_of(announcement.level);
        let seen = to_store(announcement);
        let now = now_ms();
        if !known.insert(seen.source_key.clone()) {
            announcements::update(&core.store, site.id, &seen, now).await?;
            synced.updated += 1;
            continue;
        }
        let event = (notified < MAX_NOTIFIED).then(|| event(site, text_of(&seen), level));
        let notice = event
            .as_ref()
            .map(|event| Notice::from(event).about(format!("announcement:{}:{}", site.id, seen.source_key)));
        announcements::insert(&core.store, site.id, &site.platform, &seen, event, now).await?;
        synced.inserted += 1;
        match notice {
            Some(notice) => {
                core.notifier.send(notice);
                notified += 1;
            }
            None => counted += 1,
        }
    }
    if counted > 0 {
        let event =
            event(site, format!("{counted} more new announcements are in the list"), EventLevel::Info);
        core.notifier.send(Notice::from(&event).about(format!("announcements:{}", site.id)));
        events::insert(&core.store, event).await?;
        notified += 1;
    }
    synced.events += notified;
    synced.notifications += notified;
    Ok(())
}

fn event(site: &SiteRow, message: String, level: EventLevel) -> NewEvent {
    NewEvent {
        kind: "site_notice",
        title: format!("Announcement of {}", site.name),
        message: Some(message),
        level,
        related_id: None,
        related_type: Some("site_announcement"),
    }
}

/// Returns title and text, only the text where the title is empty or generic, or only the title where there is no text.
fn text_of(announcement: &SiteAnnouncement) -> String {
    let (title, content) = (announcement.title.trim(), announcement.content.trim());
    if title.is_empty() || title == GENERIC_TITLE {
        content.to_owned()
    } else if content.is_empty() {
        title.to_owned()
    } else {
        format!("{title}\n\n{content}")
    }
}

fn level_of(level: NoticeLevel) -> EventLevel {
    match level {
        NoticeLevel::Info => EventLevel::Info,
        NoticeLevel::Warning => EventLevel::Warning,
        NoticeLevel::Error => EventLevel::Error,
    }
}

/// Returns what is stored of an announcement: texts of a bounded length without control characters.
fn to_store(announcement: Announcement) -> SiteAnnouncement {
    let raw = (!announcement.raw_payload.is_null()).then(|| announcement.raw_payload.to_string());
    SiteAnnouncement {
        source_key: announcement.source_key.chars().take(MAX_KEY_CHARS).collect(),
        title: short_line(&announcement.title, MAX_TITLE, "…"),
        content: short_text(&announcement.content, MAX_TEXT, "…"),
        level: announcement.level.as_str().to_owned(),
        source_url: announcement.source_url,
        starts_at: announcement.starts_at,
        ends_at: announcement.ends_at,
        upstream_created_at: announcement.upstream_created_at,
        upstream_updated_at: announcement.upstream_updated_at,
        raw_payload: raw.filter(|raw| raw.len() <= MAX_RAW),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::to_value;

    use super::*;

    /// Operators' scripts read these members.
    #[test]
    fn a_pass_is_told_in_the_documented_shape() {
        let failed = FailedSite {
            site_id: SiteId::new(8),
            site_name: "Relay C".to_owned(),
            message: "HTTP 503: maintenance".to_owned(),
        };
        let synced = Synced {
            scanned_sites: 3,
            inserted: 1,
            updated: 4,
            unsupported: 1,
            notifications: 1,
            events: 1,
            failed: 1,
            failed_sites: vec![failed],
        };
        assert_eq!(
            to_value(synced).expect("it serializes"),
            json!({"scannedSites":3,"inserted":1,"updated":4,"unsupported":1,"notifications":1,"events":1,
                "failed":1,"failedSites":[{"siteId":8,"siteName":"Relay C","message":"HTTP 503: maintenance"}]})
        );
    }

    #[test]
    fn a_generic_title_is_left_out_of_the_text() {
        for (title, content, text) in [
            ("Site notice", "Prices change", "Prices change"),
            ("Maintenance", "On Sunday", "Maintenance\n\nOn Sunday"),
            ("Maintenance", " ", "Maintenance"),
        ] {
            let announcement = Announcement {
                source_key: "k".to_owned(),
                title: title.to_owned(),
                content: content.to_owned(),
                ..Announcement::default()
            };
            assert_eq!(text_of(&to_store(announcement)), text);
        }
    }

    #[test]
    fn a_text_without_end_is_cut() {
        let text = "line\n".repeat(200_000);
        let announcement = Announcement {
            title: "Maintenance\r\n\u{202e}now".to_owned(),
            raw_payload: json!({ "data": text }),
            content: text,
            ..Announcement::default()
        };
        let seen = to_store(announcement);
        assert_eq!(seen.title, "Maintenance now");
        assert_eq!(seen.content.chars().count(), MAX_TEXT + 1);
        assert!(seen.content.starts_with("line\nline\n") && seen.content.ends_with('…'));
        assert_eq!(seen.raw_payload, None);
    }
}
