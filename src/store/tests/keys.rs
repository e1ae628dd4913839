//! Downstream keys: sealed, found by their HMAC, and counted so that a crash forgets nothing.

use super::super::keys::{ExcludedCredential, KeySettings};
use super::super::{keys, quota};
use super::*;
use crate::ids::{AccountId, KeyId, RouteId, SiteId};
use crate::keys::{KeyLive, KeyTable};
use crate::money::Usd;
use crate::routing::CredentialRef;

fn settings(max_requests: Option<i64>) -> KeySettings {
    KeySettings { name: "team".into(), enabled: true, max_requests, ..KeySettings::default() }
}

async fn stored(store: &Store, max_requests: Option<i64>) -> (KeyId, KeyLive) {
    let key = Secret::new(format!("sk-key-{max_requests:?}"));
    let id = keys::insert(store, &key, &settings(max_requests)).await.unwrap();
    (id, KeyLive::new(id, 0, Usd::new(0.0), None))
}

async fn counted(store: &Store, id: KeyId) -> i64 {
    keys::get(store, id).await.unwrap().expect("the key").used_requests
}

#[tokio::test]
async fn a_key_is_sealed_and_found_by_what_a_client_presents() {
    let dir = Dir::new();
    let store = dir.open();
    let full = KeySettings {
        tags: vec!["prod".into()],
        supported_models: vec!["gpt-*".into()],
        allowed_route_ids: vec![RouteId::new(3)],
        site_weight_multipliers: [(SiteId::new(2), 1.5)].into(),
        excluded_credential_refs: vec![ExcludedCredential::DefaultApiKey {
            site_id: SiteId::new(2),
            account_id: AccountId::new(5),
        }],
        ..settings(Some(7))
    };
    let id = keys::insert(&store, &Secret::new("sk-0123456789"), &full).await.unwrap();
    assert_eq!(keys::get(&store, id).await.unwrap().expect("the key").settings, full);
    let again = keys::insert(&store, &Secret::new("sk-0123456789"), &full).await;
    assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
    let table = keys::load_table(&store, &KeyTable::default()).await.unwrap();
    let found = table.find(&store.sealer().digest(b" sk-0123456789 ")).expect("the key");
    assert_eq!((found.id, found.max_requests), (id, Some(7)));
    assert!(found.policy.managed && found.policy.supports("gpt-5"));
    assert_eq!(
        found.policy.excluded_credentials,
        [CredentialRef::DefaultApiKey { account_id: AccountId::new(5) }]
    );
    assert!(table.find(&store.sealer().digest(b"sk-other")).is_none());
    store.close().await;
    assert!(!dir.holds("sk-0123456789"));
}

#[tokio::test]
async fn a_key_whose_exclusions_cannot_be_read_may_use_nothing() {
    let dir = Dir::new();
    let store = dir.open();
    let full = KeySettings {
        supported_models: vec!["gpt-*".into()],
        allowed_route_ids: vec![RouteId::new(3)],
        excluded_site_ids: vec![SiteId::new(2)],
        ..settings(None)
    };
    let id = keys::insert(&store, &Secret::new("sk-0123456789"), &full).await.unwrap();
    for column in ["excluded_site_ids", "excluded_credential_refs"] {
        let [damage, heal] = ["[2", "[]"].map(|text| {
            let sql = format!("UPDATE downstream_api_keys SET {column} = ? WHERE id = ?");
            Statement::new(sql, vec![text.into(), id.into()])
        });
        store.batch(vec![damage]).await.unwrap();
        let table = keys::load_table(&store, &KeyTable::default()).await.unwrap();
        let policy = &table.get(id).expect("the key").policy;
        assert!(policy.managed && !policy.supports("gpt-5"), "{column}");
        assert!(policy.allowed_route_ids.is_empty(), "{column}");
        store.batch(vec![heal]).await.unwrap();
        let healed = keys::get(&store, id).await.unwrap().expect("the key").settings;
        assert_eq!(healed.supported_models, full.supported_models, "{column}");
    }
}

#[tokio::test]
async fn a_block_is_counted_before_it_is_spent_and_the_rest_goes_back() {
    let dir = Dir::new();
    let store = dir.open();
    let (id, live) = stored(&store, Some(500)).await;
    assert!(quota::reserve(&store, &live, 500).await.unwrap());
    assert_eq!((counted(&store, id).await, live.requests.block(), live.requests.used()), (5, 5, 0));
    assert!(live.requests.take());
    quota::give_back(&store, &live).await.unwrap();
    assert_eq!((counted(&store, id).await, live.requests.block(), live.requests.used()), (1, 0, 1));
}

#[tokio::test]
async fn nothing_is_reserved_beyond_a_limit_that_others_share() {
    let dir = Dir::new();
    let store = dir.open();
    let (id, here) = stored(&store, Some(3)).await;
    let there = KeyLive::new(id, 0, Usd::new(0.0), None);
    let mut passed = 0;
    for live in [&here, &there].into_iter().cycle().take(10) {
        if quota::reserve(&store, live, 3).await.unwrap() && live.requests.take() {
            passed += 1;
        }
    }
    assert_eq!((passed, counted(&store, id).await), (3, 3));
}

#[tokio::test]
async fn a_reset_forgets_what_was_used_and_what_was_reserved() {
    let dir = Dir::new();
    let store = dir.open();
    let (id, live) = stored(&store, Some(10)).await;
    assert!(quota::reserve(&store, &live, 10).await.unwrap() && live.requests.take());
    let _ = live.charge(Usd::new(2.5), 1);
    quota::reset(&store, &live).await.unwrap();
    assert_eq!((counted(&store, id).await, live.requests.used(), live.requests.block()), (0, 0, 0));
    assert_eq!(live.used_cost(), Usd::new(0.0));
}

#[tokio::test]
async fn what_a_key_without_a_limit_uses_is_written_behind() {
    let dir = Dir::new();
    let store = dir.open();
    let (id, live) = stored(&store, None).await;
    let live = Arc::new(live);
    for _ in 0..3 {
        live.count();
    }
    store.telemetry().dirty_key(&live, live.charge(Usd::new(0.25), 50), false);
    store.flush().await;
    let row = keys::get(&store, id).await.unwrap().expect("the key");
    assert_eq!((row.used_requests, row.used_cost, row.last_used_at), (3, Usd::new(0.25), Some(50)));

    // What another instance wrote of a later use stays.
    dir.raw().run("UPDATE downstream_api_keys SET last_used_at = 70");
    store.telemetry().dirty_key(&live, live.charge(Usd::new(0.25), 60), false);
    store.flush().await;
    let row = keys::get(&store, id).await.unwrap().expect("the key");
    assert_eq!((row.used_cost, row.last_used_at), (Usd::new(0.5), Some(70)));
}
