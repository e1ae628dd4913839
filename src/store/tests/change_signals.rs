//! Notifications between instances on one database. SQLite serves one process.

use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::store::instance_changes;
use crate::store::versions::Scope;

/// Only limits how long a failing test takes.
const SOON: Duration = Duration::from_secs(15);

async fn changed(store: &Store) -> Vec<Scope> {
    let versions = store.database().versions();
    let found = instance_changes::look(store).await.expect("a look");
    found.iter().for_each(|version| versions.taken_over(*version));
    found.into_iter().map(|version| version.scope).collect()
}

#[tokio::test]
async fn a_commit_announces_its_changes_to_the_other_instances() {
    if !database::is_on_server() {
        return;
    }
    let dir = Dir::new();
    let (one, other) = (dir.open(), dir.open());
    changed(&one).await;
    changed(&other).await;
    let site = sites::insert(&one, site("blue")).await.expect("a site");
    assert_eq!(changed(&other).await, [Scope::Routing]);
    assert!(changed(&other).await.is_empty());
    assert!(changed(&one).await.is_empty(), "it was there when it happened");
    settings::put(&other, vec![("notify_cooldown_sec".to_owned(), "7".to_owned())]).await.expect("saved");
    accounts::insert(&other, api_key(site, "sk-blue")).await.expect("an account");
    assert_eq!(changed(&one).await, [Scope::Routing, Scope::Settings]);
    assert!(changed(&other).await.is_empty());
    let sql = "UPDATE settings SET value = ? WHERE name = ?";
    let nowhere = Statement::new(sql, vec!["1".into(), "none".into()]).must_change();
    let refused = other.batch(vec![nowhere]);
    assert_eq!(refused.await, Err(Error::NotFound));
    assert!(changed(&one).await.is_empty(), "what was not committed is not announced");
}

#[tokio::test]
async fn postgresql_signals_a_change_by_itself() {
    let dir = Dir::new();
    let (one, other) = match &dir.1 {
        Some(server) if server.kind() == "postgres" => (dir.open(), dir.open()),
        _ => return,
    };
    // The first notification only says that it is now listening.
    timeout(SOON, other.database().changes_signalled()).await.expect("it listens");
    sites::insert(&one, site("blue")).await.expect("a site");
    timeout(SOON, other.database().changes_signalled()).await.expect("a signal");
    assert_eq!(changed(&other).await, [Scope::Routing]);
}
