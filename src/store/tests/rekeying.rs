//! Replacing the keys of a database in use: whatever happens meanwhile, no credential is lost.

use super::super::keys::KeySettings;
use super::super::rekey::{self, Finished};
use super::super::tokens::TokenRow;
use super::super::{Purpose, keys, tokens};
use super::*;
use crate::ids::{AccountId, SiteId, TokenId};
use crate::keys::KeyTable;

/// Every sealed column, with the column that identifies its row.
const COLUMNS: [(&str, &str); 5] = [
    ("sites", "custom_headers"),
    ("accounts", "api_token"),
    ("account_tokens", "token_enc"),
    ("downstream_api_keys", "key_enc"),
    ("settings", "value"),
];

/// More than two batches.
const MANY: usize = 450;

async fn filled(store: &Store) -> SiteId {
    let headers = Some(Secret::new("{\"x-key\":\"header\"}"));
    let site = sites::insert(store, NewSite { custom_headers: headers, ..site("blue") }).await.unwrap();
    for number in 0..MANY {
        accounts::insert(store, api_key(site, &format!("sk-{number}"))).await.unwrap();
    }
    tokens::save(store, AccountId::new(1), &[], &[token("sk-t-0"), token("sk-t-1")]).await.unwrap();
    keys::insert(store, &Secret::new("sk-client"), &named("team")).await.unwrap();
    settings::put(store, vec![("smtp_pass".into(), "\"mail\"".into())]).await.unwrap();
    site
}

fn token(value: &str) -> TokenRow {
    TokenRow {
        id: TokenId::ZERO,
        account_id: AccountId::new(1),
        name: value.into(),
        token: Some(Secret::new(value)),
        token_group: None,
        value_status: tokens::ValueStatus::Ready,
        source: tokens::TokenSource::Manual,
        enabled: true,
        is_default: value.ends_with('0'),
        created_at: 0,
        updated_at: 0,
    }
}

fn named(name: &str) -> KeySettings {
    KeySettings { name: name.into(), enabled: true, ..KeySettings::default() }
}

async fn all_values_open(store: &Store) {
    assert!(sites::list(store).await.unwrap()[0].custom_headers.is_some());
    for (number, row) in accounts::list(store).await.unwrap().iter().enumerate() {
        // The first account's key mirrors its default token.
        let key = if number == 0 { "sk-t-0".to_owned() } else { format!("sk-{number}") };
        assert_eq!(row.api_token.as_ref().map(Secret::expose), Some(key.as_str()));
    }
    let values = tokens::list(store).await.unwrap();
    let values: Vec<&str> = values.iter().filter_map(|row| row.token.as_ref().map(Secret::expose)).collect();
    assert_eq!(values, ["sk-t-0", "sk-t-1"]);
    assert_eq!(keys::list(store).await.unwrap()[0].key.as_ref().map(Secret::expose), Some("sk-client"));
    assert_eq!(settings::all(store).await.unwrap()["smtp_pass"].expose(), "\"mail\"");
}

/// Returns `id purpose status` of every key.
fn key_rows(dir: &Dir) -> Vec<String> {
    let rows = dir.raw().rows("SELECT id, purpose, status FROM crypto_keys ORDER BY id");
    rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect()
}

/// Counts the values sealed with this key.
fn sealed_with(dir: &Dir, id: i64) -> i64 {
    let raw = dir.raw();
    let count = |(table, column): (&str, &str)| -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table} WHERE {column} LIKE 'enc:2:{id}:%'");
        raw.number(&sql)
    };
    COLUMNS.map(count).iter().sum()
}

async fn finish(store: &Store, purpose: Purpose) -> Finished {
    rekey::finish(store, purpose, &|_| {}).await.unwrap()
}

