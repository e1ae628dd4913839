//! What finding a channel costs with ten thousand routes: prints figures, asserts none.
//!
//! ```sh
//! cargo test --release --test lookup_cost -- --ignored --nocapture
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use switchyard::routing::rebuild::{Credential, NewRoute, Plan};
use switchyard::routing::{
    Ask, LiveTable, ModelPattern, Policy, Rotations, Route, Selection, Snapshot, Strategy, Weights, select,
};
use switchyard::store::accounts::{self, NewAccount};
use switchyard::store::sites::{self, NewSite, SiteStatus};
use switchyard::store::{self, Secret, Store, StoreOptions, routes};

const SITES: usize = 100;
const ACCOUNTS: usize = 500;
const ROUTES: usize = 10_000;
/// Of those, so many have a glob instead of a name.
const GLOBS: usize = 100;
const CHANNELS: usize = 5;
const ROUNDS: usize = 20_000;

/// A store with accounts on sites and this many routes with their channels.
async fn filled(store: &Store, routes: usize, channels: usize) {
    let mut ids = Vec::new();
    for number in 0..SITES {
        let site = NewSite {
            name: format!("site {number}"),
            url: format!("https://site-{number}.example"),
            platform: "openai".to_owned(),
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
        };
        ids.push(sites::insert(store, site).await.expect("a site"));
    }
    let mut owners = Vec::new();
    for number in 0..ACCOUNTS {
        let api_token = Some(Secret::new(format!("sk-{number}")));
        let account = NewAccount { api_token, ..NewAccount::on_site(ids[number % SITES]) };
        owners.push(accounts::insert(store, account).await.expect("an account"));
    }
    let route = |number: usize| NewRoute {
        model: if number < GLOBS { format!("family-{number}-*") } else { format!("model-{number}") },
        channels: (0..channels)
            .map(|nth| Credential { account_id: owners[(number * 7 + nth * 11) % ACCOUNTS], token_id: None })
            .collect(),
    };
    let plan = Plan { create_routes: (0..routes).map(route).collect(), ..Plan::default() };
    routes::apply(store, &plan).await.expect("the routes");
}

/// The same routes under another strategy.
fn with_strategy(snapshot: &Snapshot, strategy: Strategy) -> Snapshot {
    let routes = snapshot.routes().iter().map(|route| Route { strategy, ..Route::clone(route) });
    Snapshot::new(routes.collect(), snapshot.sites().to_vec(), Weights::default())
}

/// Median and 99th percentile of a look-up with its selection, over models spread across the routes.
fn cost(snapshot: &Snapshot, model: impl Fn(usize) -> String) -> (Duration, Duration) {
    let (policy, rotations) = (Policy::default(), Rotations::default());
    let mut dice = 0.0;
    let mut random = || {
        dice = (dice + 0.618_033_988_75) % 1.0;
        dice
    };
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|round| {
            let model = model(round);
            let ask = Ask { rotations: Some(&rotations), ..Ask::new(&model, &policy, round as i64) };
            let began = Instant::now();
            let found = snapshot.lookup(&model, &policy);
            if let Some(found) = found {
                let selection = select(&found, &ask, &mut random);
                assert!(matches!(selection, Selection::Channel { .. }), "{model}");
            }
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[ROUNDS / 2], times[ROUNDS * 99 / 100])
}

fn print(what: &str, (median, p99): (Duration, Duration)) {
    println!("{what:<56} {median:>12.2?} {p99:>12.2?}");
}

#[tokio::test]
#[ignore = "prints figures and takes a while"]
async fn the_cost_of_finding_a_channel() {
    let folder = std::env::temp_dir().join(format!("switchyard-lookup-{}", std::process::id()));
    let store = Store::open(StoreOptions::in_dir(&folder, "secret")).expect("a store");
    filled(&store, ROUTES, CHANNELS).await;

    let live = LiveTable::default();
    let mut loads = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let snapshot =
            store::snapshot::load(&store, &live, None, Weights::default()).await.expect("it loads");
        loads.push(began.elapsed());
        drop(snapshot);
    }
    println!("{ROUTES} routes with {} channels", ROUTES * CHANNELS);
    println!("snapshot from the store, first and best of five: {:.0?}, {:.0?}", loads[0], loads.iter().min());
    let snapshot = store::snapshot::load(&store, &live, None, Weights::default()).await.expect("it loads");
    let began = Instant::now();
    let weighted = with_strategy(&snapshot, Strategy::Weighted);
    println!("of that the index and the routes: {:.0?}", began.elapsed());

    println!("{:<56} {:>12} {:>12}", "look-up and selection", "median", "p99");
    let exact = |round: usize| format!("model-{}", GLOBS + round * 7919 % (ROUTES - GLOBS));
    print("weighted, by name", cost(&weighted, exact));
    print("weighted, by the last of 100 globs", cost(&weighted, |_| format!("family-{}-x", GLOBS - 1)));
    print("nobody has it", cost(&weighted, |round| format!("nothing-{round}")));
    print("round_robin, by name", cost(&with_strategy(&snapshot, Strategy::RoundRobin), exact));
    print("stable_first, by name", cost(&with_strategy(&snapshot, Strategy::StableFirst), exact));
    for site in snapshot.sites() {
        site.health.fail("model-100", switchyard::routing::Blow { penalty: 2.5, transient: true }, 1);
    }
    print("weighted, by name, every site ailing", cost(&weighted, exact));

    for channels in [1, 5, 50, 500] {
        let every = snapshot.channels().take(channels).map(Arc::clone).collect();
        let pattern = ModelPattern::parse("wide").expect("a name");
        let wide = Route { channels: every, pattern, ..Route::clone(&snapshot.routes()[GLOBS]) };
        // The channels of other routes serve other models here.
        let wide = Route { display_name: Some("wide-alias".to_owned()), ..wide };
        let mut routes: Vec<_> = weighted.routes().iter().map(|route| Route::clone(route)).collect();
        routes.push(Route { id: 1_000_000, ..wide });
        let snapshot = Snapshot::new(routes, snapshot.sites().to_vec(), Weights::default());
        let name = format!("weighted, a route of {channels} channel(s) among the others");
        print(&name, cost(&snapshot, |_| "wide-alias".to_owned()));
    }
    store.close().await;
    let _ = std::fs::remove_dir_all(folder);
}
