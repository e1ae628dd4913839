//! `inside DIRECTORY`: measures on the gateway's own library what a client cannot see. Prints a name and seconds per line.
//!
//! | name | figure |
//! |---|---|
//! | `rebuild` | loading a snapshot for routing: 10,000 routes with 50,000 channels; best of five |
//! | `lookup-p50`, `lookup-p99` | finding the route of a model among them and selecting one of its channels |
//! | `convert` | turning a chat request of 1 MB into one of messages; median |
//!
//! The look-up figure is the slowest of those by name, over all strategies, and of one behind a hundred globs.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use switchyard::dialect::canonical::{Target, Vendor};
use switchyard::dialect::{Dialect, convert};
use switchyard::routing::rebuild::{Credential, NewRoute, Plan};
use switchyard::routing::{
    LiveTable, Policy, Rotations, Route, Selection, SelectionQuery, Snapshot, Strategy, Weights, select,
};
use switchyard::store::accounts::{self, NewAccount};
use switchyard::store::sites::{self, NewSite};
use switchyard::store::snapshot::Source;
use switchyard::store::{self, Secret, Store, StoreOptions, routes};
use switchyard_bench::payload::{MODEL, chat_request};

const SITES: usize = 100;
const ACCOUNTS: usize = 500;
const ROUTES: usize = 10_000;
/// The number of routes that have a glob instead of a name.
const GLOBS: usize = 100;
const CHANNELS: usize = 5;
const LOOKUPS: usize = 20_000;
const CONVERSIONS: usize = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let directory = std::env::args().nth(1).ok_or_else(|| io::Error::other("usage: inside DIRECTORY"))?;
    let options = StoreOptions::in_dir(Path::new(&directory), "bench-secret");
    let store = Store::open(options).map_err(io::Error::other)?;
    fill(&store).await.map_err(io::Error::other)?;

    let live = LiveTable::default();
    let mut rebuild = Duration::MAX;
    let mut snapshot = None;
    for _ in 0..5 {
        let began = Instant::now();
        let source = Source::load(&store, &live, None, Weights::default()).await.map_err(io::Error::other)?;
        rebuild = rebuild.min(began.elapsed());
        snapshot = Some(source.snapshot().clone());
    }
    let snapshot = snapshot.ok_or_else(|| io::Error::other("there is no snapshot"))?;
    print("rebuild", rebuild);

    let exact = |round: usize| format!("model-{}", GLOBS + round * 7919 % (ROUTES - GLOBS));
    let mut worst = (Duration::ZERO, Duration::ZERO);
    for strategy in [Strategy::Weighted, Strategy::RoundRobin, Strategy::StableFirst] {
        worst = worst.max(lookup(&with_strategy(&snapshot, strategy), exact)?);
    }
    let last_glob = format!("family-{}-x", GLOBS - 1);
    worst = worst.max(lookup(&snapshot, |_| last_glob.clone())?);
    print("lookup-p50", worst.0);
    print("lookup-p99", worst.1);
    store.close().await;

    print("convert", conversion()?);
    Ok(())
}

fn print(name: &str, took: Duration) {
    println!("{name} {}", took.as_secs_f64());
}

/// Stores accounts on sites, and routes whose channels are spread over them.
async fn fill(store: &Store) -> store::Result<()> {
    let mut ids = Vec::new();
    for number in 0..SITES {
        let url = format!("https://site-{number}.example");
        let site = NewSite::named(format!("site {number}"), url, "openai");
        ids.push(sites::insert(store, site).await?);
    }
    let mut owners = Vec::new();
    for number in 0..ACCOUNTS {
        let api_token = Some(Secret::new(format!("sk-{number}")));
        let account = NewAccount { api_token, ..NewAccount::on_site(ids[number % SITES]) };
        owners.push(accounts::insert(store, account).await?);
    }
    let route = |number: usize| NewRoute {
        model: if number < GLOBS { format!("family-{number}-*") } else { format!("model-{number}") },
        channels: (0..CHANNELS)
            .map(|nth| Credential {
                account_id: owners[(number * 7 + nth * 11) % ACCOUNTS],
                token_id: None,
                unit_id: None,
            })
            .collect(),
    };
    let plan = Plan { create_routes: (0..ROUTES).map(route).collect(), ..Plan::default() };
    routes::apply(store, &plan, None).await.map(|_| ())
}

/// Copies these routes with another strategy.
fn with_strategy(snapshot: &Snapshot, strategy: Strategy) -> Snapshot {
    let routes = snapshot.routes().iter().map(|route| Route { strategy, ..Route::clone(route) });
    Snapshot::new(routes.collect(), snapshot.sites().iter().cloned().collect(), Weights::default())
}

/// Returns the median and the 99th percentile over models spread across the routes.
fn lookup(snapshot: &Snapshot, model: impl Fn(usize) -> String) -> io::Result<(Duration, Duration)> {
    let (policy, rotations) = (Policy::default(), Rotations::default());
    let mut dice = 0.0;
    let mut random = || {
        dice = (dice + 0.618_033_988_75) % 1.0;
        dice
    };
    let mut times = Vec::with_capacity(LOOKUPS);
    for round in 0..LOOKUPS {
        let model = model(round);
        let ask = SelectionQuery {
            rotations: Some(&rotations),
            ..SelectionQuery::new(&model, &policy, round as i64)
        };
        let began = Instant::now();
        let selection = snapshot.lookup(&model, &policy).map(|found| select(&found, &ask, &mut random));
        times.push(began.elapsed());
        if !matches!(selection, Some(Selection::Channel { .. })) {
            return Err(io::Error::other(format!("no channel for {model}")));
        }
    }
    times.sort_unstable();
    Ok((times[LOOKUPS / 2], times[LOOKUPS * 99 / 100]))
}

/// Returns the median of many conversions of the same request.
fn conversion() -> io::Result<Duration> {
    let body = chat_request(MODEL, true, 1 << 20);
    let text = std::str::from_utf8(&body).map_err(io::Error::other)?;
    let target = Target { model: MODEL, stream: true, vendor: Vendor::Anthropic };
    let mut times = Vec::with_capacity(CONVERSIONS);
    for _ in 0..CONVERSIONS {
        let began = Instant::now();
        let converted = convert::request(Dialect::Chat, Dialect::Messages, text, &target);
        times.push(began.elapsed());
        converted.map_err(|unfit| io::Error::other(format!("{unfit:?}")))?;
    }
    times.sort_unstable();
    Ok(times[CONVERSIONS / 2])
}
