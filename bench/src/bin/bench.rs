//! `bench [options]`: one interleaved run over all targets, and its page of results. Called by `bench/run`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use switchyard_bench::payload::{COMPLETION, MODEL, chat_request};
use switchyard_bench::plan::{CELLS, Cell, MEMORY, Measure, Results, measure_round};
use switchyard_bench::report;
use switchyard_bench::targets::{Kind, Target, Yard, ensure_nginx};
use switchyard_bench::wire::call;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "\
usage: bench/run [options]
  --rounds N        rounds to measure (default 5; BENCH_ROUNDS)
  --seconds S       length of a measurement (default 2.5; BENCH_SECONDS)
  --quick           2 rounds of 1 second
  --targets A,B     of gateway, bare-lazy, bare-raw, nginx, direct, managed, converted (default all)
  --only A,B        of 1k, 100k, 1m, burst, flushed, paced, open, cold-start, idle, keeping, inside, or one cell,
                    say 1k-c64 (1k has c1, c16, c64 and c256 connections, open 256, keeping 4, all others 16)
  --database URL    measure also the gateway with its state in this empty database, postgres://… or mysql://…, for which
                    the binary needs the driver
  --gateway FILE    measure this binary instead of building the static one
  --out FILE        where the page goes (default bench/RESULTS.md for a whole run, else only printed)";

struct Options {
    rounds: usize,
    window: Duration,
    kinds: Vec<Kind>,
    cells: Vec<&'static Cell>,
    gateway: Option<PathBuf>,
    database: Option<String>,
    out: Option<PathBuf>,
    /// The command as it was given, for the page.
    command: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1).collect()) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // Whatever ends the run, dropping it stops every process and removes every file.
    let ended = tokio::select! {
        ended = bench(options) => ended,
        () = stop_signal() => Err(io::Error::other("stopped")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("bench: {failed}");
            ExitCode::FAILURE
        }
    }
}

async fn stop_signal() {
    let listen = |kind| signal(kind).expect("these signals can be listened to");
    let (mut interrupt, mut terminate, mut hangup) =
        (listen(SignalKind::interrupt()), listen(SignalKind::terminate()), listen(SignalKind::hangup()));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

async fn bench(mut options: Options) -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    if options.kinds.iter().any(|kind| kind.is_gateway()) && options.gateway.is_none() {
        options.gateway = Some(build_gateway(root)?);
    }
    if options.kinds.contains(&Kind::Nginx) && !ensure_nginx() {
        eprintln!("nginx could not be installed and is left out");
        options.kinds.retain(|kind| *kind != Kind::Nginx);
    }

    let yard = Yard::open(options.gateway.take(), options.database.take()).await?;
    let preface = preface(&options, root, &yard);
    let mut results = Results::default();
    let mut targets = Vec::new();
    for kind in &options.kinds {
        let mut target = yard.start(*kind).await?;
        first_answer(&target)?;
        if let Some(memory) = target.memory() {
            target.idle = memory;
        }
        targets.push(target);
    }
    for round in 0..options.rounds {
        measure_round(&yard, &mut targets, &options.cells, options.window, round, &mut results).await?;
    }
    for target in &targets {
        let Some(memory) = target.memory() else { continue };
        let idle = target.idle.resident;
        let figures = [
            (Measure::FirstAnswer, idle),
            (Measure::AfterLoad, memory.resident),
            (Measure::Peak, memory.peak),
        ];
        for (measure, bytes) in figures {
            results.put(MEMORY, measure, target.kind, 0, bytes as f64);
        }
        if let Some(bytes) = yard.size(target.kind) {
            results.put(MEMORY, Measure::Size, target.kind, 0, bytes as f64);
        }
    }

    let last_page = options.out.as_ref().and_then(|out| fs::read_to_string(out).ok()).unwrap_or_default();
    let page = report::page(&preface, &results, &options.kinds, &last_page);
    println!("{page}");
    if let Some(out) = &options.out {
        fs::write(out, page)?;
        eprintln!("written to {}", out.display());
    }
    Ok(())
}

/// Checks that the target does what is about to be measured: that it answers, and only with the right key.
fn first_answer(target: &Target) -> io::Result<()> {
    let ask =
        |key| call(target.port, "POST", "/v1/chat/completions", key, &chat_request(MODEL, false, 1 << 10));
    let failed = |what: String| io::Error::other(format!("{}: {what}", target.kind));
    match ask(target.key) {
        // The stub has only streams in the other dialect; these were checked when the target was set up.
        _ if target.kind == Kind::Converted => return Ok(()),
        Ok((200, body)) if body[..] == COMPLETION[..] => {}
        Ok((status, body)) => return Err(failed(format!("{status} {}", String::from_utf8_lossy(&body)))),
        Err(fault) => return Err(failed(fault.to_string())),
    }
    match ask("sk-wrong") {
        Ok((401 | 403, _)) => Ok(()),
        _ if matches!(target.kind, Kind::BareRaw | Kind::Nginx) => Ok(()),
        _ => Err(failed("it takes any key".into())),
    }
}

