//! Reads the announcements of the site: its one notice, and those of its console.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::Value;

use super::{learn_unit, status};
use crate::hex;
use crate::time;
use crate::upstream::Client;
use crate::upstream::platforms::contract::{Announcement, NoticeLevel};
use crate::upstream::platforms::error::SiteError;
use crate::upstream::platforms::site_client::{AuthScheme, Call, SiteClient};

/// The title of an announcement that has none of its own.
pub const GENERIC_TITLE: &str = "Site notice";

pub(in crate::upstream::platforms) async fn announcements(
    site_client: &SiteClient,
    client: &Client,
) -> Result<Vec<Announcement>, SiteError> {
    let (notice, status) = tokio::join!(notice(site_client, client), status(site_client, client));
    let status = match status {
        Ok(status) => {
            learn_unit(site_client, &status);
            Some(status)
        }
        Err(error) => {
            log::debug!(
                "{}: the console's announcements could not be read: {error}",
                site_client.base.origin
            );
            None
        }
    };
    let console = status.as_ref().and_then(|status| status.get("announcements")?.as_array());
    let mut found: Vec<Announcement> = console.into_iter().flatten().filter_map(of_console).collect();
    match notice {
        Ok(notice) => found.extend(of_notice(&notice)),
        // A server whose announcements are all in its console may have no other page.
        Err(error) if error.is_missing() && console.is_some() => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// Reads the notice. Its page is public, but some forks want a credential.
async fn notice(site_client: &SiteClient, client: &Client) -> Result<Value, SiteError> {
    let call = Call::get("/api/notice");
    let refusal = match site_client.session {
        Some(_) => match site_client.as_user(client, call).await {
            Err(error) if !error.is_final() => Some(error),
            asked => return asked,
        },
        None => None,
    };
    let asked = site_client.ask(client, call, &AuthScheme::None, None).await;
    asked.map_err(|error| SiteError::more_telling(refusal, error))
}

fn of_notice(answer: &Value) -> Option<Announcement> {
    let text = answer.get("data")?.as_str()?.trim();
    (!text.is_empty()).then(|| Announcement {
        source_key: format!("notice:{}", sha1(text)),
        title: GENERIC_TITLE.to_owned(),
        content: text.to_owned(),
        raw_payload: answer.clone(),
        ..Announcement::default()
    })
}

fn of_console(item: &Value) -> Option<Announcement> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().trim();
    let (content, published) = (text("content"), text("publishDate"));
    (!content.is_empty()).then(|| Announcement {
        source_key: format!("console:{}", sha1(&format!("{content}{published}"))),
        title: GENERIC_TITLE.to_owned(),
        content: match text("extra") {
            "" => content.to_owned(),
            extra => format!("{content}\n\n{extra}"),
        },
        level: match text("type") {
            "warning" => NoticeLevel::Warning,
            "error" | "danger" => NoticeLevel::Error,
            _ => NoticeLevel::Info,
        },
        upstream_created_at: time::parse(published),
        raw_payload: item.clone(),
        ..Announcement::default()
    })
}

fn sha1(text: &str) -> String {
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    hex::encode(digest.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notice_is_known_by_its_text() {
        let notice = of_notice(&json!({"success": true, "data": " abc\n"})).expect("a notice");
        assert_eq!(notice.source_key, "notice:a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!((notice.title.as_str(), notice.content.as_str()), ("Site notice", "abc"));
        assert_eq!(of_notice(&json!({"success": true, "data": "  "})), None);
        assert_eq!(of_notice(&json!({"success": true})), None);
    }

    #[test]
    fn the_console_has_announcements_of_its_own() {
        let item = json!({"content": "Down on Sunday", "publishDate": "2026-03-01T08:00:00Z",
            "type": "warning", "extra": "two hours"});
        let found = of_console(&item).expect("an announcement");
        assert_eq!(found.level, NoticeLevel::Warning);
        assert_eq!(found.content, "Down on Sunday\n\ntwo hours");
        assert_eq!(found.upstream_created_at, time::parse("2026-03-01T08:00:00Z"));
        assert!(found.source_key.starts_with("console:"), "{}", found.source_key);
        assert_eq!(of_console(&json!({"content": ""})), None);
    }
}