#[tokio::test]
async fn a_rotation_seals_every_value_anew_and_deletes_the_former_key() {
    let dir = Dir::new();
    let store = dir.open();
    filled(&store).await;
    let sealed = sealed_with(&dir, 1);
    assert_eq!(sealed as usize, 1 + MANY + 2 + 1 + 1);

    assert_eq!(rekey::replace(&store, Purpose::Seal).await, Ok(3));
    assert_eq!(key_rows(&dir), ["1 seal retired", "2 index active", "3 seal active"]);
    all_values_open(&store).await;
    let told = std::sync::Mutex::new(Vec::new());
    let tell = |count| told.lock().unwrap().push(count);
    let finished = rekey::finish(&store, Purpose::Seal, &tell).await.unwrap();
    let expected = Finished { active: 3, renewed: sealed as u64, unreadable: 0, deleted: 1, kept: 0 };
    assert_eq!(finished, expected);
    // The site, three batches of accounts, the tokens, the key, the setting.
    assert_eq!(*told.lock().unwrap(), [1, 201, 401, 451, 453, 454, 455]);
    assert_eq!((sealed_with(&dir, 1), sealed_with(&dir, 3)), (0, sealed));
    assert_eq!(key_rows(&dir), ["2 index active", "3 seal active"]);
    assert!(!rekey::is_unfinished(&store, Purpose::Seal));

    // Again, and ids are never used twice.
    assert_eq!(rekey::replace(&store, Purpose::Seal).await, Ok(4));
    assert_eq!(finish(&store, Purpose::Seal).await.deleted, 1);
    assert_eq!(key_rows(&dir), ["2 index active", "4 seal active"]);
    all_values_open(&store).await;
    drop(store);
    all_values_open(&dir.open()).await;
}

#[tokio::test]
async fn two_rotations_before_the_first_is_finished_lose_nothing() {
    let dir = Dir::new();
    let store = dir.open();
    filled(&store).await;
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    settings::put(&store, vec![("bark_url".into(), "\"b\"".into())]).await.unwrap();
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    assert_eq!(finish(&store, Purpose::Seal).await.deleted, 2);
    assert_eq!(key_rows(&dir), ["2 index active", "4 seal active"]);
    all_values_open(&store).await;
    assert_eq!(settings::all(&store).await.unwrap()["bark_url"].expose(), "\"b\"");
}

#[tokio::test(start_paused = true)]
async fn a_write_under_way_keeps_its_key() {
    let dir = Dir::new();
    let store = dir.open();
    let under_way = settings::put_statement(&store, "smtp_pass", "\"late\"", 0).unwrap();
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    let finished = finish(&store, Purpose::Seal).await;
    assert_eq!((finished.deleted, finished.kept), (0, 1), "nobody knows when it will be written");
    store.batch(vec![under_way]).await.unwrap();
    assert_eq!(sealed_with(&dir, 1), 1);
    let finished = finish(&store, Purpose::Seal).await;
    assert_eq!((finished.renewed, finished.deleted, finished.kept), (1, 1, 0));
    drop(store);
    assert_eq!(settings::all(&dir.open()).await.unwrap()["smtp_pass"].expose(), "\"late\"");
}

#[tokio::test]
async fn a_rotation_waits_for_the_writes_under_way() {
    let dir = Dir::new();
    let store = dir.open();
    let under_way = settings::put_statement(&store, "smtp_pass", "\"late\"", 0).unwrap();
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    let work = tokio::spawn({
        let store = store.clone();
        async move { finish(&store, Purpose::Seal).await }
    });
    store.batch(vec![under_way]).await.unwrap();
    let finished = work.await.unwrap();
    assert_eq!((finished.renewed, finished.deleted), (1, 1));
    assert_eq!(settings::all(&store).await.unwrap()["smtp_pass"].expose(), "\"late\"");
}

#[tokio::test]
async fn a_change_during_a_rotation_holds() {
    let dir = Dir::new();
    let store = dir.open();
    filled(&store).await;
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    let changes = async {
        for id in (2..=MANY as i64).rev() {
            let new = Some(Some(Secret::new(format!("new-{id}"))));
            let patch = AccountPatch { api_token: new, ..AccountPatch::default() };
            accounts::update(&store, AccountId::new(id), patch).await.unwrap();
        }
    };
    let (finished, ()) = tokio::join!(finish(&store, Purpose::Seal), changes);
    assert_eq!((finished.deleted, finished.unreadable), (1, 0));
    for row in accounts::list(&store).await.unwrap().iter().skip(1) {
        assert_eq!(row.api_token.as_ref().unwrap().expose(), format!("new-{}", row.id));
    }
    assert_eq!(sealed_with(&dir, 1), 0);
}

