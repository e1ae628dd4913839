//! `hostile GATEWAY [PAIR …] [SHAPE …]`: how two hundred requests, as expensive as a request can be, affect others.
//!
//! For each pair of a client's dialect and an upstream's (`chat-gemini`), in a fresh process, one key sends two hundred
//! requests of 20 MiB at once, of all [shapes](switchyard_bench::shapes) in turn or of the named ones. Meanwhile one
//! observer checks the gateway's health, and another chats with another key, each one request after the other. Prints a
//! table of how long the observers had to wait, the most resident memory, and how much is still resident ten seconds later
//! at most. Ends with an error if a target is missed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use switchyard_bench::load::quantile;
use switchyard_bench::payload::{MODELS, chat_request};
use switchyard_bench::process::{Process, Program, Scratch, free_port, memory};
use switchyard_bench::serve::{Whole, error, json as answer};
use switchyard_bench::shapes::{Dialect, Shape};
use switchyard_bench::wire::call;
use switchyard_bench::yard;

const ADMIN: &str = "bench-admin-token";
const HOSTILE: &str = "sk-bench-hostile-0123456789";
const OTHER: &str = "sk-bench-other-0123456789";
/// The site's model for the observer that chats meanwhile.
const CHAT: &str = "for-others";
const REQUESTS: usize = 200;
/// How long the upstream takes for an answer, during which the gateway holds the request.
const THOUGHT: Duration = Duration::from_millis(300);
/// The longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause between two requests of an observer.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the gateway has to return its memory.
const AFTER: Duration = Duration::from_secs(10);

/// The longest wait of an observer at p99, and the most resident memory in bytes.
const MOST_WAIT: Duration = Duration::from_millis(100);
const MOST_MEMORY: u64 = 400_000_000;
/// The most memory still resident afterwards, in bytes.
const MOST_KEPT: u64 = 100_000_000;

type Pair = (Dialect, Dialect);

fn main() -> io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: hostile GATEWAY [PAIR …] [SHAPE …]");
    let gateway = PathBuf::from(arguments.next().ok_or_else(usage)?).canonicalize()?;
    let (mut pairs, mut shapes) = (Vec::new(), Vec::new());
    for argument in arguments {
        match (parse_pair(&argument), Shape::parse(&argument)) {
            (Some(pair), _) => pairs.push(pair),
            (None, Some(shape)) => shapes.push(shape),
            (None, None) => return Err(usage()),
        }
    }
    if pairs.is_empty() {
        pairs = Dialect::ALL.into_iter().flat_map(|from| Dialect::ALL.map(|to| (from, to))).collect();
    }
    if shapes.is_empty() {
        shapes = Shape::ALL.to_vec();
    }
    let stub = yard::upstream(upstream)?;
    let scratch = Scratch::new()?;
    println!(
        "| client to upstream | health p99, ms | longest | chat p99, ms | longest | peak, MB | after, MB | took, s | answers |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---|");
    let mut missed = Vec::new();
    for pair in pairs {
        missed.extend(measure(&gateway, &scratch, stub, pair, &shapes)?);
    }
    missed.iter().for_each(|missed| eprintln!("missed: {missed}"));
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse_pair(name: &str) -> Option<Pair> {
    let named = |name: &str| Dialect::ALL.into_iter().find(|dialect| dialect.name() == name);
    let (from, to) = name.split_once('-')?;
    Some((named(from)?, named(to)?))
}

