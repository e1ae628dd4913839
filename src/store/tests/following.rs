//! The snapshot that follows from changes equals the one that a full load gives.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use proptest::prelude::*;

use super::super::balances::{self, NewBalance};
use super::super::route_edits::{self, ChannelPatch, Dependents, RouteDraft};
use super::super::route_units::{self, NewUnit};
use super::super::routes::{self, NewChannel};
use super::super::snapshot::Source;
use super::super::tokens;
use super::*;
use crate::ids::{AccountId, ChannelId, RouteId, SiteId, TokenId};
use crate::money::Usd;
use crate::routing::rebuild::{self, Credential, NewRoute, Plan, Rebinding};
use crate::routing::{Channel, LiveTable, Policy, Snapshot, Strategy, UnitRole, UnitStrategy, Weights};

const NAMES: &[&str] = &["alpha", "beta", "gamma", "al*", "re:^b", "delta"];

/// One change by an operator or a job: its kind, and numbers that choose rows and values.
type Step = (u8, usize, usize, usize);

/// The rows that exist.
struct Rows {
    sites: Vec<SiteId>,
    accounts: Vec<AccountId>,
    tokens: Vec<tokens::TokenRow>,
    routes: Vec<routes::RouteRow>,
    channels: Vec<routes::ChannelRow>,
}

impl Rows {
    async fn read(store: &Store) -> Self {
        Self {
            sites: sites::list(store).await.unwrap().iter().map(|row| row.id).collect(),
            accounts: accounts::list(store).await.unwrap().iter().map(|row| row.id).collect(),
            tokens: tokens::list(store).await.unwrap(),
            routes: routes::list(store).await.unwrap(),
            channels: routes::list_channels(store).await.unwrap(),
        }
    }

    fn credential(&self, account: usize, token: usize) -> Credential {
        match pick(&self.tokens, token) {
            Some(row) if token.is_multiple_of(3) => {
                Credential { account_id: row.account_id, token_id: Some(row.id), unit_id: None }
            }
            _ => Credential {
                account_id: pick(&self.accounts, account).copied().unwrap_or(AccountId::ZERO),
                token_id: None,
                unit_id: None,
            },
        }
    }

    fn new_channel(&self, account: usize, token: usize) -> NewChannel {
        let model = token.is_multiple_of(2).then(|| NAMES[account % 3].to_owned());
        let automatic = NewChannel::automatic(self.credential(account, token), "");
        NewChannel { source_model: model, manual_override: account.is_multiple_of(2), ..automatic }
    }
}

fn pick<T>(all: &[T], number: usize) -> Option<&T> {
    all.get(number % all.len().max(1))
}

fn draft(rows: &Rows, a: usize, b: usize, is_group: bool) -> RouteDraft {
    let sources = || rows.routes.iter().filter(|row| !row.is_group() && row.id.get() as usize % 3 != b % 3);
    RouteDraft {
        model_pattern: NAMES[a % NAMES.len()].to_owned(),
        display_name: (is_group || b.is_multiple_of(4)).then(|| NAMES[b % 3].to_owned()),
        display_icon: None,
        sources: is_group.then(|| sources().map(|row| row.id).collect()),
        model_mapping: None,
        routing_strategy: if b.is_multiple_of(2) { Strategy::Weighted } else { Strategy::RoundRobin },
        enabled: !a.is_multiple_of(5),
    }
}

fn endpoints(number: usize) -> Vec<sites::NewEndpoint> {
    let all = ["https://a", "https://b", "https://c"];
    let of = |(index, url): (usize, &&str)| {
        let enabled = !(number + index).is_multiple_of(3);
        sites::NewEndpoint { enabled, ..endpoint(url) }
    };
    all.iter().enumerate().filter(|(index, _)| number >> index & 1 == 1).map(of).collect()
}