#[tokio::test]
async fn a_value_that_does_not_open_stays_and_keeps_its_key() {
    let dir = Dir::new();
    let store = dir.open();
    filled(&store).await;
    dir.raw().run("UPDATE accounts SET api_token = 'enc:2:1:AAAA' WHERE id = 9");
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    let finished = finish(&store, Purpose::Seal).await;
    assert_eq!((finished.unreadable, finished.deleted, finished.kept), (1, 0, 1));
    assert_eq!(sealed_with(&dir, 1), 1);
    drop(store);

    let store = dir.open();
    assert!(rekey::is_unfinished(&store, Purpose::Seal));
    let patch = AccountPatch { api_token: Some(Some(Secret::new("sk-8"))), ..AccountPatch::default() };
    accounts::update(&store, AccountId::new(9), patch).await.unwrap();
    let finished = finish(&store, Purpose::Seal).await;
    assert_eq!((finished.renewed, finished.unreadable, finished.deleted), (0, 0, 1));
    all_values_open(&store).await;
}

#[tokio::test]
async fn an_interrupted_change_of_keys_goes_on_under_another_secret() {
    let dir = Dir::new();
    let store = Store::open(dir.options("old")).unwrap();
    filled(&store).await;
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    rekey::replace(&store, Purpose::Index).await.unwrap();
    drop(store);
    let retired = ["1 seal retired", "2 index retired", "3 seal active", "4 index active"];
    assert_eq!(key_rows(&dir), retired);

    let options = StoreOptions { previous_secrets: vec!["old".into()], ..dir.options("new") };
    drop(Store::open(options).unwrap());
    let store = Store::open(dir.options("new")).unwrap();
    all_values_open(&store).await;
    for purpose in [Purpose::Seal, Purpose::Index] {
        assert!(rekey::is_unfinished(&store, purpose));
        assert_eq!(finish(&store, purpose).await.deleted, 1);
    }
    assert_eq!(key_rows(&dir), ["3 seal active", "4 index active"]);
    drop(store);
    all_values_open(&Store::open(dir.options("new")).unwrap()).await;
}

#[tokio::test]
async fn a_lost_secret_takes_the_retired_keys_along() {
    let dir = Dir::new();
    let store = Store::open(dir.options("old")).unwrap();
    filled(&store).await;
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    rekey::replace(&store, Purpose::Index).await.unwrap();
    drop(store);
    let store = Store::open(StoreOptions { secret_lost: true, ..dir.options("new") }).unwrap();
    assert_eq!(key_rows(&dir), ["5 seal active", "6 index active"]);
    assert!(accounts::list(&store).await.unwrap().iter().all(|row| row.api_token.is_none()));
    assert!(!rekey::is_unfinished(&store, Purpose::Seal) && !rekey::is_unfinished(&store, Purpose::Index));
}

#[tokio::test]
async fn a_reset_in_the_middle_keeps_the_keys() {
    let dir = Dir::new();
    let store = dir.open();
    filled(&store).await;
    rekey::replace(&store, Purpose::Seal).await.unwrap();
    super::super::reset::everything(&store, "token").await.unwrap();
    let finished = finish(&store, Purpose::Seal).await;
    assert_eq!((finished.renewed, finished.deleted), (0, 1));
    drop(store);
    assert_eq!(settings::all(&dir.open()).await.unwrap()["auth_token"].expose(), "\"token\"");
}

