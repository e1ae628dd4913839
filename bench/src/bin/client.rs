//! `client [ROUNDS]`: the CPU cost of an exchange with an upstream through the gateway's own client and through hyper's,
//! each with a pool, side by side in one process. Prints a row per load.
//!
//! Both send the same requests to the same stub and read the answers to the end; they take turns in each round. A figure is
//! the user and kernel time of this process, so the cost of runtime and sockets is in both. hyper's client gives each
//! connection a task of its own, as its documentation shows.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use switchyard::routing::Origin;
use switchyard::upstream::{Client, ClientOptions};
use switchyard_bench::payload::{FLUSHED_MODEL, MODEL, UPSTREAM_KEY, chat_request};
use switchyard_bench::pool::Pool;
use switchyard_bench::process::{Process, Program, Scratch, cpu_time_of_one, free_port};
use switchyard_bench::serve::Whole;

/// How long each side works in a round.
const TURN: Duration = Duration::from_millis(1500);
const PATH: &str = "/v1/chat/completions";

struct Load {
    name: &'static str,
    body: Bytes,
    connections: usize,
}

/// The client that sends the requests.
#[derive(Clone)]
enum Side {
    Own(Arc<Client>, Arc<Origin>),
    Hyper(Arc<Pool<Whole>>),
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(7), |text| text.parse());
    let rounds: usize = rounds.map_err(|_| io::Error::other("usage: client [ROUNDS]"))?;
    let scratch = Scratch::new()?;
    let port = free_port()?;
    let _stub = start_stub(&scratch, port).await?;
    let own = Side::Own(
        Arc::new(Client::new(ClientOptions::default())),
        Arc::new(Origin::new(false, "127.0.0.1", port, None)),
    );
    let sides = [own, Side::Hyper(Pool::new(port))];
    println!("| CPU of an exchange | own | hyper's | own / hyper's |\n|---|---:|---:|---:|");
    for load in loads() {
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..=rounds {
            for (side, costs) in sides.iter().zip(&mut costs) {
                let cost = work(side, &load).await?;
                // The first round opens connections, so it does not count.
                if round > 0 {
                    costs.push(cost);
                }
            }
        }
        let [own, hyper] = costs.map(median);
        println!("| {} | {own:.2} us | {hyper:.2} us | {:.2} |", load.name, own / hyper);
    }
    Ok(())
}

fn loads() -> [Load; 6] {
    let load = |name, model, stream, size, connections| Load {
        name,
        body: chat_request(model, stream, size),
        connections,
    };
    [
        load("1 KB, 1 connection", MODEL, false, 1 << 10, 1),
        load("1 KB, 16 connections", MODEL, false, 1 << 10, 16),
        load("1 KB, 64 connections", MODEL, false, 1 << 10, 64),
        load("100 KB, 16 connections", MODEL, false, 100 << 10, 16),
        load("stream of 100 chunks in a burst, 16 connections", MODEL, true, 1 << 10, 16),
        load("stream of 100 flushed chunks, 16 connections", FLUSHED_MODEL, true, 1 << 10, 16),
    ]
}

async fn start_stub(scratch: &Scratch, port: u16) -> io::Result<Process> {
    let stub = Program {
        path: std::env::current_exe()?.with_file_name("stub"),
        arguments: vec![port.to_string()],
        environment: Vec::new(),
        log: scratch.path().join("stub.log"),
    };
    let mut stub = stub.start()?;
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        stub.check()?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(stub)
}

/// Returns the microseconds of CPU per exchange, over one turn.
async fn work(side: &Side, load: &Load) -> io::Result<f64> {
    let before = own_time();
    let end = Instant::now() + TURN;
    let workers: Vec<_> = (0..load.connections)
        .map(|_| {
            let (side, body) = (side.clone(), load.body.clone());
            tokio::spawn(async move {
                let mut done = 0_u32;
                while Instant::now() < end {
                    exchange(&side, body.clone()).await?;
                    done += 1;
                }
                io::Result::Ok(done)
            })
        })
        .collect();
    let mut done = 0;
    for worker in workers {
        done += worker.await??;
    }
    let took = own_time().saturating_sub(before);
    Ok(took.as_secs_f64() * 1e6 / f64::from(done.max(1)))
}

async fn exchange(side: &Side, body: Bytes) -> io::Result<()> {
    let length = body.len();
    let request = Request::post(PATH)
        .header(HOST, "127.0.0.1")
        .header(AUTHORIZATION, format!("Bearer {UPSTREAM_KEY}"))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "*/*")
        .header(USER_AGENT, "bench");
    match side {
        Side::Own(client, origin) => {
            let request = request.body(body).map_err(io::Error::other)?;
            let answer = client.send(origin, request).await.map_err(io::Error::other)?;
            drain(answer.body).await
        }
        Side::Hyper(pool) => {
            let request = request.header(CONTENT_LENGTH, length).body(Whole::from(body));
            let answer = pool.send(request.map_err(io::Error::other)?).await?;
            drain(answer.into_body()).await
        }
    }
}

async fn drain<B>(body: B) -> io::Result<()>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(body);
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        frame.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Returns the CPU time of this process, without the stub, which is its child.
fn own_time() -> Duration {
    cpu_time_of_one(std::process::id())
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or_default()
}