/// Carries out a step. A step that the rows do not allow changes nothing, which is a case too.
async fn carry_out(store: &Store, (kind, a, b, c): Step) {
    let rows = Rows::read(store).await;
    let site_id = pick(&rows.sites, a).copied().unwrap_or(SiteId::ZERO);
    let account_id = pick(&rows.accounts, a).copied().unwrap_or(AccountId::ZERO);
    let route = pick(&rows.routes, a);
    let route_id = route.map_or(RouteId::ZERO, |row| row.id);
    let channel_id = pick(&rows.channels, a).map_or(ChannelId::ZERO, |row| row.id);
    let refused = match kind {
        0 | 1 => {
            let proxy_url = b.is_multiple_of(5).then(|| Secret::new("http://127.0.0.1:1"));
            let new = NewSite { endpoints: endpoints(b), proxy_url, ..site(&format!("site-{c}")) };
            sites::insert(store, new).await.err()
        }
        2 => {
            let patch = SitePatch {
                name: b.is_multiple_of(2).then(|| format!("name {c}")),
                endpoints: b.is_multiple_of(3).then(|| endpoints(c)),
                status: match c % 4 {
                    0 => Some(SiteStatus::Disabled),
                    1 => Some(SiteStatus::Active),
                    _ => None,
                },
                max_concurrency: b.is_multiple_of(5).then_some(Some(c as i64)),
                use_system_proxy: b.is_multiple_of(7).then_some(true),
                custom_headers: b
                    .is_multiple_of(4)
                    .then(|| Some(Secret::new(format!("{{\"x-a\":\"{c}\"}}")))),
                ..SitePatch::default()
            };
            sites::update(store, site_id, patch).await.err()
        }
        3 if c.is_multiple_of(3) => sites::delete(store, site_id).await.err(),
        3..=6 => {
            let proxy_url = b.is_multiple_of(4).then(|| Secret::new("socks5://127.0.0.1:2"));
            let new = NewAccount { proxy_url, ..api_key(site_id, &format!("sk-{b}-{c}")) };
            accounts::insert(store, new).await.err()
        }
        7 => {
            let patch = AccountPatch {
                username: b.is_multiple_of(2).then(|| Some(format!("user {c}"))),
                api_token: b.is_multiple_of(3).then(|| Some(Secret::new(format!("sk-new-{c}")))),
                balance: Some(Usd::new(c as f64)),
                use_system_proxy: b.is_multiple_of(5).then_some(c.is_multiple_of(2)),
                proxy_url: b.is_multiple_of(7).then_some(None),
                status: b.is_multiple_of(4).then_some(AccountStatus::Expired),
                ..AccountPatch::default()
            };
            accounts::update(store, account_id, patch).await.err()
        }
        8 if c.is_multiple_of(2) => accounts::delete(store, account_id).await.err(),
        8 => {
            let numbers =
                NewBalance { balance: Usd::new(b as f64), used: Usd::new(1.0), quota: Usd::new(2.0), at: 3 };
            balances::record(store, (account_id, None), &numbers, |_| (), &[]).await.err()
        }
        9 | 10 => {
            let before = tokens::of_account(store, account_id).await.unwrap();
            let mut after = before.clone();
            match after.get_mut(0) {
                Some(row) if b.is_multiple_of(3) => row.enabled = !row.enabled,
                Some(row) if b.is_multiple_of(5) => row.name = format!("token {c}"),
                Some(_) if b.is_multiple_of(2) => drop(after.remove(0)),
                _ => {
                    let mut row = tokens::TokenRow {
                        id: TokenId::ZERO,
                        account_id,
                        name: format!("token {c}"),
                        token: None,
                        token_group: None,
                        value_status: tokens::ValueStatus::MaskedPending,
                        source: tokens::TokenSource::Manual,
                        enabled: true,
                        is_default: after.is_empty(),
                        created_at: 0,
                        updated_at: 0,
                    };
                    row.set_value(&format!("sk-token-{b}-{c}"));
                    after.push(row);
                }
            }
            tokens::save(store, account_id, &before, &after).await.err()
        }
        11 | 12 => {
            let create = |name: usize| NewRoute {
                model: NAMES[name % 3].to_owned(),
                channels: vec![rows.credential(a, b), rows.credential(a + 1, b + 1)],
            };
            let plan = Plan {
                create_routes: (0..c % 3).map(create).collect(),
                create_channels: rows
                    .routes
                    .iter()
                    .filter(|row| !row.is_group())
                    .take(b % 3)
                    .map(|row| rebuild::NewChannel {
                        route_id: row.id,
                        credential: rows.credential(b, c),
                        source_model: row.model_pattern.clone(),
                    })
                    .collect(),
                rebind_channels: match pick(&rows.channels, a) {
                    Some(channel) if b.is_multiple_of(3) => {
                        let own = rows.tokens.iter().filter(|token| token.account_id == channel.account_id);
                        own.take(1).map(|token| Rebinding { channel_id, token_id: token.id }).collect()
                    }
                    _ => Vec::new(),
                },
                delete_channels: if c.is_multiple_of(4) { vec![channel_id] } else { Vec::new() },
                delete_routes: if a.is_multiple_of(6) { vec![route_id] } else { Vec::new() },
                ..Plan::default()
            };
            routes::apply(store, &plan, None).await.err()
        }
        13 => {
            let refill = Some(vec![rows.new_channel(a, b), rows.new_channel(b, c)]);
            let draft = draft(&rows, b, c, a.is_multiple_of(2));
            let dependents = match draft.sources {
                Some(_) => Dependents { refill: None, followers: vec![route_id] },
                None => Dependents { refill, followers: Vec::new() },
            };
            route_edits::create(store, &draft, dependents).await.err()
        }
        14 => {
            let is_group = route.is_some_and(routes::RouteRow::is_group);
            let draft = draft(&rows, b, c, is_group);
            let refill = (!is_group && b.is_multiple_of(2)).then(|| vec![rows.new_channel(b, c)]);
            route_edits::update(store, route_id, &draft, Dependents { refill, followers: Vec::new() })
                .await
                .err()
        }
        15 if c.is_multiple_of(3) => route_edits::delete(store, &[route_id]).await.err(),
        15 => route_edits::set_enabled(store, &[route_id], b.is_multiple_of(2)).await.err(),
        16 => {
            let is_group = route.is_none_or(routes::RouteRow::is_group);
            let channels = [rows.new_channel(b, c)];
            if is_group { None } else { route_edits::add_channels(store, route_id, &channels).await.err() }
        }
        17 => {
            let patch = ChannelPatch {
                token_id: b.is_multiple_of(3).then_some(None),
                source_model: b.is_multiple_of(4).then_some(None),
                priority: Some(c as i64),
                ..ChannelPatch::default()
            };
            route_edits::update_channels(store, vec![(channel_id, patch)]).await.err()
        }
        18 => route_edits::delete_channel(store, channel_id).await.err(),
        _ => {
            let sql = "UPDATE accounts SET username = 'unsaid' WHERE id = ?";
            store.batch(vec![Statement::new(sql, vec![account_id.into()])]).await.err()
        }
    };
    if let Some(error) = refused {
        let is_refusal = matches!(error, Error::NotFound | Error::Dangling(_) | Error::Conflict(_));
        assert!(is_refusal, "{error}");
    }
}