/// Answers as the upstream of every site: speaks the dialect with which the path begins, and no other.
async fn upstream(request: Request<Incoming>) -> Result<Response<Whole>, Infallible> {
    let path = request.uri().path().to_owned();
    let mut body = request.into_body();
    while let Some(Ok(_)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {}
    if path.ends_with("/models") {
        return Ok(answer(StatusCode::OK, MODELS.clone()));
    }
    let spoken = |dialect: &Dialect| {
        let asked = path.strip_prefix(&format!("/{dialect}")).unwrap_or_default();
        asked == dialect.path("") || *dialect == Dialect::Gemini && asked.ends_with(":generateContent")
    };
    Ok(match Dialect::ALL.into_iter().find(spoken) {
        Some(dialect) => {
            tokio::time::sleep(THOUGHT).await;
            answer(StatusCode::OK, Bytes::from_static(dialect.answer().as_bytes()))
        }
        None if path == "/others/v1/chat/completions" => {
            answer(StatusCode::OK, Bytes::from_static(Dialect::Chat.answer().as_bytes()))
        }
        None => error(StatusCode::NOT_FOUND, "there is no such path"),
    })
}

/// Storms one gateway, prints its row, and returns the targets that it missed.
fn measure(
    gateway: &Path,
    scratch: &Scratch,
    stub: u16,
    pair: Pair,
    shapes: &[Shape],
) -> io::Result<Vec<String>> {
    let name = format!("{}-{}", pair.0, pair.1);
    let model = format!("to-{}", pair.1);
    let requests: Vec<Vec<u8>> =
        shapes.iter().map(|shape| shape.request(pair.0, &model, HOSTILE)).collect::<io::Result<_>>()?;
    let mut yard = Yard::start(gateway, scratch, stub, pair)?;
    let port = yard.port;
    let (over, short) = (&AtomicBool::new(false), chat_request(CHAT, false, 1 << 10));
    let began = Instant::now();
    let (health, chat, answers) = thread::scope(|scope| {
        let health = scope.spawn(move || look_on(port, "GET", "/api/desktop/health", b"", over));
        let chat = scope.spawn(|| look_on(port, "POST", "/v1/chat/completions", &short, over));
        let answers = storm(port, &requests);
        over.store(true, Ordering::Relaxed);
        let joined = |looking: thread::ScopedJoinHandle<'_, io::Result<Vec<f64>>>| {
            looking.join().unwrap_or_else(|_| Err(io::Error::other("who looked on panicked")))
        };
        (joined(health), joined(chat), answers)
    });
    let (health, chat, took) = (health?, chat?, began.elapsed());
    yard.process.check()?;
    let peak = memory(yard.process.id()).peak;
    let after = yard.settled();
    let p99 = |times: &[f64]| quantile(times, 0.99).unwrap_or_default();
    let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let told: Vec<String> = answers.iter().map(|(status, count)| format!("{count} × {status}")).collect();
    println!(
        "| {name} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {} |",
        p99(&health) * 1e3,
        longest(&health) * 1e3,
        p99(&chat) * 1e3,
        longest(&chat) * 1e3,
        peak as f64 / 1e6,
        after as f64 / 1e6,
        took.as_secs_f64(),
        told.join(", "),
    );
    let most = MOST_WAIT.as_secs_f64();
    let targets = [
        (p99(&health) > most, "health within 100 ms at p99"),
        (p99(&chat) > most, "a chat of another key within 100 ms at p99"),
        (peak > MOST_MEMORY, "400 MB resident at most"),
        (after > MOST_KEPT, "memory given back within 10 s"),
        (!answers.contains_key("200"), "some requests answered"),
    ];
    Ok(targets
        .into_iter()
        .filter(|(missed, _)| *missed)
        .map(|(_, target)| format!("{name}: {target}"))
        .collect())
}

/// Sends all requests at once, the same number of each kind, and counts the answers by their status.
fn storm(port: u16, requests: &[Vec<u8>]) -> BTreeMap<String, usize> {
    let together = Barrier::new(REQUESTS);
    let statuses: Vec<String> = thread::scope(|scope| {
        let sending: Vec<_> = (0..REQUESTS)
            .map(|at| {
                let (together, request) = (&together, &requests[at % requests.len()]);
                scope.spawn(move || {
                    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
                    together.wait();
                    socket
                        .and_then(|socket| status(socket, request))
                        .unwrap_or_else(|error| error.kind().to_string())
                })
            })
            .collect();
        sending.into_iter().map(|sending| sending.join().unwrap_or_default()).collect()
    });
    let mut counted = BTreeMap::new();
    for status in statuses {
        *counted.entry(status).or_default() += 1;
    }
    counted
}

/// Returns the status of the answer to a request; it may come before the whole request is sent.
fn status(mut socket: TcpStream, request: &[u8]) -> io::Result<String> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    // A client that is refused may be unable to send all of it.
    let sent = socket.write_all(request);
    let mut head = [0; 12];
    match socket.read_exact(&mut head) {
        Ok(()) => Ok(String::from_utf8_lossy(&head[9..]).into_owned()),
        Err(unread) => Err(sent.err().unwrap_or(unread)),
    }
}

