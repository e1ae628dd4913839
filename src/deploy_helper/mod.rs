//! `switchyard deploy-helper`: deploys releases inside a cluster, for the update center of a gateway.
//!
//! ```text
//! GET  /health    without a token            POST /deploy     helm upgrade, rollout, rollback if that fails
//! GET  /status    what runs of a release     POST /rollback   helm rollback, rollout
//! ```
//!
//! helm and kubectl run as child processes. Their arguments are checked to be plain data ([`names`]), and no shell sees
//! them. One change runs at a time; a request for another meanwhile gets a 409. With `Accept: text/event-stream` a
//! change streams its progress line by line, then its result.

mod cluster;
mod names;
mod programs;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION};
use hyper::{HeaderMap, Method, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value, json};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::config::Config;
use crate::dialect::sse::KEEP_ALIVE;
use crate::http::body::{self, RequestBody};
use crate::http::server::{self, BoxedHandler, Connection, ServerOptions};
use crate::http::wire_body::WireBody;
use crate::http::{self, Query, Response, bearer, event_stream, strict};
use crate::sync::lock;
use cluster::Summary;
use names::{Order, Target};

/// Maximum length of a request body, in bytes.
const MAX_BODY: usize = 64 * 1024;
const MAX_CONNECTIONS: usize = 64;
/// Maximum number of events that wait for a slow reader before lines are dropped.
const MAX_WAITING_EVENTS: usize = 1024;
/// Maximum number of lines kept of one change.
const MAX_LINES: usize = 2_000;
const MAX_LINE_CHARS: usize = 2_000;
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The service that answers the update center.
struct Helper {
    token: String,
    /// The releases that may be changed; empty for all of them.
    releases: Vec<String>,
    /// Held by the change in progress.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Serves until SIGTERM or SIGINT, and lets a change in progress end.
///
/// # Errors
/// Says what is missing, or where it cannot listen.
pub fn run(config: &Config) -> Result<(), String> {
    if config.updates.helper_token.is_empty() {
        return Err("DEPLOY_HELPER_TOKEN: set it to the value that the gateway has".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(|error| format!("cannot start the async runtime: {error}"))?.block_on(serve(config))
}

async fn serve(config: &Config) -> Result<(), String> {
    let address = (config.updates.helper_host, config.updates.helper_port);
    let cannot = |error: std::io::Error| {
        format!(
            "DEPLOY_HELPER_HOST, DEPLOY_HELPER_PORT: cannot listen on {} port {}: {error}",
            address.0, address.1
        )
    };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let listens_on = listener.local_addr().map_err(cannot)?;
    let signals = |error: std::io::Error| format!("cannot listen for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let options = ServerOptions {
        max_connections: MAX_CONNECTIONS,
        header_timeout: config.request_header_timeout,
        idle_timeout: config.client_idle_timeout,
        tls: None,
    };
    let helper = Arc::new(Helper {
        token: config.updates.helper_token.clone(),
        releases: config.updates.helper_releases.clone(),
        turn: Arc::default(),
    });
    let handler_for = {
        let helper = helper.clone();
        move |_peer| -> BoxedHandler {
            let helper = helper.clone();
            Box::new(move |request, connection| Box::pin(helper.clone().answer(request, connection)))
        }
    };
    let (stop, stopping) = watch::channel(None);
    let serving = tokio::spawn(server::serve(listener, options, handler_for, stopping, || ()));
    log::info!("the deploy helper serves on {listens_on}");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.send_replace(Some(config.shutdown_grace));
    serving.await.map_err(|error| format!("the server ended with an error: {error}"))?;
    // Half a deployment is worse than a late end.
    let _turn = helper.turn.lock().await;
    log::info!("stopped");
    Ok(())
}

impl Helper {
    async fn answer(self: Arc<Self>, request: hyper::Request<WireBody>, connection: Connection) -> Response {
        let (mut head, wire) = request.into_parts();
        let fault = connection.head_fault();
        if let Err(refusal) = strict::check(&head.method, &head.uri, head.version, &head.headers, fault) {
            return refuse(refusal.status, refusal.message);
        }
        let path = head.uri.path();
        if (&head.method, path) == (&Method::GET, "/health") {
            return http::json(StatusCode::OK, &json!({ "ok": true }));
        }
        if !self.is_known(&head.headers) {
            return refuse(StatusCode::UNAUTHORIZED, "The token of the deploy helper is missing or wrong");
        }
        match (&head.method, path) {
            (&Method::GET, "/status") => self.status(&Query::new(head.uri.query().unwrap_or_default())).await,
            (&Method::POST, "/deploy" | "/rollback") => {
                let mut body = RequestBody::of(&mut head.headers, wire);
                let bytes = match body::collect(&mut body, &head.headers, MAX_BODY, None).await {
                    Ok(bytes) => bytes,
                    Err(error) => return refuse(error.status(), &error.to_string()),
                };
                self.change(head.uri.path(), &bytes, wants_events(&head.headers)).await
            }
            _ => refuse(StatusCode::NOT_FOUND, "Not found"),
        }
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let presented = headers.get(AUTHORIZATION).map(|header| bearer::token(header.as_bytes()));
        presented.is_some_and(|presented| presented.ct_eq(self.token.as_bytes()).into())
    }

    /// Refuses a release that is not among those that may be touched.
    fn may_touch(&self, target: &Target) -> Result<(), String> {
        let name = target.to_string();
        if self.releases.is_empty() || self.releases.contains(&name) {
            Ok(())
        } else {
            Err(format!("{name} is not among DEPLOY_HELPER_RELEASES"))
        }
    }

    async fn status(&self, query: &Query) -> Response {
        let (namespace, release) = (query.get("namespace"), query.get("releaseName"));
        let target = Target::new(namespace.as_deref(), release.as_deref());
        let target = match target.and_then(|target| self.may_touch(&target).map(|()| target)) {
            Ok(target) => target,
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
        };
        let name = target.to_string();
        match tokio::task::spawn_blocking(move || cluster::status(&target)).await {
            Ok(Ok(status)) => http::json(StatusCode::OK, &status),
            Ok(Err(why)) => refuse(StatusCode::BAD_GATEWAY, &why),
            Err(panic) => {
                log::error!("the status of {name} could not be read: {panic}");
                refuse(StatusCode::INTERNAL_SERVER_ERROR, "Internal error")
            }
        }
    }

    async fn change(&self, path: &str, body: &[u8], wants_events: bool) -> Response {
        let body: Map<String, Value> = match serde_json::from_slice(body) {
            Ok(body) => body,
            Err(_) => return refuse(StatusCode::BAD_REQUEST, "The body is not a JSON object"),
        };
        let order = Order::read(path, &body);
        let order = match order.and_then(|order| self.may_touch(order.target()).map(|()| order)) {
            Ok(order) => order,
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
        };
        let Ok(turn) = self.turn.clone().try_lock_owned() else {
            return refuse(StatusCode::CONFLICT, "Another change is in progress: wait until it has ended");
        };
        let name = order.to_string();
        let (events, heard) = mpsc::channel(MAX_WAITING_EVENTS);
        let changing = tokio::task::spawn_blocking({
            let events = events.clone();
            move || {
                let _turn = turn;
                carry_out(&order, &events)
            }
        });
        let summary = async move {
            changing.await.unwrap_or_else(|panic| {
                log::error!("{name} failed: {panic}");
                Summary::failed(format!("internal error: {panic}"))
            })
        };
        if wants_events {
            tokio::spawn(send_events(summary, events));
            return event_stream::response(heard);
        }
        drop((events, heard));
        let summary = summary.await;
        let status = if summary.success { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        http::json(status, &summary)
    }
}

/// Keeps the stream alive until the change has ended, then sends its result.
async fn send_events(summary: impl Future<Output = Summary>, events: mpsc::Sender<Bytes>) {
    let beating = async {
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            // A reader with a full channel has enough to read.
            let _ = events.try_send(Bytes::from_static(KEEP_ALIVE));
        }
    };
    let result = tokio::select! {
        summary = summary => event("result", &summary),
        () = beating => return,
    };
    // If sending fails, the reader is gone; the change has been made anyway.
    let _ = events.send(result).await;
}

/// Makes a change; its lines go to the reader, the log and the summary.
fn carry_out(order: &Order, events: &mpsc::Sender<Bytes>) -> Summary {
    let lines = Mutex::new(Vec::new());
    let mut summary = cluster::carry_out(order, &|line: &str| {
        let line: String = line.chars().take(MAX_LINE_CHARS).collect();
        log::info!("{line}");
        // A slow reader finds all lines in the result.
        let _ = events.try_send(event("log", &json!({ "message": line })));
        let mut lines = lock(&lines);
        if lines.len() < MAX_LINES {
            lines.push(line);
        }
    });
    summary.log_lines = lines.into_inner().unwrap_or_default();
    if let Some(error) = &summary.error {
        log::error!("{order} failed: {error}");
    }
    summary
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    event_stream::event(name, &serde_json::to_string(data).unwrap_or_default())
}

fn wants_events(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|accept| {
        accept
            .as_bytes()
            .split(|byte| *byte == b',')
            .any(|kind| kind.trim_ascii().to_ascii_lowercase().starts_with(b"text/event-stream"))
    })
}

fn refuse(status: StatusCode, message: &str) -> Response {
    http::json(status, &json!({ "success": false, "message": message }))
}
