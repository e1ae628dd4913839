//! Sends small chat requests at an even pace, from 16 clients, 2,000 per second together. Their latencies show how other
//! work affects them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::payload::{CLIENT_KEY, MODEL, chat_request, completion};
use crate::wire::{Connection, request};

const CLIENTS: usize = 16;
/// The time between two requests of each client.
const PACE: Duration = Duration::from_millis(8);

/// Sends requests until `over`; returns the seconds that each took, in ascending order.
///
/// # Errors
/// Fails when a request is not answered as it should be.
pub fn load(port: u16, over: &Arc<AtomicBool>) -> io::Result<Vec<f64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let clients = async {
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..CLIENTS {
            let over = over.clone();
            clients.spawn_local(async move {
                tokio::time::sleep(PACE * number as u32 / CLIENTS as u32).await;
                client(port, &over).await
            });
        }
        let mut totals = Vec::new();
        while let Some(client) = clients.join_next().await {
            totals.append(&mut client.map_err(io::Error::other)??);
        }
        totals.sort_unstable_by(f64::total_cmp);
        Ok(totals)
    };
    LocalSet::new().block_on(&runtime, clients)
}

async fn client(port: u16, over: &AtomicBool) -> io::Result<Vec<f64>> {
    let body = chat_request(MODEL, false, 1024);
    let request = request("POST", "/v1/chat/completions", CLIENT_KEY, &body);
    let mut connection = Connection::open(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut totals = Vec::new();
    while !over.load(Relaxed) {
        ticks.tick().await;
        let timing = connection.exchange(&request, completion()).await;
        let timing = timing.map_err(|fault| io::Error::other(fault.to_string()))?;
        totals.push(timing.total.as_secs_f64());
    }
    Ok(totals)
}
