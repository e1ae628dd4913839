use super::*;
use crate::store::{reset, settings};

/// Tables that stay: the schema's own rows, the sealing keys, and what is emptied by other means.
const KEPT: &[&str] = &["cache_versions", "crypto_keys", "instances", "settings", "writer_marks"];

#[tokio::test]
async fn after_a_reset_every_table_is_empty_or_was_kept_for_a_reason() {
    let dir = Dir::new();
    let store = dir.open();
    for name in super::super::migrate::tables().iter().map(|table| table.name) {
        assert_ne!(reset::TABLES.contains(&name), KEPT.contains(&name), "{name}");
    }
    let health = crate::routing::health::saved::SETTING;
    let saved = ["webhook_url", health].map(|name| (name.to_owned(), "\"x\"".to_owned()));
    settings::put(&store, saved.into()).await.expect("saved");
    reset::everything(&store, "new").await.expect("emptied");
    let saved = settings::all(&store).await.expect("settings");
    assert_eq!(saved.len(), 1);
    assert_eq!(saved["auth_token"].expose(), "\"new\"");
    assert_eq!(settings::get(&store, health).await.expect("read"), None);
    store.close().await;
    drop(store);
    let store = dir.open();
    assert_eq!(settings::all(&store).await.expect("the keys that seal are there").len(), 1);
}
