//! The snapshot that requests read, built from rows.

use super::super::snapshot::Source;
use super::*;
use crate::ids::{AccountId, ChannelId, TokenId};
use crate::routing::rebuild::{Credential, NewChannel, NewRoute, Plan, Rebinding};
use crate::routing::{Channel, LiveTable, ProxyScheme, Snapshot, Weights};

async fn load(
    store: &Store,
    live: &LiveTable,
    system_proxy_url: Option<&str>,
    weights: Weights,
) -> Result<Arc<Snapshot>> {
    let source = Source::load(store, live, system_proxy_url, weights).await?;
    Ok(Arc::clone(source.snapshot()))
}

/// Adds a route with one channel for this account and token, and returns the channel's id.
async fn channel(store: &Store, account: AccountId, token: Option<TokenId>) -> ChannelId {
    let outcomes = store
        .batch(vec![
            Statement::new(
                "INSERT INTO token_routes (model_pattern, model_mapping, created_at, updated_at) \
                 VALUES ('gpt-5', '{\"z*\":\"one\",\"a\":\"two\"}', 0, 0)",
                vec![],
            ),
            Statement::new(
                "INSERT INTO route_channels (route_id, account_id, token_id, created_at, updated_at) \
                 VALUES (?, ?, ?, 0, 0)",
                vec![Value::IdOf(0), account.into(), token.into()],
            ),
            Statement::new(
                "INSERT INTO channel_stats (channel_id, success_count, total_cost) VALUES (?, 3, 0.5)",
                vec![Value::IdOf(1)],
            ),
        ])
        .await
        .unwrap();
    outcomes[1].id()
}

async fn token(store: &Store, account: AccountId, value: &str, enabled: bool) -> TokenId {
    let sealed = store.sealer().seal("account_tokens", "token_enc", value).unwrap();
    let insert = Statement::new(
        "INSERT INTO account_tokens (account_id, name, token_enc, enabled, created_at, updated_at) \
         VALUES (?, 'named', ?, ?, 0, 0)",
        vec![account.into(), sealed.into(), enabled.into()],
    );
    store.batch(vec![insert]).await.unwrap()[0].id()
}

fn find(snapshot: &Snapshot, id: ChannelId) -> Arc<Channel> {
    Arc::clone(snapshot.channels().find(|channel| channel.id == id).expect("the channel"))
}

#[tokio::test]
async fn a_channel_presents_the_credential_its_kind_calls_for() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let both = NewAccount {
        access_token: Some(Secret::new("session")),
        api_token: Some(Secret::new("sk-own")),
        ..NewAccount::on_site(site_id)
    };
    let plain = accounts::insert(&store, both.clone()).await.unwrap();
    let oauth = NewAccount { oauth_provider: Some("codex".into()), ..both };
    let oauth = accounts::insert(&store, oauth).await.unwrap();
    let blank = accounts::insert(&store, api_key(site_id, " ")).await.unwrap();
    let used = token(&store, plain, "sk-token", true).await;
    let unused = token(&store, plain, "sk-off", false).await;
    let cases = [
        (plain, None, Some("sk-own")),
        (plain, Some(used), Some("sk-token")),
        (plain, Some(unused), None),
        (oauth, None, Some("session")),
        (blank, None, None),
    ];
    for (account, token, expected) in cases {
        let id = channel(&store, account, token).await;
        let snapshot = load(&store, &LiveTable::default(), None, Weights::default()).await.unwrap();
        let channel = find(&snapshot, id);
        assert_eq!(channel.credential.as_ref().map(|credential| credential.secret().expose()), expected);
        assert_eq!(channel.token_name.is_some(), token.is_some());
        assert_eq!(channel.live.totals().success, 3);
        assert_eq!(channel.live.totals().cost_nano, 500_000_000);
    }
}

#[tokio::test]
async fn live_values_stay_when_the_snapshot_is_loaded_again() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let account = accounts::insert(&store, api_key(site_id, "sk")).await.unwrap();
    let id = channel(&store, account, None).await;
    let live = LiveTable::default();
    let snapshot = load(&store, &live, None, Weights::default()).await.unwrap();
    let _ = find(&snapshot, id).live.record_failure(1, 601);
    let snapshot = load(&store, &live, None, Weights::default()).await.unwrap();
    assert_eq!(find(&snapshot, id).live.cooldown_until(), Some(601));
    let mapping: Vec<_> =
        snapshot.routes().iter().next().unwrap().mapping.iter().map(|(from, _)| from.as_str()).collect();
    assert_eq!(mapping, ["z*", "a"], "the operator's order");
}