/// Describes everything in the snapshot, and which of its parts share one value.
fn picture(snapshot: &Snapshot) -> String {
    let mut picture = format!("{:?}\n", snapshot.weights);
    let mut accounts: HashMap<AccountId, BTreeSet<usize>> = HashMap::new();
    for site in snapshot.sites().iter() {
        writeln!(picture, "{site:?} {} {:?} {:?}", site.url, site.global_weight, site.max_concurrency)
            .unwrap();
    }
    for route in snapshot.routes().iter() {
        writeln!(picture, "{route:?}").unwrap();
        for channel in &route.channels {
            let secret = channel.credential.as_ref().map(|credential| credential.secret().expose());
            let owner = snapshot.route(channel.route_id).unwrap();
            let is_owners = owner.channels.iter().any(|own| Arc::ptr_eq(own, channel));
            let account = &channel.account;
            let headers: Vec<_> =
                account.site.custom_headers.iter().map(|(_, value)| value.as_bytes()).collect();
            writeln!(picture, "{secret:?} {is_owners} {headers:?} {}", account.site.url).unwrap();
            accounts.entry(account.id).or_default().insert(Arc::as_ptr(account) as usize);
        }
    }
    for name in NAMES.iter().chain(&["alpine", "bat"]) {
        let found = snapshot.lookup(name, &Policy::default());
        let is_listed =
            found.is_none_or(|found| Arc::ptr_eq(found.route, snapshot.route(found.route.id).unwrap()));
        let found = found.map(|found| (found.route.id, found.by_display_name));
        writeln!(picture, "{name}: {found:?} {is_listed}").unwrap();
    }
    let copies = accounts.values().filter(|copies| copies.len() > 1).count();
    writeln!(picture, "accounts with several values: {copies}").unwrap();
    picture
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_that_followed_changes_is_the_one_that_all_rows_give(
        rounds in prop::collection::vec(
            prop::collection::vec((0_u8..20, 0_usize..60, 0_usize..60, 0_usize..60), 1..5), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = Dir::new();
            let store = dir.open();
            let live = LiveTable::default();
            let mut source = Source::load(&store, &live, None, Weights::default()).await.unwrap();
            for (round, steps) in rounds.iter().enumerate() {
                for step in steps {
                    carry_out(&store, *step).await;
                }
                let before: BTreeSet<ChannelId> = source.snapshot().channels().map(|channel| channel.id).collect();
                let taken = store.journal().take();
                let followed = source.follow(&store, &live, &taken.touched, None, Weights::default());
                let gone = followed.await.unwrap();
                taken.settled();
                let sizes = live.sizes();
                let loaded = Source::load(&store, &live, None, Weights::default()).await.unwrap();
                assert_eq!(picture(source.snapshot()), picture(loaded.snapshot()), "round {round}: {steps:?}");
                assert_eq!(sizes, live.sizes(), "round {round}: {steps:?}");
                let after: BTreeSet<ChannelId> = loaded.snapshot().channels().map(|channel| channel.id).collect();
                assert_eq!(gone, before.difference(&after).copied().collect(), "round {round}: {steps:?}");
            }
            store.close().await;
        });
    }
}

