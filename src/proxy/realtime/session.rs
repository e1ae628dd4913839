//! Passes the frames of a speech conversation both ways.
//!
//! ```text
//! client ─▶ up ── response.create: admitted first; models: only those that the key may use ──▶ upstream
//! client ◀── down ◀── response.created: a response begins; response.done: it is settled with its usage
//! ```
//!
//! Each direction holds one frame, and reads the next one when that is sent: a slow reader slows the other end down. When
//! either direction ends, both sockets are closed; when the service stops, the response under way is still sent if its grace
//! period allows.

use std::time::Duration;

use tokio::select;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::background;
use crate::http::websocket::{self, CloseReason, Received, Receiver, Stopping, WebSocket};
use crate::upstream::{SocketSender, UpstreamSocket};

use super::down::{Down, GONE, LAST_FRAME, last_words};
use super::events::{error_event, kind_among};
use super::responses::{Refusal, Responses};
use crate::proxy::attempt::Slots;

/// How long a client may answer no ping.
const SILENCE: Duration = Duration::from_secs(600);
/// How long an upstream may take to accept a frame.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// The client's events that may name models.
const NAMES_MODELS: [&str; 3] = ["session.update", "transcription_session.update", "response.create"];
const DEAF: &str = "the upstream does not read its WebSocket";

/// Serves both sockets of a conversation to their end. `slots`, at the site and the channel, are held to the end.
pub(super) async fn serve(
    responses: Responses,
    mut slots: Slots,
    upstream: UpstreamSocket,
    client: WebSocket,
) {
    slots.site.keep_alive();
    let _open = responses.proxy().core.metrics.sockets.enter();
    if let Err(panic) = background::catch_panic(converse(responses, slots, upstream, client)).await {
        log::error!("a realtime WebSocket panicked: {panic}");
    }
}

async fn converse(responses: Responses, slots: Slots, upstream: UpstreamSocket, client: WebSocket) {
    let (mut sender, mut receiver, mut stopping) = client.split();
    let (mut to_upstream, mut from_upstream) = upstream.split();
    let reason = {
        let (refused, mut refusals) = mpsc::channel(1);
        let down = Down::new(&responses, &mut sender);
        select! {
            reason = pass_upstream(&responses, &mut receiver, &mut to_upstream, &refused) => reason,
            reason = down.pass(&mut from_upstream, &mut refusals) => reason,
            reason = stop(&responses, &mut stopping) => reason,
        }
    };
    if reason == CloseReason::GoingAway && responses.is_under_way() {
        last_words(&mut sender, error_event("server_error", "service_stopped", "The service stopped")).await;
    }
    to_upstream.close().await;
    responses.settle(reason);
    drop(slots);
    websocket::close(sender, receiver, reason).await;
}

/// Waits until the service stops and no response is under way, or the grace period of the stop is over.
async fn stop(responses: &Responses, stopping: &mut Stopping) -> CloseReason {
    stopping.requested().await;
    select! {
        () = responses.all_done() => {}
        () = stopping.grace_over() => {}
    }
    CloseReason::GoingAway
}

/// Admits what a frame asks for, in text or in bytes: some upstreams read binary frames as they do text frames.
async fn admit(responses: &Responses, frame: &[u8]) -> Result<(), Refusal> {
    if responses.call().caller.key.is_some() && kind_among(frame, &NAMES_MODELS).is_some() {
        responses.check_models(frame)?;
    }
    if kind_among(frame, &["response.create"]).is_some() {
        responses.request().await?;
    }
    Ok(())
}

/// Passes the client's frames up until none come any more. An error event for the client goes through `refused`.
async fn pass_upstream(
    responses: &Responses,
    receiver: &mut Receiver,
    upstream: &mut SocketSender,
    refused: &mpsc::Sender<String>,
) -> CloseReason {
    let core = &responses.proxy().core;
    let mut memory = core.body_memory.body(responses.call().caller.body_owner());
    loop {
        let (frame, is_text) = match timeout(SILENCE, receiver.next(&mut memory)).await {
            Ok(Ok(Received::Text(frame))) => (frame, true),
            Ok(Ok(Received::Binary(frame))) => (frame, false),
            Ok(Ok(Received::Alive)) => continue,
            Ok(Err(reason)) => return reason,
            Err(_) => return CloseReason::Theirs,
        };
        core.metrics.received_bytes.add(frame.len() as u64);
        if let Err(refusal) = admit(responses, &frame).await {
            if refused.send(refusal.event()).await.is_err() {
                return CloseReason::Theirs;
            }
            memory.shrink_to(0);
            continue;
        }
        let send =
            async { if is_text { upstream.send(frame).await } else { upstream.send_binary(frame).await } };
        match timeout(TAKEN_WITHIN, send).await {
            Ok(Ok(())) => {}
            Ok(Err(_gone)) => {
                // Its last words, which go down, say more.
                sleep(LAST_FRAME).await;
                return CloseReason::Failed(GONE);
            }
            Err(_late) => return CloseReason::Failed(DEAF),
        }
        memory.shrink_to(0);
    }
}