#[tokio::test]
async fn the_account_chooses_the_proxy_before_its_site_and_the_system() {
    let dir = Dir::new();
    let store = dir.open();
    let own = |host: &str| Some(Secret::new(format!("socks5://u:p@{host}:2")));
    let cases = [
        ("a", own("account"), true, own("site"), true, Some("account")),
        ("b", None, true, own("site"), true, Some("system")),
        ("c", None, false, own("site"), true, Some("site")),
        ("d", None, false, None, true, Some("system")),
        ("e", None, false, None, false, None),
    ];
    for (name, proxy_url, use_system_proxy, site_proxy, site_system, expected) in cases {
        let new = NewSite { proxy_url: site_proxy, use_system_proxy: site_system, ..site(name) };
        let site_id = sites::insert(&store, new).await.unwrap();
        let account = NewAccount { proxy_url, use_system_proxy, ..api_key(site_id, "sk") };
        let account = accounts::insert(&store, account).await.unwrap();
        let id = channel(&store, account, None).await;
        let snapshot =
            load(&store, &LiveTable::default(), Some("http://system:1"), Weights::default()).await.unwrap();
        let site = Arc::clone(&find(&snapshot, id).account.site);
        let proxy = site.endpoints[0].base.origin.proxy.as_ref();
        assert_eq!(proxy.map(|proxy| proxy.host.as_str()), expected, "{name}");
        let socks = expected.is_some_and(|host| host != "system");
        assert_eq!(proxy.is_some_and(|proxy| proxy.scheme == ProxyScheme::Socks5), socks, "{name}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_reported_and_never_bypassed() {
    let dir = Dir::new();
    let store = dir.open();
    let off = NewEndpoint { enabled: false, ..endpoint("https://pool") };
    let cases = [
        NewSite { proxy_url: Some(Secret::new("gopher://u:hidden@p")), ..site("a") },
        NewSite { use_system_proxy: true, ..site("b") },
        NewSite { platform: "from-the-future".into(), ..site("c") },
        NewSite { url: "no address".into(), ..site("d") },
        NewSite { endpoints: vec![off], ..site("e") },
    ];
    for new in cases {
        sites::insert(&store, new).await.unwrap();
    }
    let snapshot = load(&store, &LiveTable::default(), Some("nonsense"), Weights::default()).await.unwrap();
    assert_eq!(snapshot.sites().len(), 5);
    for site in snapshot.sites().iter() {
        let problem = site.misconfigured.as_ref().unwrap_or_else(|| panic!("{} is usable", site.name));
        assert!(!problem.to_string().contains("hidden"), "{problem}");
    }
}

#[tokio::test]
async fn custom_headers_are_sent_as_stored() {
    let dir = Dir::new();
    let store = dir.open();
    let text = "{\"x-one\":\"1\",\"bad name\":\"2\",\"x-two\":\"3\"}";
    let new = NewSite { custom_headers: Some(Secret::new(text)), ..site("a") };
    sites::insert(&store, new).await.unwrap();
    let snapshot = load(&store, &LiveTable::default(), None, Weights::default()).await.unwrap();
    let headers = &snapshot.sites().iter().next().unwrap().custom_headers;
    let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-one", "x-two"]);
    assert!(headers.iter().all(|(_, value)| value.is_sensitive()));
}

#[tokio::test]
async fn a_rebuild_is_carried_out_as_a_whole() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let account_id = accounts::insert(&store, api_key(site_id, "sk")).await.unwrap();
    let own = Credential { account_id, token_id: None, unit_id: None };
    let first = ["a", "b"].map(|model| NewRoute { model: model.into(), channels: vec![own] });
    routes::apply(&store, &Plan { create_routes: first.to_vec(), ..Plan::default() }, None).await.unwrap();
    let rows = routes::list_channels(&store).await.unwrap();
    let (a, b) = (rows[0].clone(), rows[1].clone());
    assert_eq!((a.source_model.as_deref(), a.priority, a.weight, a.enabled), (Some("a"), 0, 10, true));
    assert_eq!(count(&store, "channel_stats").await, 2);

    let token_id = token(&store, account_id, "sk-token", true).await;
    let second = Plan {
        create_channels: vec![NewChannel { route_id: b.route_id, credential: own, source_model: "x".into() }],
        rebind_channels: vec![Rebinding { channel_id: b.id, token_id }],
        delete_channels: vec![a.id],
        delete_routes: vec![a.route_id],
        ..Plan::default()
    };
    routes::apply(&store, &second, None).await.unwrap();
    let rows = routes::list_channels(&store).await.unwrap();
    let left: Vec<_> = rows.iter().map(|row| (row.token_id, row.source_model.as_deref())).collect();
    assert_eq!(left, [(Some(token_id), Some("b")), (None, Some("x"))]);
    assert_eq!(routes::list(&store).await.unwrap().len(), 1);

    let nobody = Credential { account_id: AccountId::new(99), token_id: None, unit_id: None };
    let stale = [own, nobody].map(|credential| NewRoute { model: "c".into(), channels: vec![credential] });
    let refused =
        routes::apply(&store, &Plan { create_routes: stale.to_vec(), ..Plan::default() }, None).await;
    assert!(matches!(refused, Err(Error::Dangling(_))), "{refused:?}");
    assert_eq!(routes::list(&store).await.unwrap().len(), 1, "a stale plan changes nothing");

    dir.raw().run("UPDATE route_channels SET manual_override = TRUE");
    let late = Plan { delete_channels: rows.iter().map(|row| row.id).collect(), ..Plan::default() };
    routes::apply(&store, &late, None).await.unwrap();
    assert_eq!(count(&store, "route_channels").await, 2, "what an operator touched meanwhile stays");
}
