//! Credentials at rest: nobody can read them from the files, and changing the secret loses none.

use super::*;
use crate::ids::AccountId;

const CREDENTIALS: [&str; 6] =
    ["plain-access", "plain-api", "plain-proxy-password", "plain-header", "plain-refresh", "plain-password"];

async fn store_credentials(store: &Store) -> AccountId {
    let proxy = Secret::new("http://user:plain-proxy-password@proxy:3128");
    let new = NewSite {
        proxy_url: Some(proxy.clone()),
        custom_headers: Some(Secret::new("{\"x-key\":\"plain-header\"}")),
        ..site("blue")
    };
    let id = sites::insert(store, new).await.unwrap();
    let account = NewAccount {
        access_token: Some(Secret::new("plain-access")),
        api_token: Some(Secret::new("plain-api")),
        proxy_url: Some(proxy),
        refresh_token: Some(Secret::new("plain-refresh")),
        ..NewAccount::on_site(id)
    };
    let account = accounts::insert(store, account).await.unwrap();
    let login =
        AccountPatch { login_password: Some(Some(Secret::new("plain-password"))), ..AccountPatch::default() };
    accounts::update(store, account, login).await.unwrap();
    account
}

async fn access_token(store: &Store, id: AccountId) -> Option<Secret> {
    accounts::get(store, id).await.unwrap().unwrap().access_token
}

#[tokio::test]
async fn no_credential_is_readable_in_any_file() {
    let dir = Dir::new();
    let store = dir.open();
    let id = store_credentials(&store).await;
    let row = accounts::get(&store, id).await.unwrap().unwrap();
    assert_eq!(row.login_password.as_ref().unwrap().expose(), "plain-password");
    let shown = format!("{row:?} {:?}", sites::list(&store).await.unwrap());
    for credential in CREDENTIALS {
        assert!(!dir.holds(credential), "{credential} is in a file of the running store");
        assert!(!shown.contains(credential), "{credential} is in a debug line");
    }
    assert!(dir.holds("https://blue.example.com"), "the search itself works");
    store.close().await;
    for credential in CREDENTIALS {
        assert!(!dir.holds(credential), "{credential} is in a file of the closed store");
    }
}

#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    if database::is_on_server() {
        return; // It inspects the file.
    }
    let dir = Dir::new();
    let store = dir.open();
    let id = store_credentials(&store).await;
    // The state that a killed process leaves: the files as they are at this moment.
    let left = Dir::new();
    std::fs::create_dir(&left.0).unwrap();
    for file in ["switchyard.db", "switchyard.db-wal"] {
        std::fs::copy(dir.0.join(file), left.0.join(file)).unwrap();
    }
    let revived = left.open();
    assert_eq!(access_token(&revived, id).await.unwrap().expose(), "plain-access");
}

#[tokio::test]
async fn a_changed_secret_rewraps_the_keys_and_no_row() {
    let dir = Dir::new();
    let store = Store::open(dir.options("old")).unwrap();
    let id = store_credentials(&store).await;
    drop(store);
    let stored = |dir: &Dir| dir.raw().text("SELECT access_token FROM accounts");
    let before = stored(&dir);

    let previous_secrets = vec!["never".into(), "old".into()];
    let store = Store::open(StoreOptions { previous_secrets, ..dir.options("new") }).unwrap();
    assert_eq!(access_token(&store, id).await.unwrap().expose(), "plain-access");
    drop(store);
    assert_eq!(stored(&dir), before);

    let store = Store::open(dir.options("new")).unwrap();
    assert_eq!(access_token(&store, id).await.unwrap().expose(), "plain-access");
    drop(store);
    assert!(matches!(Store::open(dir.options("old")), Err(OpenError::WrongSecret(_))));
}

#[tokio::test]
async fn a_missing_old_secret_stops_the_start_and_names_both_variables() {
    let dir = Dir::new();
    let store = Store::open(dir.options("old")).unwrap();
    store_credentials(&store).await;
    drop(store);
    let error = Store::open(dir.options("new")).err().unwrap();
    assert_eq!(error.exit_code(), 78);
    for variable in ["ACCOUNT_CREDENTIAL_SECRET ", "ACCOUNT_CREDENTIAL_SECRET_PREVIOUS"] {
        assert!(error.to_string().contains(variable), "{error}");
    }
    Store::open(dir.options("old")).expect("nothing was changed");
}

