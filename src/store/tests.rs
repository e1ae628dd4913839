//! The store with real files in directories of their own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::sites::{NewEndpoint, NewSite, SitePatch, SiteStatus};
use super::*;

/// A directory that is gone with the test.
pub(super) struct Dir(PathBuf);

impl Dir {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("switchyard-store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn open(&self) -> Store {
        Store::open(StoreOptions::in_dir(&self.0, "a secret")).expect("the store opens")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn site(name: &str) -> NewSite {
    NewSite {
        name: name.into(),
        url: format!("https://{name}.example.com"),
        platform: "new-api".into(),
        status: SiteStatus::Active,
        proxy_url: None,
        use_system_proxy: false,
        custom_headers: None,
        external_checkin_url: None,
        is_pinned: false,
        sort_order: None,
        global_weight: 1.0,
        max_concurrency: None,
        initialization_preset_id: None,
        endpoints: Vec::new(),
    }
}

#[tokio::test]
async fn what_was_stored_is_there_after_reopening() {
    let dir = Dir::new();
    let store = dir.open();
    let id = sites::insert(
        &store,
        NewSite { endpoints: vec![endpoint("https://a"), endpoint("https://b")], ..site("blue") },
    )
    .await
    .unwrap();
    let before = sites::get(&store, id).await.unwrap().unwrap();
    store.close().await;
    drop(store);

    let store = dir.open();
    let after = sites::get(&store, id).await.unwrap().unwrap();
    assert_eq!(after, before);
    assert_eq!(after.endpoints.len(), 2);
    assert_eq!(sites::list(&store).await.unwrap(), vec![after]);
}

fn endpoint(url: &str) -> NewEndpoint {
    NewEndpoint { url: url.into(), enabled: true, sort_order: 0 }
}

#[tokio::test]
async fn a_replaced_pool_keeps_the_rows_whose_address_stays() {
    let dir = Dir::new();
    let store = dir.open();
    let id = sites::insert(
        &store,
        NewSite { endpoints: vec![endpoint("https://a"), endpoint("https://b")], ..site("blue") },
    )
    .await
    .unwrap();
    let before = sites::get(&store, id).await.unwrap().unwrap().endpoints;
    let patch = SitePatch {
        endpoints: Some(vec![endpoint("https://c"), endpoint("https://b")]),
        ..SitePatch::default()
    };
    sites::update(&store, id, patch).await.unwrap();
    let after = sites::get(&store, id).await.unwrap().unwrap().endpoints;
    assert_eq!(after.iter().map(|row| row.url.as_str()).collect::<Vec<_>>(), ["https://b", "https://c"]);
    assert_eq!(after[0].id, before[1].id);
}