/// Builds the static binary, which is what users get, and returns its path.
fn build_gateway(root: &Path) -> io::Result<PathBuf> {
    eprintln!("building the gateway");
    let output = Command::new(root.join(".ci/static"))
        .arg(format!("{}-unknown-linux-musl", std::env::consts::ARCH))
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other("the gateway does not build"));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let path = printed.lines().last().ok_or_else(|| io::Error::other(".ci/static names no binary"))?;
    fs::canonicalize(root.join(path))
}

/// Writes the top of the page: when, where and how the run was done.
fn preface(options: &Options, root: &Path, yard: &Yard) -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let say = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(root).output().ok()?;
        let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        Some(String::from_utf8_lossy(&text).trim().to_owned())
            .filter(|text| output.status.success() && !text.is_empty())
    };
    let unknown = || "unknown".to_owned();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown CPU", |at| at.1);
    let memory = read("/proc/meminfo");
    let memory = memory.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0);
    let mut versions = vec![say("rustc", &["-V"]).unwrap_or_else(unknown)];
    if options.kinds.contains(&Kind::Nginx) {
        versions.extend(
            say("/usr/sbin/nginx", &["-v"]).map(|text| text.replace("nginx version: nginx/", "nginx ")),
        );
    }
    format!(
        "\
| | |
|---|---|
| date | {} |
| commit | {} |
| command | `{}` |
| run | {} rounds, {} s per measurement, targets in turn within every cell |
| machine | {} cores, {}, {:.1} GB, Linux {} |
| load before | {} |
| data on | {} |
| versions | {} |

Load generator and stub run on the same cores, so requests/s show what is left beside them; CPU per request is
user and kernel time of the target's processes alone. \"MB\" is 10^6 bytes. Every answer and every stream is
compared byte for byte with what the stub sent. Streams have 100 chunks: \"burst\" ones are ready at once and leave
the stub several to a write, \"flushed\" ones leave it one to a write without a pause, \"paced\" ones every 10 ms.
nginx runs with `proxy_buffering off`, as streams need it, and reads requests whole into memory; like bare-raw it
checks no key. Memory of nginx is the sum over its processes. The gateway is the static binary of `make static`, unless
the command names another; the bare proxies are ordinary release builds against the system's libc.{}",
        say("date", &["-u", "+%F %H:%M UTC"]).unwrap_or_else(unknown),
        say("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_else(unknown),
        options.command,
        options.rounds,
        options.window.as_secs_f64(),
        std::thread::available_parallelism().map_or(0, usize::from),
        cpu.trim(),
        memory * 1024.0 / 1e9,
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" "),
        file_system(&yard.scratch.path().display().to_string()),
        versions.join(", "),
        if options.rounds < 5 { "\n\nThis run is too short to judge by." } else { "" },
    )
}

/// Returns the type of the file system that holds a path.
fn file_system(path: &str) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let holding = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        path.starts_with(point).then_some((point.len(), kind))
    });
    holding.max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned()
}

fn options(arguments: Vec<String>) -> Result<Options, String> {
    fn positive<T: std::str::FromStr + PartialOrd + Default>(name: &str, value: &str) -> Result<T, String> {
        let value_read = value.parse().ok().filter(|number| *number > T::default());
        value_read.ok_or_else(|| format!("{name}: {value:?} is not a positive number"))
    }
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut rounds = variable("BENCH_ROUNDS").map_or(Ok(5), |value| positive("BENCH_ROUNDS", &value))?;
    let mut seconds = variable("BENCH_SECONDS").map_or(Ok(2.5), |value| positive("BENCH_SECONDS", &value))?;
    let mut kinds = Kind::ALL.to_vec();
    let mut cells: Vec<&Cell> = CELLS.iter().collect();
    let (mut gateway, mut database, mut out, mut whole) = (None, None, None, true);

    let command = std::iter::once("bench/run")
        .chain(arguments.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ");
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        if name == "--quick" {
            (rounds, seconds, whole) = (2, 1.0, false);
            continue;
        }
        if name == "--help" || name == "-h" {
            println!("{USAGE}");
            std::process::exit(0);
        }
        let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--rounds" => rounds = positive(&name, &value)?,
            "--seconds" => seconds = positive(&name, &value)?,
            "--targets" => {
                let parsed = value
                    .split(',')
                    .map(|kind| Kind::parse(kind).ok_or_else(|| format!("no target {kind:?}")));
                kinds = parsed.collect::<Result<_, _>>()?;
                whole = false;
            }
            "--only" => {
                let is_part = |id: &str, wanted| {
                    id.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
                };
                cells.retain(|cell| value.split(',').any(|wanted| is_part(cell.id, wanted)));
                whole = false;
            }
            "--gateway" => {
                gateway = Some(fs::canonicalize(&value).map_err(|failed| format!("{value}: {failed}"))?)
            }
            "--database" => {
                (database, whole) = (Some(value), false);
            }
            "--out" => out = Some(PathBuf::from(value)),
            _ => return Err(format!("{name} is not known")),
        }
    }
    if database.is_some() {
        kinds.push(Kind::Shared);
    }
    if cells.is_empty() || kinds.is_empty() {
        return Err("nothing is left to measure".into());
    }
    let window = Duration::try_from_secs_f64(seconds).map_err(|wrong| format!("--seconds: {wrong}"))?;
    let out = out.or_else(|| whole.then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("RESULTS.md")));
    Ok(Options { rounds, window, kinds, cells, gateway, database, out, command })
}
