//! Tests of a run over everything while somebody else changes routes.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::config;

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_is_imported_while_a_rebuild_waits_for_its_turn_keeps_its_number() {
    let folder = std::env::temp_dir().join(format!("switchyard-rebuild-{}", crate::uuid::v4()));
    let values = [("DATA_DIR", folder.to_str().unwrap()), ("ACCOUNT_CREDENTIAL_SECRET", "of-these-tests")];
    let values: HashMap<String, String> =
        values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let core = Core::start(config::read(&values).unwrap().0).await.unwrap();
    let jobs = Jobs::new(&core);
    let file = rusqlite::Connection::open(folder.join("switchyard.db")).unwrap();
    let change = |sql: &str| assert_eq!(file.execute(sql, []), Ok(1));
    change(
        "INSERT INTO sites (id, name, url, platform, created_at, updated_at) \
        VALUES (1, 'a', 'https://a.example', 'openai', 0, 0)",
    );
    change(
        "INSERT INTO accounts (id, site_id, api_token, credential_mode, created_at, updated_at) \
        VALUES (1, 1, 'sk-a', 'apikey', 0, 0)",
    );
    change("INSERT INTO model_availability (account_id, model_name, checked_at) VALUES (1, 'm-1', 0)");

    let turn = core.route_edits.lock().await;
    let mut running = pin!(rebuild(&jobs));
    let waits = timeout(Duration::from_millis(300), &mut running).await;
    assert!(waits.is_err(), "the run adds a route, and somebody else is changing routes");
    change("INSERT INTO model_availability (account_id, model_name, checked_at) VALUES (1, 'm-2', 0)");
    change(
        "INSERT INTO token_routes (id, model_pattern, created_at, updated_at) \
        VALUES (70, 'm-2', 0, 0)",
    );
    drop(turn);
    running.await.expect("a run");

    let routes = store::routes::list(&core.store).await.expect("routes");
    let imported = routes.iter().find(|route| route.model_pattern == "m-2").expect("the imported route");
    assert_eq!(imported.id.get(), 70);
    core.stop().await;
    let _ = std::fs::remove_dir_all(folder);
}
