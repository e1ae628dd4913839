//! Budgets of keys: what they count is on disk before it is spent, window by window.

use jiff::tz::TimeZone;

use super::super::keys::{BudgetSettings, KeySettings};
use super::super::{budgets, keys, quota};
use super::*;
use crate::ids::KeyId;
use crate::keys::{Bounds, Budget, BudgetLive, BudgetRefusal, KeyLimits, KeyLive, KeyTable, Period, Used};
use crate::money::Usd;
use crate::time::{Millis, now_ms, parse};

const KEY: KeyId = KeyId::new(7);

fn at(text: &str) -> Millis {
    parse(text).expect("a time")
}

fn budget() -> Arc<BudgetLive> {
    Arc::new(BudgetLive::new("scope".to_owned()))
}

/// Whether a request at this time is counted, as the proxy would have it.
async fn passes(store: &Store, live: &Arc<BudgetLive>, period: Period, most: i64, now: Millis) -> bool {
    let bounds = Bounds { requests: Some(most), ..Bounds::default() };
    let budget = Budget { period, bounds, models: Vec::new(), live: live.clone() };
    let limits = KeyLimits { budgets: vec![budget], ..KeyLimits::default() };
    for _ in 0..4 {
        match limits.take("model", now) {
            Ok(mask) => return mask == 1,
            Err(BudgetRefusal::Over(_)) => return false,
            Err(BudgetRefusal::NotReady(_)) => {
                budgets::open(store, KEY, (live, period), now).await.unwrap();
                quota::reserve_in_window(store, KEY, live, most).await.unwrap();
            }
        }
    }
    false
}

async fn stored(store: &Store) -> (Millis, Used) {
    budgets::all(store).await.unwrap()[&(KEY, "scope".to_owned())]
}