#[tokio::test]
async fn a_new_index_key_makes_every_hash_anew() {
    let dir = Dir::new();
    let store = dir.open();
    filled(&store).await;
    let masked = TokenRow { value_status: tokens::ValueStatus::MaskedPending, ..token("sk-***") };
    let before = tokens::of_account(&store, AccountId::new(1)).await.unwrap();
    let after = [&before[..], &[masked]].concat();
    tokens::save(&store, AccountId::new(1), &before, &after).await.unwrap();
    for number in 0..MANY {
        let key = Secret::new(format!("sk-many-{number}"));
        keys::insert(&store, &key, &named("many")).await.unwrap();
    }
    let damaged = "UPDATE downstream_api_keys SET key_enc = 'enc:2:1:AAAA', key_hash = 'h' WHERE id = 2";
    dir.raw().run(damaged);
    let table = keys::load_table(&store, &KeyTable::default()).await.unwrap();

    assert_eq!(rekey::replace(&store, Purpose::Index).await, Ok(3));
    assert_eq!(key_rows(&dir), ["1 seal active", "2 index retired", "3 index active"]);
    let finished = finish(&store, Purpose::Index).await;
    let renewed = 2 + MANY as u64;
    assert_eq!(finished, Finished { active: 3, renewed, unreadable: 1, deleted: 1, kept: 0 });
    assert_eq!(key_rows(&dir), ["1 seal active", "3 index active"]);
    for (table, column, hash) in
        [("account_tokens", "token_enc", "token_hash"), ("downstream_api_keys", "key_enc", "key_hash")]
    {
        let sql = format!("SELECT {column}, {hash} FROM {table} WHERE {hash} IS NOT NULL AND {hash} <> 'h'");
        for row in store.query(sql, vec![]).await.unwrap() {
            let mut row = row.fields();
            let plain = store.sealer().open(table, column, row.str().unwrap()).unwrap();
            assert_eq!(row.str().unwrap(), store.sealer().index(plain.expose()));
        }
    }
    assert!(
        store.query("SELECT 1 FROM account_tokens WHERE token_hash IS NULL", vec![]).await.unwrap().len()
            == 1
    );
    assert!(table.find(&store.sealer().digest(b"sk-client")).is_some(), "what is in memory still finds it");
    drop(store);
    let store = dir.open();
    let again = keys::insert(&store, &Secret::new("sk-client"), &named("again")).await;
    assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
}

#[tokio::test]
async fn no_value_is_stored_twice_while_the_index_key_changes() {
    let dir = Dir::new();
    let store = dir.open();
    filled(&store).await;
    let other = keys::insert(&store, &Secret::new("sk-other"), &named("other")).await.unwrap();
    let client = Secret::new("sk-client");
    let rows = tokens::of_account(&store, AccountId::new(1)).await.unwrap();
    let with = |value: &str| [&rows[..], &[token(value)]].concat();
    for _ in ["replaced", "twice, and not finished in between"] {
        rekey::replace(&store, Purpose::Index).await.unwrap();
        for refused in [
            keys::insert(&store, &client, &named("again")).await.map(drop),
            keys::update(&store, other, Some(&client), &named("other")).await,
            tokens::save(&store, AccountId::new(1), &rows, &with("sk-t-1")).await.map(drop),
        ] {
            assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        }
    }
    // The values of rows may be written again, and exchanged between rows.
    keys::update(&store, other, Some(&Secret::new("sk-other")), &named("other")).await.unwrap();
    let mut moved = rows.clone();
    moved[0].token.clone_from(&rows[1].token);
    moved[1].token.clone_from(&rows[0].token);
    tokens::save(&store, AccountId::new(1), &rows, &moved).await.unwrap();
    keys::insert(&store, &Secret::new("sk-new"), &named("new")).await.unwrap();
    assert_eq!(finish(&store, Purpose::Index).await.deleted, 2);
    assert_eq!(key_rows(&dir), ["1 seal active", "4 index active"]);
    let again = keys::insert(&store, &client, &named("again")).await;
    assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
}

#[tokio::test]
async fn the_index_key_changes_between_two_turns_of_hashing() {
    let dir = Dir::new();
    let store = dir.open();
    store.batch(Vec::new()).await.unwrap(); // after the first keys
    let turn = store.sealer().hashing().await;
    let replaced = tokio::spawn({
        let store = store.clone();
        async move { rekey::replace(&store, Purpose::Index).await }
    });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(key_rows(&dir), ["1 seal active", "2 index active"]);
    assert_eq!(turn.index("a"), store.sealer().index("a"));
    drop(turn);
    assert_eq!(replaced.await.unwrap(), Ok(3));
    assert_eq!(store.sealer().hashing().await.former("a").count(), 1);
}