#[tokio::test]
async fn a_change_makes_anew_what_it_touches_and_shares_the_rest() {
    let dir = Dir::new();
    let store = dir.open();
    let mut sites_of = Vec::new();
    let mut credentials = Vec::new();
    for name in ["blue", "green"] {
        let site_id = sites::insert(&store, site(name)).await.unwrap();
        let account_id = accounts::insert(&store, api_key(site_id, name)).await.unwrap();
        sites_of.push(site_id);
        credentials.push(Credential { account_id, token_id: None, unit_id: None });
    }
    let route =
        |model: &str, channels: &[Credential]| NewRoute { model: model.into(), channels: channels.into() };
    let create_routes = vec![route("alpha", &credentials), route("beta", &credentials[1..])];
    routes::apply(&store, &Plan { create_routes, ..Plan::default() }, None).await.unwrap();
    let live = LiveTable::default();
    let mut source = Source::load(&store, &live, None, Weights::default()).await.unwrap();
    store.journal().take().settled();
    let before = source.snapshot().clone();

    let renamed = SitePatch { name: Some("azure".into()), ..SitePatch::default() };
    sites::update(&store, sites_of[0], renamed).await.unwrap();
    let taken = store.journal().take();
    source.follow(&store, &live, &taken.touched, None, Weights::default()).await.unwrap();
    let after = source.snapshot();

    let named = |snapshot: &Snapshot, name| snapshot.exact_routes(name).next().unwrap().clone();
    let secret = |name, place: usize| {
        let route = named(&before, name);
        std::ptr::from_ref(route.channels[place].credential.as_ref().unwrap().secret())
    };
    assert_eq!(secret("alpha", 1), secret("beta", 0), "one credential for both channels of an account");
    let [alpha, beta] = ["alpha", "beta"].map(|name| (named(&before, name), named(after, name)));
    assert!(Arc::ptr_eq(&beta.0, &beta.1), "the route of the other site alone");
    assert!(Arc::ptr_eq(&alpha.0.channels[1], &alpha.1.channels[1]), "its channel on a route of both");
    assert!(!Arc::ptr_eq(&alpha.0.channels[0], &alpha.1.channels[0]));
    assert_eq!(alpha.1.channels[0].account.site.name, "azure");
    let site = |snapshot: &Snapshot| snapshot.site(sites_of[1]).unwrap().clone();
    assert!(Arc::ptr_eq(&site(&before), &site(after)));
}

#[tokio::test]
async fn the_channels_of_a_site_that_changes_are_not_read() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let account_id = accounts::insert(&store, api_key(site_id, "blue")).await.unwrap();
    let channels = vec![Credential { account_id, token_id: None, unit_id: None }];
    let create_routes = vec![NewRoute { model: "alpha".into(), channels }];
    routes::apply(&store, &Plan { create_routes, ..Plan::default() }, None).await.unwrap();
    let live = LiveTable::default();
    let mut source = Source::load(&store, &live, None, Weights::default()).await.unwrap();
    store.journal().take().settled();

    // Any read of the channels would see it.
    let unseen = Statement::new("UPDATE route_channels SET priority = 7", Vec::new()).touching_nothing();
    store.batch(vec![unseen]).await.unwrap();
    let renamed = SitePatch { name: Some("azure".into()), ..SitePatch::default() };
    sites::update(&store, site_id, renamed).await.unwrap();
    let taken = store.journal().take();
    source.follow(&store, &live, &taken.touched, None, Weights::default()).await.unwrap();

    let alpha = source.snapshot().exact_routes("alpha").next().unwrap();
    assert_eq!(alpha.channels[0].account.site.name, "azure");
    assert_eq!(alpha.channels[0].priority, 0);
}

