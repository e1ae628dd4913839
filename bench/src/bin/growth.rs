//! `growth GATEWAY [ACCOUNTS …]`: the cost of one more account, and of a few other operator actions, as the instance grows.
//! Prints a table and its targets; by default at 100, 1,000 and 3,000 accounts.
//!
//! Sites have ten accounts each, and every account lists 25 models: twenty that all sites have, five of its own site.
//! Accounts are added through the admin API one after the other, each verified at its site, discovered and routed. At each
//! size, ten more are added to an idle gateway, and these are measured. The first row, at ten accounts, is the one to
//! compare the others with. The resident memory is read after the import, after all routes and accounts were listed, and
//! after a rebuild of everything, each time ten seconds later.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use switchyard_bench::process::Scratch;
use switchyard_bench::serve::{Whole, error, json as answer};
use switchyard_bench::yard::{Yard, median, ms, upstream, verdict};

/// The accounts over which a row is measured.
const MEASURED: usize = 10;
const RENAMES: usize = 11;
const SIZES: [usize; 3] = [100, 1_000, 3_000];
/// The size to which the targets apply.
const TARGET: usize = 1_000;
/// How long it takes until unneeded memory is returned to the system.
const SETTLING: Duration = Duration::from_secs(10);

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: growth GATEWAY [ACCOUNTS …]");
    let gateway = PathBuf::from(arguments.next().ok_or_else(usage)?).canonicalize()?;
    let mut sizes = arguments
        .map(|size| size.parse::<usize>().map_err(|_| usage()))
        .collect::<io::Result<Vec<usize>>>()?;
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    let stub = upstream(list_models)?;
    let scratch = Scratch::new()?;
    let mut yard = Yard::start(&gateway, &scratch, stub)?;
    println!(
        "| accounts | add, ms | its CPU, ms | rename a site, ms | 50 routes, ms | 50 accounts, ms | all routes, ms \
         | all accounts, ms | rebuild, ms | resident, MB | after lists | after a rebuild | at most |"
    );
    println!("|{}", "---:|".repeat(13));
    let mut first = None;
    let mut verdicts = Vec::new();
    for size in std::iter::once(MEASURED).chain(sizes) {
        let row = Row::measure(&mut yard, size)?;
        row.print(size);
        let first = first.get_or_insert(row.add);
        if size == TARGET {
            verdicts = row.verdicts(*first);
        }
    }
    println!();
    verdicts.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Answers as the upstream of every site: lists the models of the site with which the path begins.
async fn list_models(request: Request<Incoming>) -> Result<Response<Whole>, Infallible> {
    let path = request.uri().path();
    let Some(site) = path.strip_suffix("/v1/models").map(|site| site.trim_matches('/')) else {
        return Ok(error(StatusCode::NOT_FOUND, "there are models here, and nothing else"));
    };
    let shared = (0..20).map(|number| format!("model-{number}"));
    let names = shared.chain((0..5).map(|number| format!("{site}-model-{number}")));
    let models: Vec<Value> = names.map(|name| json!({ "id": name, "object": "model" })).collect();
    let body = json!({ "object": "list", "data": models }).to_string();
    Ok(answer(StatusCode::OK, Bytes::from(body)))
}

/// The figures of one size, in milliseconds and megabytes.
struct Row {
    add: f64,
    cpu: f64,
    rename: f64,
    routes_page: f64,
    accounts_page: f64,
    routes: f64,
    accounts: f64,
    rebuild: f64,
    resident: f64,
    after_lists: f64,
    after_rebuild: f64,
    peak: f64,
}

impl Row {
    /// Adds accounts up to this size, measures the last of them, and then the other figures of a row.
    fn measure(yard: &mut Yard, size: usize) -> io::Result<Self> {
        while yard.accounts() + MEASURED < size {
            yard.add()?;
        }
        yard.wait_until_idle();
        let before = yard.cpu();
        let mut adding = Vec::new();
        while yard.accounts() < size {
            adding.push(yard.add()?);
            yard.wait_until_idle();
        }
        let cpu = (yard.cpu() - before) / MEASURED as u32;
        let settled = |yard: &Yard| {
            thread::sleep(SETTLING);
            yard.memory().resident as f64 / 1e6
        };
        let resident = settled(yard);
        let admin = yard.admin();
        let rename = (0..RENAMES).map(|number| admin.rename(yard.a_site(), number));
        let rename = median(rename.collect::<io::Result<Vec<Duration>>>()?);
        let time = |method: &str, path: &str, body: Value| Ok(ms(admin.ask(method, path, &body)?.0));
        let list = |path: &str| -> io::Result<f64> { time("GET", path, Value::Null) };
        let routes_page = list("/api/routes?limit=50")?;
        let accounts_page = list("/api/accounts?limit=50")?;
        let routes = list("/api/routes")?;
        let accounts = list("/api/accounts")?;
        let after_lists = settled(yard);
        let rebuild: io::Result<f64> = time("POST", "/api/routes/rebuild", json!({ "refreshModels": false }));
        Ok(Self {
            add: ms(median(adding)),
            cpu: ms(cpu),
            rename: ms(rename),
            routes_page,
            accounts_page,
            routes,
            accounts,
            rebuild: rebuild?,
            resident,
            after_lists,
            after_rebuild: settled(yard),
            peak: yard.memory().peak as f64 / 1e6,
        })
    }

    fn print(&self, size: usize) {
        let figures = [
            self.add,
            self.cpu,
            self.rename,
            self.routes_page,
            self.accounts_page,
            self.routes,
            self.accounts,
            self.rebuild,
            self.resident,
            self.after_lists,
            self.after_rebuild,
            self.peak,
        ];
        let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.1}")).collect();
        println!("| {size} | {} |", figures.join(" | "));
    }

    /// Compares the row with its targets; `first` is the cost of an account in an empty instance, in milliseconds.
    fn verdicts(&self, first: f64) -> Vec<String> {
        vec![
            verdict("the thousandth account, at most twice the tenth", 2.0, self.add / first),
            verdict("renaming a site at 1,000 accounts, at most 10 ms", 10.0, self.rename),
            verdict("resident after the import, at most 70 MB", 70.0, self.resident),
            verdict(
                "resident after all routes and accounts were listed, at most 70 MB",
                70.0,
                self.after_lists,
            ),
            verdict("resident after a rebuild of everything, at most 70 MB", 70.0, self.after_rebuild),
        ]
    }
}