#[tokio::test]
async fn a_budget_of_a_clock_that_was_years_ahead_begins_anew() {
    let dir = Dir::new();
    let (store, live) = (Store::open(dir.options("a secret")).unwrap(), budget());
    for now in ["2030-11-28T10:00:00Z", "2026-11-28T10:00:00Z"] {
        let passed = [
            passes(&store, &live, Period::Day, 1, at(now)).await,
            passes(&store, &live, Period::Day, 1, at(now)).await,
        ];
        assert_eq!(passed, [true, false], "{now}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_budget_is_new_at_local_midnight_also_where_the_clocks_are_changed() {
    for (zone, period, before, after) in [
        ("Asia/Shanghai", Period::Day, "2026-05-01T15:59:59.999Z", "2026-05-01T16:00:00Z"),
        ("America/New_York", Period::Day, "2026-03-09T03:59:59.999Z", "2026-03-09T04:00:00Z"),
        ("America/New_York", Period::Day, "2026-11-02T04:59:59.999Z", "2026-11-02T05:00:00Z"),
        ("America/New_York", Period::Week, "2026-03-09T03:59:59.999Z", "2026-03-09T04:00:00Z"),
        ("America/New_York", Period::Month, "2026-12-01T04:59:59.999Z", "2026-12-01T05:00:00Z"),
        ("UTC", Period::FiveHours, "2026-05-01T12:59:59.999Z", "2026-05-01T13:00:00Z"),
    ] {
        let dir = Dir::new();
        let zone = TimeZone::get(zone).expect("a zone");
        let open =
            || Store::open(StoreOptions { time_zone: zone.clone(), ..dir.options("a secret") }).unwrap();
        let (store, live) = (open(), budget());
        let first =
            if period == Period::FiveHours { at("2026-05-01T08:00:00Z") } else { at(before) - 3_600_000 };
        let mut passed = 0;
        for now in [first, at(before), at(before), at(after), at(after), at(after)] {
            passed += i64::from(passes(&store, &live, period, 2, now).await);
        }
        assert_eq!(passed, 4, "{period:?} in {zone:?}");
        assert_eq!(
            stored(&store).await,
            (at(after), Used { requests: 2, cost: Usd::new(0.0), tokens: 0 }),
            "{period:?}"
        );
        store.close().await;
    }
}

#[tokio::test]
async fn instances_that_share_a_database_share_a_window_and_what_it_has_room_for() {
    let dir = Dir::new();
    let store = dir.open();
    let now = at("2026-05-01T08:00:00Z");
    for period in [Period::FiveHours, Period::Day, Period::Total] {
        let instances = [budget(), budget(), budget()];
        let mut passed = 0;
        for (live, later) in instances.iter().cycle().zip(0..600) {
            passed += i64::from(passes(&store, live, period, 500, now + later).await);
        }
        assert_eq!((passed, stored(&store).await.1.requests), (500, 500), "{period:?}");
        let starts: Vec<_> = instances.iter().map(|live| live.requests().1).collect();
        assert_eq!(starts, vec![period.start(now, &TimeZone::UTC); 3], "{period:?}");
        store.batch(vec![Statement::new("DELETE FROM downstream_key_budgets", Vec::new())]).await.unwrap();
    }
}

#[tokio::test]
async fn a_table_goes_on_with_what_was_used_and_forgets_what_is_counted_no_more() {
    let dir = Dir::new();
    let store = dir.open();
    let now = now_ms();
    let of_models = |models: &[&str]| BudgetSettings {
        period: Period::Day,
        max_cost: Some(Usd::new(9.0)),
        max_requests: None,
        max_tokens: None,
        models: (!models.is_empty()).then(|| models.iter().map(|model| (*model).to_owned()).collect()),
    };
    let settings = |budgets: Vec<BudgetSettings>| KeySettings {
        name: "team".to_owned(),
        enabled: true,
        budgets: Some(budgets),
        ..KeySettings::default()
    };
    let both = settings(vec![of_models(&[]), of_models(&["gpt-*"])]);
    let id = keys::insert(&store, &Secret::new("sk-0123456789"), &both).await.unwrap();
    assert_eq!(keys::get(&store, id).await.unwrap().expect("the key").settings, both);
    let table = keys::load_table(&store, &KeyTable::default()).await.unwrap();
    let key = table.get(id).expect("the key").clone();
    let limits = key.limits.as_ref().expect("limits");
    for budget in &limits.budgets {
        budgets::open(&store, id, (&budget.live, budget.period), now).await.unwrap();
        budget.live.charge(Usd::new(0.5), 11, now);
    }
    assert!(matches!(limits.take("gpt-5", now), Ok(0b11)));
    store.telemetry().dirty_key(&key.live, key.live.record_use(now), false);
    store.flush().await;
    let used = Used { requests: 1, cost: Usd::new(0.5), tokens: 11 };
    let used_of = |table: &KeyTable| {
        let key = table.get(id).expect("the key").clone();
        let budgets = key.limits.iter().flat_map(|limits| &limits.budgets);
        budgets.map(|budget| budget.live.used(now).map(|(used, _)| used)).collect::<Vec<_>>()
    };
    let fresh = keys::load_table(&store, &KeyTable::default()).await.unwrap();
    assert_eq!(used_of(&fresh), [Some(used), Some(used)], "after a restart");
    // With other limits or in another order, budgets keep their usage; with another list of models they do not.
    let dearer = BudgetSettings { max_cost: Some(Usd::new(99.0)), ..of_models(&["gpt-*"]) };
    keys::update(&store, id, None, &settings(vec![dearer, of_models(&["o3"])])).await.unwrap();
    let changed = keys::load_table(&store, &table).await.unwrap();
    assert_eq!(used_of(&changed), [Some(used), None]);
    assert_eq!(budgets::all(&store).await.unwrap().len(), 1);
    quota::reset(&store, &key.live).await.unwrap();
    assert_eq!(used_of(&changed), [None, None]);
    assert!(budgets::all(&store).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_window_holds_unspent_goes_back() {
    let dir = Dir::new();
    let store = dir.open();
    let now = at("2026-05-01T08:00:00Z");
    let (key, live) = (KeyLive::new(KEY, 0, Usd::new(0.0), None), budget());
    key.set_budgets(vec![live.clone()]);
    assert!(!key.holds_reserved());
    assert!(passes(&store, &live, Period::Day, 500, now).await);
    assert_eq!((stored(&store).await.1.requests, key.holds_reserved()), (5, true));
    quota::give_back(&store, &key).await.unwrap();
    assert_eq!((stored(&store).await.1.requests, key.holds_reserved()), (1, false));
    assert_eq!(live.used(now).map(|(used, _)| used.requests), Some(1));
}

#[tokio::test]
async fn a_key_whose_budgets_or_addresses_cannot_be_read_may_use_nothing() {
    let dir = Dir::new();
    let store = dir.open();
    let settings = KeySettings {
        name: "team".to_owned(),
        enabled: true,
        supported_models: vec!["*".to_owned()],
        ..KeySettings::default()
    };
    let id = keys::insert(&store, &Secret::new("sk-0123456789"), &settings).await.unwrap();
    for column in ["allowed_ips", "budgets"] {
        let [damage, heal] = [Value::from("[{"), Value::Null].map(|value| {
            let sql = format!("UPDATE downstream_api_keys SET {column} = ? WHERE id = ?");
            Statement::new(sql, vec![value, id.into()])
        });
        store.batch(vec![damage]).await.unwrap();
        let table = keys::load_table(&store, &KeyTable::default()).await.unwrap();
        assert!(!table.get(id).expect("the key").policy.supports("gpt-5"), "{column}");
        store.batch(vec![heal]).await.unwrap();
        let table = keys::load_table(&store, &KeyTable::default()).await.unwrap();
        assert!(table.get(id).expect("the key").policy.supports("gpt-5"), "{column}");
    }
}