#[tokio::test]
async fn an_account_takes_memory_from_its_first_channel_on() {
    let dir = Dir::new();
    let store = dir.open();
    let proxied = NewSite { proxy_url: Some(Secret::new("http://127.0.0.1:1")), ..site("blue") };
    let site_id = sites::insert(&store, proxied).await.unwrap();
    let mut ids = Vec::new();
    for name in ["first", "second", "third"] {
        ids.push(accounts::insert(&store, api_key(site_id, name)).await.unwrap());
    }
    let channels = |id: AccountId| vec![Credential { account_id: id, token_id: None, unit_id: None }];
    let route = |model: &str, id: AccountId| NewRoute { model: model.into(), channels: channels(id) };
    let first = Plan { create_routes: vec![route("alpha", ids[0])], ..Plan::default() };
    routes::apply(&store, &first, None).await.unwrap();
    let live = LiveTable::default();
    let mut source = Source::load(&store, &live, None, Weights::default()).await.unwrap();
    store.journal().take().settled();
    let known = |live: &LiveTable| live.sizes()[3];
    assert_eq!(known(&live), 1);

    let renamed = SitePatch { name: Some("azure".into()), ..SitePatch::default() };
    sites::update(&store, site_id, renamed).await.unwrap();
    let taken = store.journal().take();
    source.follow(&store, &live, &taken.touched, None, Weights::default()).await.unwrap();
    taken.settled();
    assert_eq!(known(&live), 1, "a site that changes is nothing to accounts that serve nothing");

    let more = Plan { create_routes: vec![route("beta", ids[1]), route("gamma", ids[1])], ..Plan::default() };
    routes::apply(&store, &more, None).await.unwrap();
    let taken = store.journal().take();
    source.follow(&store, &live, &taken.touched, None, Weights::default()).await.unwrap();
    taken.settled();
    assert_eq!(known(&live), 2);
    let account = |name| source.snapshot().exact_routes(name).next().unwrap().channels[0].account.clone();
    assert!(Arc::ptr_eq(&account("beta"), &account("gamma")), "one account for both of its channels");
    assert_eq!(account("beta").site.name, "azure");

    accounts::delete(&store, ids[2]).await.unwrap();
    sites::delete(&store, site_id).await.unwrap();
    let taken = store.journal().take();
    source.follow(&store, &live, &taken.touched, None, Weights::default()).await.unwrap();
    assert_eq!((known(&live), source.snapshot().channels().count()), (0, 0));
}

#[tokio::test]
async fn the_models_of_an_account_are_followed_in_its_route_unit_and_no_other_channel_is_read() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let mut ids = Vec::new();
    for name in ["first", "second", "alone"] {
        ids.push(accounts::insert(&store, api_key(site_id, name)).await.unwrap());
    }
    let channel = |account_id| Credential { account_id, token_id: None, unit_id: None };
    let channels = vec![channel(ids[0]), channel(ids[2])];
    let create_routes = vec![NewRoute { model: "alpha".into(), channels }];
    routes::apply(&store, &Plan { create_routes, ..Plan::default() }, None).await.unwrap();
    let unit = NewUnit {
        site_id,
        provider: "codex".into(),
        name: "both".into(),
        strategy: UnitStrategy::RoundRobin,
        account_ids: ids[..2].to_vec(),
    };
    route_units::insert(&store, &unit).await.unwrap();
    availability::add_manual(&store, ids[0], &["alpha".into()]).await.unwrap();
    let live = LiveTable::default();
    let mut source = Source::load(&store, &live, None, Weights::default()).await.unwrap();
    store.journal().take().settled();
    let before = source.snapshot().exact_routes("alpha").next().unwrap().clone();
    let members = |channel: &Channel| match &channel.unit {
        UnitRole::Whole { members, .. } => members.iter().map(|member| member.account.id).collect(),
        _ => Vec::new(),
    };
    assert_eq!(members(&before.channels[0]), [ids[0]], "the one that has the model");

    for id in &ids[1..] {
        availability::add_manual(&store, *id, &["alpha".into()]).await.unwrap();
    }
    let taken = store.journal().take();
    source.follow(&store, &live, &taken.touched, None, Weights::default()).await.unwrap();

    let after = source.snapshot().exact_routes("alpha").next().unwrap();
    assert_eq!(members(&after.channels[0]), ids[..2]);
    assert!(Arc::ptr_eq(&before.channels[1], &after.channels[1]), "the channel of the account in no unit");
}
