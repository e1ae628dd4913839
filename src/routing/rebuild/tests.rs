//! What a rebuild creates, keeps and removes.

use super::*;
use crate::ids::{AccountId, ChannelId, RouteId, SiteId, TokenId};
use crate::routing::fixture::pattern;

const ALICE: AccountId = AccountId::new(1);
const BOB: AccountId = AccountId::new(2);

/// The tables of a small instance: Alice has an API key, Bob a session with tokens 20 and 21; each is on a site of the same
/// id.
struct Tables {
    accounts: Vec<AccountRow>,
    tokens: Vec<TokenRow>,
    account_models: Vec<(AccountId, &'static str)>,
    typed_models: Vec<(AccountId, &'static str)>,
    token_models: Vec<(TokenId, &'static str)>,
    disabled_models: Vec<(SiteId, &'static str)>,
    allowed_models: Vec<String>,
    blocked: &'static str,
    routes: Vec<RouteRow>,
    channels: Vec<ChannelRow>,
}

fn tables() -> Tables {
    let account = |id: AccountId, serves_by| AccountRow {
        id,
        site_id: SiteId::new(id.get()),
        site_active: true,
        status: AccountStatus::Active,
        serves_by,
        unit: None,
    };
    Tables {
        accounts: vec![account(ALICE, ServesBy::Account), account(BOB, ServesBy::Tokens)],
        tokens: vec![
            TokenRow { id: TokenId::new(20), account_id: BOB, usable: true, is_default: false },
            TokenRow { id: TokenId::new(21), account_id: BOB, usable: true, is_default: true },
        ],
        account_models: vec![],
        typed_models: vec![],
        token_models: vec![],
        disabled_models: vec![],
        allowed_models: vec![],
        blocked: "nothing",
        routes: vec![],
        channels: vec![],
    }
}

impl Tables {
    fn plan(&self) -> Plan {
        plan(&Inventory {
            accounts: &self.accounts,
            tokens: &self.tokens,
            account_models: &self.account_models,
            typed_models: &self.typed_models,
            token_models: &self.token_models,
            disabled_models: &self.disabled_models,
            allowed_models: &self.allowed_models,
            is_blocked: &|model| model.contains(self.blocked),
            routes: &self.routes,
            channels: &self.channels,
            served_elsewhere: &HashSet::new(),
            between_steps: &|| {},
        })
    }

    /// Plans for one account alone, and for routes that may have lost their last channel.
    fn plan_of(&self, account: AccountId, routes: &HashSet<RouteId>) -> Plan {
        let (own, others): (Vec<ChannelRow>, Vec<ChannelRow>) =
            self.channels.iter().cloned().partition(|channel| channel.account_id == account);
        let tokens: Vec<TokenRow> =
            self.tokens.iter().filter(|token| token.account_id == account).copied().collect();
        let is_own = |id: &TokenId| tokens.iter().any(|token| token.id == *id);
        let names = self.account_models.iter().filter(|(id, _)| *id == account).map(|(_, name)| *name);
        let of_tokens = self.token_models.iter().filter(|(id, _)| is_own(id)).map(|(_, name)| *name);
        let names: Vec<&str> = names.chain(of_tokens).map(str::trim).collect();
        let concerns = |route: &&RouteRow| {
            !route.pattern.is_exact()
                || route.sources.is_some()
                || routes.contains(&route.id)
                || names.contains(&route.pattern.as_str())
                || own.iter().any(|channel| channel.route_id == route.id)
        };
        plan(&Inventory {
            accounts: &self.accounts.iter().filter(|row| row.id == account).copied().collect::<Vec<_>>(),
            tokens: &tokens,
            account_models: &self.account_models,
            typed_models: &self.typed_models,
            token_models: &self.token_models,
            disabled_models: &self.disabled_models,
            allowed_models: &self.allowed_models,
            is_blocked: &|model| model.contains(self.blocked),
            routes: &self.routes.iter().filter(concerns).cloned().collect::<Vec<_>>(),
            channels: &own,
            served_elsewhere: &others.iter().map(|channel| channel.route_id).collect(),
            between_steps: &|| {},
        })
    }

    fn carry_out(&mut self, plan: &Plan) {
        let mut next = 1000 + self.channels.iter().map(|channel| channel.id.get()).max().unwrap_or(0);
        let mut add =
            |channels: &mut Vec<ChannelRow>, route_id: RouteId, credential: Credential, model: &str| {
                let token_id = credential.token_id.map(TokenId::get);
                let added = channel(next, route_id.get(), credential.account_id, token_id);
                channels.push(ChannelRow { source_model: Some(model.into()), ..added });
                next += 1;
            };
        self.channels.retain(|row| {
            !plan.delete_channels.contains(&row.id) && !plan.delete_routes.contains(&row.route_id)
        });
        self.routes.retain(|row| !plan.delete_routes.contains(&row.id));
        for new in &plan.create_channels {
            add(&mut self.channels, new.route_id, new.credential, &new.source_model);
        }
        for (id, new) in (5000 + self.routes.len() as i64..).zip(&plan.create_routes) {
            self.routes.push(route(id, &new.model));
            new.channels
                .iter()
                .for_each(|credential| add(&mut self.channels, RouteId::new(id), *credential, &new.model));
        }
    }
}

const NAMES: &[&str] = &["m0", "m1", "m2", "m3", "m4", "blocked"];

/// Returns the names whose bits are set.
fn named<I: Copy>(id: I, bits: u8) -> impl Iterator<Item = (I, &'static str)> {
    NAMES.iter().enumerate().filter(move |(bit, _)| bits >> bit & 1 == 1).map(move |(_, name)| (id, *name))
}

proptest::proptest! {
    #[test]
    fn a_rebuild_of_the_account_that_changed_does_what_one_of_all_accounts_does(
        before: [u8; 4],
        after: [u8; 4],
        is_bob: bool,
        status: u8,
        is_deleted: bool,
    ) {
        const CAROL: AccountId = AccountId::new(3);
        let mut tables = Tables { blocked: "blocked", ..tables() };
        tables.accounts.push(AccountRow { id: CAROL, site_id: SiteId::new(1), ..tables.accounts[0] });
        tables.routes = vec![
            route(100, "m*"),
            shaped(101, "m1"),
            route(102, "m2"),
            RouteRow { sources: Some(vec![RouteId::new(102)]), ..shaped(103, "group") },
            route(104, "m3"),
        ];
        tables.channels = vec![manual(channel(1, 104, CAROL, None)), channel(2, 100, ALICE, None)];
        let offer = |tables: &mut Tables, [alice, carol, first, second]: [u8; 4]| {
            tables.account_models = named(ALICE, alice).chain(named(CAROL, carol)).collect();
            tables.token_models = named(TokenId::new(20), first).chain(named(TokenId::new(21), second)).collect();
        };
        offer(&mut tables, before);
        let first = tables.plan();
        tables.carry_out(&first);
        proptest::prop_assert!(tables.plan().changes_nothing());

        let changed = if is_bob { BOB } else { ALICE };
        let own = tables.channels.iter().filter(|channel| channel.account_id == changed);
        let routes: HashSet<RouteId> = own.map(|channel| channel.route_id).collect();
        if is_bob { offer(&mut tables, [before[0], before[1], after[2], after[3]]) } else { offer(&mut tables, [after[0], before[1], before[2], before[3]]) }
        let row = tables.accounts.iter_mut().find(|account| account.id == changed).unwrap();
        row.status =
            [AccountStatus::Active, AccountStatus::Disabled, AccountStatus::Expired][usize::from(status % 3)];
        if is_deleted {
            tables.accounts.retain(|account| account.id != changed);
            tables.channels.retain(|channel| channel.account_id != changed);
        }
        let all = tables.plan();
        proptest::prop_assert_eq!(tables.plan_of(changed, &routes), Plan { models: tables.plan_of(changed, &routes).models, ..all });
    }
}

fn route(id: i64, text: &str) -> RouteRow {
    RouteRow { id: RouteId::new(id), pattern: pattern(text), sources: None, is_shaped: false }
}

fn shaped(id: i64, text: &str) -> RouteRow {
    RouteRow { is_shaped: true, ..route(id, text) }
}

fn channel(id: i64, route_id: i64, account_id: AccountId, token_id: Option<i64>) -> ChannelRow {
    let (id, route_id, token_id) = (ChannelId::new(id), RouteId::new(route_id), token_id.map(TokenId::new));
    ChannelRow {
        id,
        route_id,
        account_id,
        token_id,
        unit_id: None,
        source_model: None,
        manual: false,
        is_extra: false,
    }
}

fn manual(channel: ChannelRow) -> ChannelRow {
    ChannelRow { manual: true, ..channel }
}

fn credential(account_id: AccountId, token_id: Option<i64>) -> Credential {
    Credential { account_id, token_id: token_id.map(TokenId::new), unit_id: None }
}

#[test]
fn every_offered_model_gets_a_route_with_a_channel_per_credential() {
    let plan = Tables {
        account_models: vec![
            (ALICE, "gpt-4o"),
            (ALICE, " o3 "),
            (BOB, "session-only"),
            (AccountId::new(99), "orphan"),
        ],
        token_models: vec![
            (TokenId::new(20), "gpt-4o"),
            (TokenId::new(21), "gpt-4o"),
            (TokenId::new(77), "unknown-token"),
        ],
        ..tables()
    }
    .plan();
    let all = vec![credential(ALICE, None), credential(BOB, Some(20)), credential(BOB, Some(21))];
    assert_eq!(
        plan.create_routes,
        [
            NewRoute { model: "gpt-4o".to_owned(), channels: all },
            NewRoute { model: "o3".to_owned(), channels: vec![credential(ALICE, None)] },
        ]
    );
    assert_eq!((plan.models, plan.created_channels()), (2, 4));
}

#[test]
fn which_credentials_make_channels_follows_the_kind_of_account() {
    use ServesBy::*;
    for (is_connected, mode, has_access_token, has_api_token, expected) in [
        (true, "session", true, false, Account),
        (true, "", false, true, Account),
        (true, "", false, false, Nothing),
        (false, "apikey", true, true, Account),
        (false, "apikey", true, false, Nothing),
        (false, "session", true, true, Tokens),
        (false, "", false, true, Account),
        (false, "auto", true, true, Tokens),
        (false, "auto", false, false, Tokens),
    ] {
        let credentials = AccountCredentials { is_connected, mode, has_access_token, has_api_token };
        assert_eq!(ServesBy::of(credentials), expected, "{credentials:?}");
    }
}

#[test]
fn filters_drop_models_by_list_site_and_brand() {
    let plan = Tables {
        account_models: vec![(ALICE, "GPT-4o"), (ALICE, "o3"), (ALICE, "claude"), (ALICE, "blocked-model")],
        token_models: vec![(TokenId::new(20), "o3"), (TokenId::new(20), "gpt-5")],
        disabled_models: vec![(SiteId::new(1), " O3 "), (SiteId::new(2), "claude")],
        allowed_models: vec![
            " gpt-4O ".to_owned(),
            "o3".to_owned(),
            "Claude".to_owned(),
            "blocked-model".to_owned(),
        ],
        blocked: "blocked",
        ..tables()
    }
    .plan();
    let created: Vec<_> =
        plan.create_routes.iter().map(|route| (route.model.as_str(), route.channels.clone())).collect();
    let alice = vec![credential(ALICE, None)];
    assert_eq!(
        created,
        [("GPT-4o", alice.clone()), ("claude", alice), ("o3", vec![credential(BOB, Some(20))])]
    );
}

#[test]
fn an_upstream_cannot_become_a_catch_all_by_its_model_names() {
    let plan = Tables {
        account_models: vec![(ALICE, "*"), (ALICE, "gpt-?"), (ALICE, "re:."), (ALICE, "  ")],
        ..tables()
    };
    assert_eq!(plan.plan(), Plan::default());
}

#[test]
fn disabled_accounts_and_sites_keep_their_channels_but_get_no_new_ones() {
    let base = || Tables {
        account_models: vec![(ALICE, "a"), (ALICE, "new-a")],
        token_models: vec![(TokenId::new(20), "b"), (TokenId::new(20), "new-b")],
        routes: vec![route(1, "a"), route(2, "b"), route(3, "re:^[ab]$")],
        channels: vec![
            channel(10, 1, ALICE, None),
            channel(11, 2, BOB, Some(20)),
            ChannelRow { source_model: Some("a".into()), ..channel(12, 3, ALICE, None) },
            ChannelRow { source_model: Some("b".into()), ..channel(13, 3, BOB, Some(20)) },
        ],
        ..tables()
    };
    let new_routes = |plan: Plan| {
        assert!(plan.delete_routes.is_empty() && plan.delete_channels.is_empty(), "{plan:?}");
        assert!(plan.create_channels.is_empty(), "{plan:?}");
        plan.create_routes.into_iter().map(|route| route.model).collect::<Vec<_>>()
    };
    assert_eq!(new_routes(base().plan()), ["new-a", "new-b"]);
    let mut account_off = base();
    account_off.accounts[0].status = AccountStatus::Disabled;
    assert_eq!(new_routes(account_off.plan()), ["new-b"]);
    let mut site_off = base();
    site_off.accounts[1].site_active = false;
    assert_eq!(new_routes(site_off.plan()), ["new-a"]);
}

#[test]
fn an_unusable_token_offers_nothing() {
    let mut tables = Tables {
        account_models: vec![(ALICE, "a")],
        token_models: vec![(TokenId::new(20), "b")],
        routes: vec![route(1, "a"), route(2, "b")],
        channels: vec![channel(10, 1, ALICE, None), channel(11, 2, BOB, Some(20))],
        ..tables()
    };
    assert!(tables.plan().changes_nothing(), "what is there already stays as it is");
    tables.tokens[0].usable = false;
    assert_eq!(tables.plan().delete_routes, [2].map(RouteId::new));
}

#[test]
fn what_is_off_loses_its_channels_with_the_models_that_it_no_longer_offers() {
    let mut tables = Tables {
        account_models: vec![(ALICE, "stays")],
        routes: vec![route(1, "stays"), route(2, "gone"), route(3, "switched-off")],
        channels: vec![
            channel(10, 1, ALICE, None),
            channel(20, 2, ALICE, None),
            channel(30, 3, BOB, Some(20)),
        ],
        token_models: vec![(TokenId::new(20), "switched-off")],
        disabled_models: vec![(SiteId::new(2), "switched-off")],
        ..tables()
    };
    for account in &mut tables.accounts {
        account.status = AccountStatus::Disabled;
    }
    assert_eq!(tables.plan().delete_routes, [2, 3].map(RouteId::new));
    tables.accounts.remove(0);
    assert_eq!(tables.plan().delete_routes, [1, 2, 3].map(RouteId::new), "a deleted account offers nothing");
}

#[test]
fn a_failed_account_keeps_its_channels_but_gets_no_new_ones() {
    let mut tables = Tables {
        account_models: vec![(ALICE, "a"), (ALICE, "new")],
        routes: vec![route(1, "a")],
        channels: vec![channel(10, 1, ALICE, None)],
        ..tables()
    };
    for status in [AccountStatus::Expired, AccountStatus::Unhealthy] {
        tables.accounts[0].status = status;
        let plan = tables.plan();
        assert!(plan.changes_nothing(), "{plan:?}");
        assert_eq!(plan.models, 0);
    }
}

#[test]
fn channels_are_added_where_they_miss_and_removed_where_nothing_backs_them() {
    let plan = Tables {
        account_models: vec![(ALICE, "a")],
        token_models: vec![(TokenId::new(20), "a")],
        routes: vec![route(1, "a"), route(2, "a")],
        channels: vec![
            channel(10, 1, ALICE, None),
            channel(11, 1, BOB, Some(21)),
            manual(channel(12, 1, AccountId::new(99), None)),
        ],
        ..tables()
    }
    .plan();
    let added = NewChannel {
        route_id: RouteId::new(1),
        credential: credential(BOB, Some(20)),
        source_model: "a".to_owned(),
    };
    assert_eq!(plan.create_channels, [added], "the second route of the same name gets none");
    assert_eq!(plan.delete_channels, [11].map(ChannelId::new), "the manual channel survives");
    assert!(plan.create_routes.is_empty() && plan.delete_routes.is_empty());
}

#[test]
fn a_channel_that_was_added_beside_the_credentials_own_does_not_replace_it() {
    let alias = |is_extra| ChannelRow {
        source_model: Some("alias".into()),
        is_extra,
        ..manual(channel(10, 1, ALICE, None))
    };
    let added = NewChannel {
        route_id: RouteId::new(1),
        credential: credential(ALICE, None),
        source_model: "a".to_owned(),
    };
    let own_again = ChannelRow { source_model: Some("A".into()), ..alias(true) };
    for (existing, expected) in [
        (alias(true), vec![added]),
        // The operator gave the credential's own channel another name.
        (alias(false), vec![]),
        (own_again, vec![]),
    ] {
        let plan = Tables {
            account_models: vec![(ALICE, "a")],
            routes: vec![route(1, "a")],
            channels: vec![existing.clone()],
            ..tables()
        }
        .plan();
        assert_eq!(plan.create_channels, expected, "{existing:?}");
        assert!(plan.delete_channels.is_empty(), "{existing:?}");
    }
}

#[test]
fn a_channel_that_lost_its_token_is_bound_to_the_preferred_one() {
    let tables = Tables {
        token_models: vec![(TokenId::new(21), "a"), (TokenId::new(20), "b")],
        routes: vec![route(1, "a"), route(2, "b")],
        channels: vec![channel(10, 1, BOB, None), channel(11, 1, BOB, None), channel(12, 2, BOB, None)],
        ..tables()
    };
    let plan = tables.plan();
    assert_eq!(
        plan.rebind_channels,
        [Rebinding { channel_id: ChannelId::new(10), token_id: TokenId::new(21) }]
    );
    assert_eq!(
        plan.delete_channels,
        [11, 12].map(ChannelId::new),
        "one channel per credential; the preferred token does not offer `b`"
    );
    let added = NewChannel {
        route_id: RouteId::new(2),
        credential: credential(BOB, Some(20)),
        source_model: "b".to_owned(),
    };
    assert_eq!(plan.create_channels, [added]);
}

#[test]
fn routes_of_vanished_models_go_unless_an_operator_shaped_them() {
    let plan = Tables {
        routes: vec![
            route(1, "gone"),
            shaped(2, "shaped"),
            route(3, "by-hand"),
            route(4, "in-group"),
            RouteRow { sources: Some(vec![RouteId::new(4)]), ..route(5, "group") },
            route(6, "gpt-*"),
        ],
        channels: vec![
            channel(10, 1, ALICE, None),
            channel(20, 2, ALICE, None),
            manual(channel(30, 3, ALICE, None)),
            channel(31, 3, BOB, Some(20)),
        ],
        ..tables()
    }
    .plan();
    assert_eq!(plan.delete_routes, [1].map(RouteId::new));
    assert_eq!(
        plan.delete_channels,
        [20, 31].map(ChannelId::new),
        "what is automatic goes even from a route that stays"
    );
}

#[test]
fn a_disabled_route_is_not_created_again() {
    let plan = Tables { account_models: vec![(ALICE, "a")], routes: vec![shaped(1, "a")], ..tables() }.plan();
    assert!(plan.create_routes.is_empty() && plan.delete_routes.is_empty());
    assert_eq!(plan.create_channels.len(), 1);
}

#[test]
fn a_group_named_like_a_model_does_not_stand_in_for_its_route() {
    let group = RouteRow { sources: Some(vec![]), ..route(1, "a") };
    let plan = Tables { account_models: vec![(ALICE, "a")], routes: vec![group], ..tables() }.plan();
    assert_eq!(plan.create_routes.len(), 1);
}

#[test]
fn pattern_routes_follow_what_is_offered_and_keep_rows_that_stay() {
    let of = |id, model: &str, channel: ChannelRow| ChannelRow {
        id: ChannelId::new(id),
        source_model: Some(model.into()),
        ..channel
    };
    let alice = || channel(0, 1, ALICE, None);
    let plan = Tables {
        account_models: vec![(ALICE, "gpt-4o"), (ALICE, "gpt-5"), (ALICE, "o3")],
        routes: vec![route(1, "gpt-*"), route(2, "gpt-4o"), route(3, "gpt-5"), route(4, "o3")],
        channels: vec![
            of(10, "GPT-4o", alice()),
            of(11, "gpt-3", alice()),
            manual(of(12, "gpt-2", alice())),
            channel(13, 1, ALICE, None),
            channel(14, 1, BOB, Some(20)),
            channel(20, 2, ALICE, None),
            channel(30, 3, ALICE, None),
            channel(40, 4, ALICE, None),
        ],
        ..tables()
    }
    .plan();
    let added = NewChannel {
        route_id: RouteId::new(1),
        credential: credential(ALICE, None),
        source_model: "gpt-5".to_owned(),
    };
    assert_eq!(plan.create_channels, [added]);
    assert_eq!(plan.delete_channels, [11, 14].map(ChannelId::new));
    assert!(plan.create_routes.is_empty() && plan.delete_routes.is_empty());
}
