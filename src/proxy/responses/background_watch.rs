//! Asks upstreams for the answers that they make in the background, unless a client does.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hyper::Method;
use tokio::time::timeout;

use crate::dialect::Dialect;
use crate::proxy::Proxy;
use crate::routing::encode_component;
use crate::store::background_responses as rows;
use crate::time::{DAY, MINUTE, Millis, millis, now_ms};
use crate::upstream::UpstreamBody;

use super::background::{FIRST_LOOK, LONGEST_PAUSE, Outcome, book_for_client, book_outcome};
use super::id_owners::StoredAt;
use super::name::ResponseName;
use super::pending::{Cancellation, DueAnswer, MAX_PENDING, Pending};
use crate::proxy::key::quota::Admission;
use crate::proxy::resource_upstream::{ResourceRequest, ResourceUpstream, Unreachable};
use crate::proxy::tail;

/// How long an answer is asked for, in milliseconds.
const LONGEST_WORK: Millis = DAY;
/// The age from which an answer that its upstream does not know counts as lost, in milliseconds.
const UNKNOWN_AFTER: Millis = 10 * MINUTE;
/// How often answers left behind by other instances are looked up.
const RELOAD: Duration = Duration::from_secs(3600);
/// The length up to which an answer is held, in bytes, beyond which its end is kept; and how long its bytes may take.
const MAX_HELD: usize = 256 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Why an answer cannot be asked for.
enum PollError {
    ForNow,
    ForGood,
}

/// Starts to watch the answers that no client asks for, until the service stops.
pub fn watch_background_responses(proxy: &Arc<Proxy>) {
    proxy.core.background.spawn("responses in the background", watch(proxy.clone()));
}

async fn watch(proxy: Arc<Proxy>) {
    reload(&proxy).await;
    let mut reloaded = now_ms();
    let hour = millis(RELOAD);
    loop {
        let pending = &proxy.background_responses;
        let now = now_ms();
        let next = pending.next_look().unwrap_or(Millis::MAX).min(reloaded + hour);
        let wait = Duration::from_millis(u64::try_from(next - now).unwrap_or(0));
        let _ = timeout(wait, pending.changed.notified()).await;
        if now_ms() >= reloaded + hour {
            reload(&proxy).await;
            reloaded = now_ms();
        }
        for due in pending.take_due(now_ms()) {
            let looking = proxy.clone();
            proxy.core.background.spawn("a look at a response in the background", async move {
                look(&looking, &due).await;
            });
        }
    }
}

/// Takes up answers left behind by an earlier run of this process or by another instance.
async fn reload(proxy: &Proxy) {
    let found = match rows::oldest(&proxy.core.store, MAX_PENDING).await {
        Ok(found) => found,
        Err(error) => return log::warn!("background responses could not be read from the database: {error}"),
    };
    let keys = proxy.core.keys.load_full();
    for unbooked in found {
        let name = ResponseName::new(unbooked.row.key_id, unbooked.response_id);
        if proxy.background_responses.knows(&name) {
            continue;
        }
        let key = unbooked.row.key_id.and_then(|id| keys.get(id));
        let admission = key.map(|key| Admission::resumed(key)).unwrap_or_default();
        let at = StoredAt { account: unbooked.account_id, token: unbooked.token_id, model: None };
        let began = unbooked.row.created_at;
        let cancellation = Cancellation::default();
        let pending =
            Pending { at, began, is_streaming: false, next_look: 0, cancellation, _admission: admission };
        proxy.background_responses.insert(name, pending);
    }
}

async fn look(proxy: &Proxy, DueAnswer { name, at, began }: &DueAnswer) {
    let pending = &proxy.background_responses;
    let Ok(_turn) = pending.looks.acquire().await else { return };
    let age = now_ms() - *began;
    match ask(proxy, Action::Read, &name.id, at, age).await {
        Ok(Some(outcome)) => book_outcome(proxy, name, outcome).await,
        Err(PollError::ForGood) => book_outcome(proxy, name, Outcome::Unknown).await,
        Ok(None) | Err(PollError::ForNow) if age >= LONGEST_WORK => {
            log::warn!(
                "background response {} of account {} has not ended after a day: its usage stays unknown",
                name.id,
                at.account
            );
            book_outcome(proxy, name, Outcome::Unknown).await;
        }
        Ok(None) | Err(PollError::ForNow) => {}
    }
    pending.schedule(name, now_ms() + (age / 2).clamp(FIRST_LOOK, LONGEST_PAUSE));
}

/// What is asked of the upstream of a response.
#[derive(Clone, Copy)]
enum Action {
    Read,
    Cancel,
}

/// Asks an answer's upstream for its usage; `None` while it is being made.
async fn ask(
    proxy: &Proxy,
    action: Action,
    response_id: &str,
    at: &StoredAt,
    age: Millis,
) -> Result<Option<Outcome>, PollError> {
    let mut upstream =
        ResourceUpstream::of(&proxy.core, at.account, at.token).await.map_err(|error| match error {
            Unreachable::Gone(_) => PollError::ForGood,
            Unreachable::Misconfigured(_) | Unreachable::Store(_) => PollError::ForNow,
        })?;
    let _slot = proxy.core.leases.lease(upstream.site_id).await.map_err(|_| PollError::ForNow)?;
    let (method, suffix) = match action {
        Action::Read => (Method::GET, ""),
        Action::Cancel => (Method::POST, "/cancel"),
    };
    let asked = ResourceRequest {
        method,
        dialect: Dialect::Responses,
        path: format!("/v1/responses/{}{suffix}", encode_component(response_id)),
        label: "/v1/responses/{id}",
        accept: "application/json",
        forwarded: &[],
        client: None,
    };
    let answer = upstream.send(proxy, &asked).await.map_err(|failure| {
        log::debug!("the state of a background response could not be read: {}", failure.text);
        match failure.upstream_status() {
            Some(404 | 410) if age >= UNKNOWN_AFTER => PollError::ForGood,
            _ => PollError::ForNow,
        }
    })?;
    timeout(BODY_TIMEOUT, read(answer.body)).await.map_err(|_| PollError::ForNow)
}

async fn read(mut body: UpstreamBody) -> Option<Outcome> {
    let mut held = BytesMut::new();
    let mut is_whole = true;
    while let Some(data) = body.data().await {
        held.extend_from_slice(&data.ok()?);
        if held.len() > MAX_HELD {
            is_whole = false;
            held = held.split_off(held.len() - tail::KEPT);
        }
    }
    if is_whole { Outcome::of_object(&held) } else { Outcome::of_tail(&held) }
}

/// Prepares the deletion of an answer: books its usage, and cancels it if it is still being made. Returns whether the upstream
/// has told its outcome.
pub(in crate::proxy) async fn stop(proxy: &Arc<Proxy>, name: &ResponseName, at: &StoredAt) -> bool {
    proxy.background_responses.cancel(name);
    for action in [Action::Read, Action::Cancel] {
        if let Ok(Some(outcome)) = ask(proxy, action, &name.id, at, 0).await {
            book_for_client(proxy, name, outcome).await;
            return true;
        }
    }
    false
}