/// Returns the seconds that each request of an observer took, in ascending order, sent one after the other until `over`.
fn look_on(port: u16, method: &str, path: &str, body: &[u8], over: &AtomicBool) -> io::Result<Vec<f64>> {
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let (status, text) =
            call(port, method, path, OTHER, body).map_err(|fault| io::Error::other(fault.to_string()))?;
        if status != 200 {
            let text = String::from_utf8_lossy(&text).into_owned();
            return Err(io::Error::other(format!("{path}: {status} {text}")));
        }
        times.push(began.elapsed().as_secs_f64());
        thread::sleep(PAUSE);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// A gateway in front of an upstream of one dialect.
struct Yard {
    process: Process,
    port: u16,
}

impl Yard {
    fn start(path: &Path, scratch: &Scratch, stub: u16, (from, to): Pair) -> io::Result<Self> {
        let port = free_port()?;
        let directory = scratch.fresh(&format!("{from}-{to}"))?;
        let program = Program {
            path: path.to_owned(),
            arguments: Vec::new(),
            environment: vec![
                ("HOST", "127.0.0.1".into()),
                ("PORT", port.to_string()),
                ("DATA_DIR", directory.join("data").display().to_string()),
                ("AUTH_TOKEN", ADMIN.into()),
                ("PROXY_TOKEN", "sk-bench-client-0123456789".into()),
                ("LOG_LEVEL", "warn".into()),
                ("REQUEST_RATE_LIMIT_MAX", "1000000000".into()),
                ("AUTHENTICATED_RATE_LIMIT_MAX", "1000000000".into()),
            ],
            log: directory.join("log"),
        };
        let mut yard = Self { process: program.start_plainly()?, port };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !matches!(call(port, "GET", "/api/desktop/health", "", b""), Ok((200, _))) {
            yard.process.check()?;
            if Instant::now() > deadline {
                return Err(io::Error::other("the gateway does not answer"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        for (name, key) in [("hostile", HOSTILE), ("other", OTHER)] {
            yard.ask("POST", "/api/downstream-keys", &json!({ "name": name, "key": key }))?;
        }
        yard.add(&format!("http://127.0.0.1:{stub}/others"), "openai", CHAT)?;
        let platform = if to == Dialect::Gemini { "gemini" } else { "new-api" };
        yard.add(&format!("http://127.0.0.1:{stub}/{to}"), platform, &format!("to-{to}"))?;
        yard.warm_up(from, &format!("to-{to}"))?;
        Ok(yard)
    }

    /// Adds a site with an account that has one model.
    fn add(&self, url: &str, platform: &str, model: &str) -> io::Result<()> {
        let site =
            self.ask("POST", "/api/sites", &json!({ "name": model, "url": url, "platform": platform }))?;
        let account = json!({ "siteId": site["id"], "accessToken": "sk-upstream", "credentialMode": "apikey",
            "skipModelFetch": true });
        let account = self.ask("POST", "/api/accounts", &account)?;
        let models = format!("/api/accounts/{}/models/manual", account["id"]);
        self.ask("POST", &models, &json!({ "models": [model] })).map(drop)
    }

    /// Waits until the model is routed and the gateway knows which dialect its upstream speaks.
    fn warm_up(&self, from: Dialect, model: &str) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        for (path, body) in [
            (from.path(model), from.greeting(model)),
            (Dialect::Chat.path(CHAT), Dialect::Chat.greeting(CHAT)),
        ] {
            loop {
                let called = call(self.port, "POST", &path, OTHER, body.as_bytes());
                match called.map_err(|fault| io::Error::other(fault.to_string()))? {
                    (200, _) => break,
                    (status, text) if Instant::now() > deadline => {
                        let text = String::from_utf8_lossy(&text).into_owned();
                        return Err(io::Error::other(format!("{path}: {status} {text}")));
                    }
                    _ => thread::sleep(Duration::from_millis(50)),
                }
            }
        }
        Ok(())
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let (status, text) = call(self.port, method, path, ADMIN, body.to_string().as_bytes())
            .map_err(|fault| io::Error::other(fault.to_string()))?;
        if !(200..300).contains(&status) {
            let text = String::from_utf8_lossy(&text).into_owned();
            return Err(io::Error::other(format!("{method} {path}: {status} {text}")));
        }
        Ok(serde_json::from_slice(&text)?)
    }

    /// Returns the resident bytes, once they are few enough or the time for that is over.
    fn settled(&self) -> u64 {
        let deadline = Instant::now() + AFTER;
        loop {
            let resident = memory(self.process.id()).resident;
            if resident <= MOST_KEPT || Instant::now() > deadline {
                return resident;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}