#[tokio::test]
async fn a_lost_secret_empties_what_cannot_be_opened_and_says_so() {
    let dir = Dir::new();
    let store = Store::open(dir.options("old")).unwrap();
    let id = store_credentials(&store).await;
    settings::put(
        &store,
        vec![("auth_token".into(), "\"t\"".into()), ("checkin_cron".into(), "\"c\"".into())],
    )
    .await
    .unwrap();
    drop(store);
    dir.raw().run(
        "INSERT INTO downstream_api_keys (name, key_hash, key_enc, created_at, updated_at) \
           VALUES ('k', 'h', 'enc:2:1:AAAA', 0, 0);
         INSERT INTO account_tokens (account_id, name, token_enc, token_hash, created_at, updated_at) \
           VALUES (1, 't', 'enc:2:1:AAAA', 'h', 0, 0);",
    );

    let store = Store::open(StoreOptions { secret_lost: true, ..dir.options("new") }).unwrap();
    let row = accounts::get(&store, id).await.unwrap().unwrap();
    assert_eq!((row.access_token, row.api_token, row.login_password), (None, None, None));
    assert_eq!(row.health.unwrap().state, accounts::HealthState::Unhealthy);
    assert_eq!(tokens::list(&store).await.unwrap()[0].value_status, tokens::ValueStatus::MaskedPending);
    assert_eq!(settings::all(&store).await.unwrap().into_keys().collect::<Vec<_>>(), ["checkin_cron"]);
    let enabled = store.query("SELECT enabled FROM downstream_api_keys", vec![]).await.unwrap();
    assert_eq!(enabled[0].fields().bool(), Ok(false));
    let events = events::list(&store, &EventFilter { limit: 9, ..EventFilter::default() }).await.unwrap();
    assert_eq!((events.len(), events[0].level), (1, EventLevel::Error));
    let id = store_credentials_again(&store).await;
    drop(store);
    let store = Store::open(dir.options("new")).unwrap();
    assert_eq!(access_token(&store, id).await.unwrap().expose(), "again");
}

async fn store_credentials_again(store: &Store) -> AccountId {
    let site_id = sites::insert(store, site("green")).await.unwrap();
    let account = NewAccount { access_token: Some(Secret::new("again")), ..NewAccount::on_site(site_id) };
    accounts::insert(store, account).await.unwrap()
}

#[tokio::test]
async fn plain_text_and_the_v1_form_are_sealed_at_the_next_start() {
    let dir = Dir::new();
    drop(dir.open());
    dir.raw().run(
        "INSERT INTO sites (name, url, platform, proxy_url, created_at, updated_at) \
           VALUES ('a', 'u', 'p', 'http://u:plain-swept@p', 0, 0);
         INSERT INTO accounts (site_id, access_token, login_password, created_at, updated_at) VALUES \
           (1, 'plain-swept', \
           'v1:AAECAwQFBgcICQoL:yHWzWCJLWfHKEwZAE4ldBg:3AnLk79f1HWo--M', 0, 0);
         INSERT INTO account_tokens (account_id, name, token_enc, created_at, updated_at) \
           VALUES (1, 't', 'plain-swept', 0, 0);
         INSERT INTO settings (name, value, updated_at) VALUES ('smtp_pass', '\"plain-swept\"', 0);",
    );
    assert!(dir.holds("plain-swept"));
    let options = dir.options("a secret");
    let store =
        Store::open(StoreOptions { previous_secrets: vec!["vector-secret".into()], ..options }).unwrap();
    assert!(!dir.holds("plain-swept"));
    let row = &accounts::list(&store).await.unwrap()[0];
    assert_eq!(row.access_token.as_ref().unwrap().expose(), "plain-swept");
    assert_eq!(row.login_password.as_ref().unwrap().expose(), "pässword-1");
    assert_eq!(settings::all(&store).await.unwrap()["smtp_pass"].expose(), "\"plain-swept\"");
    let token = store.query("SELECT token_hash FROM account_tokens", vec![]).await.unwrap();
    assert_eq!(token[0].fields().text(), Ok(store.sealer().index(" plain-swept ")));
    drop(store);
    let sealed = dir.raw().text("SELECT login_password FROM accounts");
    assert!(sealed.starts_with("enc:2:1:"), "{sealed}");
}

#[test]
fn a_sealed_value_opens_in_its_own_column_only() {
    let dir = Dir::new();
    let store = dir.open();
    let sealer = store.sealer();
    let sealed = sealer.seal("accounts", "api_token", "sk-ä").unwrap();
    assert_ne!(sealed, sealer.seal("accounts", "api_token", "sk-ä").unwrap(), "every nonce is fresh");
    assert_eq!(sealer.open("accounts", "api_token", sealed.as_str()).unwrap().expose(), "sk-ä");
    assert_eq!(sealer.seal("accounts", "api_token", "").unwrap().as_str(), "");
    let mut damaged = sealed.as_str().to_owned();
    damaged.pop();
    for (column, stored) in
        [("access_token", sealed.as_str()), ("api_token", &damaged), ("api_token", "enc:2:9:AA")]
    {
        let refused = sealer.open("accounts", column, stored);
        assert_eq!(refused, Err(Error::Sealed(format!("accounts.{column}"))));
    }
    assert_eq!(
        sealer.open("accounts", "api_token", "older plain text").unwrap().expose(),
        "older plain text"
    );
    assert_eq!(sealer.index(" sk "), sealer.index("sk"));
    assert_eq!(sealer.index("sk").len(), 64);
    assert_ne!(sealer.index("sk"), sealer.index("SK"));
}
