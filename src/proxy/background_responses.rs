//! Answers that their upstreams make in the background (`background: true`): what one has used is booked once, on the key
//! that asked for it, by whoever learns first that it has ended.
//!
//! | who learns of it | when |
//! |---|---|
//! | the stream that it began as | at its end, if the client stays |
//! | a client that reads it, takes its stream up or cancels it | then |
//! | we, who ask for it | 10 s after its request, then when it is half as old again, at most each 10 minutes; at once after a start |
//!
//! Until then it is one of the calls of its key that are at work at once. One that has not ended after a day, or whose account
//! is gone, is booked as an answer without usage.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use hyper::{HeaderMap, Method};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::dialect::usage::{self, Usage};
use crate::dialect::{Dialect, json};
use crate::http::timer::ReusableTimer;
use crate::jobs::late_usage::{Booked, Known, book};
use crate::keys::BudgetMask;
use crate::proxy::Proxy;
use crate::routing::pricing::{self, Bill, Tokens};
use crate::store;
use crate::store::background_responses::{self as rows, UnbookedResponse};
use crate::store::proxy_logs::UsageSource;
use crate::sync::lock;
use crate::time::{Millis, now_ms};
use crate::upstream::UpstreamBody;

use super::cost;
use super::quota::Admission;
use super::resource_upstream::{ResourceRequest, ResourceUpstream, Unreachable, in_path};
use super::response_holders::StoredAt;

/// When we first ask for one, and how long at least and at most we wait before we ask again.
const FIRST_LOOK: Millis = 10_000;
const LONGEST_PAUSE: Millis = 600_000;
/// How long we ask for one.
const LONGEST_WORK: Millis = 86_400_000;
/// An upstream that does not know one for so long has none.
const UNKNOWN_AFTER: Millis = 600_000;
/// Those in memory, of which so many are asked for at once.
const MAX_PENDING: usize = 8192;
const LOOKS_AT_ONCE: usize = 4;
/// How often those are looked for that other instances have left behind.
const RELOAD: Duration = Duration::from_secs(3600);
/// How much of an answer is kept, of its end where it is longer, and how long its bytes may take.
const MAX_HELD: usize = 256 * 1024;
const TAIL: usize = 16 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The key that asked, and the id that it was given.
type Name = (Option<i64>, String);

/// Those whose usage is not booked yet, as far as this process knows.
pub struct BackgroundResponses {
    pending: Mutex<HashMap<Name, Pending>>,
    changed: Notify,
    looks: Semaphore,
}

struct Pending {
    at: StoredAt,
    began: Millis,
    /// [`Millis::MAX`] while its request is at work, or we ask for it.
    next_look: Millis,
    /// Its slot among the calls of its key.
    _admission: Admission,
}

/// What an answer that has ended has used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    Used(Usage),
    /// Its upstream does not say.
    Untold,
    Nothing,
}

/// Why one cannot be asked for.
enum NotAsked {
    ForNow,
    ForGood,
}

impl Default for BackgroundResponses {
    fn default() -> Self {
        Self { pending: Mutex::default(), changed: Notify::new(), looks: Semaphore::new(LOOKS_AT_ONCE) }
    }
}

impl BackgroundResponses {
    /// One is made, by a request that is still at work.
    pub(super) fn begin(&self, name: Name, at: StoredAt, began: Millis, admission: Admission) {
        self.insert(name, Pending { at, began, next_look: Millis::MAX, _admission: admission });
    }

    fn insert(&self, name: Name, new: Pending) {
        let mut pending = lock(&self.pending);
        if pending.len() < MAX_PENDING {
            pending.entry(name).or_insert(new);
        }
    }

    fn knows(&self, name: &Name) -> bool {
        lock(&self.pending).contains_key(name)
    }

    fn forget(&self, name: &Name) {
        lock(&self.pending).remove(name);
    }

    fn look_at(&self, name: &Name, when: Millis) {
        if let Some(pending) = lock(&self.pending).get_mut(name) {
            pending.next_look = when;
            self.changed.notify_one();
        }
    }

    fn next_look(&self) -> Option<Millis> {
        let pending = lock(&self.pending);
        pending.values().map(|pending| pending.next_look).filter(|at| *at < Millis::MAX).min()
    }

    /// Takes those that are to be asked for now.
    fn take_due(&self, now: Millis) -> Vec<(Name, StoredAt, Millis)> {
        let mut pending = lock(&self.pending);
        let due = pending.iter_mut().filter(|(_, pending)| pending.next_look <= now);
        due.map(|(name, pending)| {
            pending.next_look = Millis::MAX;
            (name.clone(), pending.at.clone(), pending.began)
        })
        .collect()
    }
}

// === what answers tell ===

impl Outcome {
    /// Of a whole response object; `None` while it is made.
    pub(super) fn of_object(object: &[u8]) -> Option<Self> {
        let status = json::member(std::str::from_utf8(object).ok()?, "status").and_then(json::string);
        let told = usage::of_reply(Dialect::Responses, object).map(Self::Used);
        match status.as_deref() {
            Some("queued" | "in_progress") => None,
            Some("failed" | "cancelled") => Some(told.unwrap_or(Self::Nothing)),
            Some(_) => Some(told.unwrap_or(Self::Untold)),
            None => told,
        }
    }

    /// Of the end of a response object that is too long to be held.
    pub(super) fn of_tail(tail: &[u8]) -> Option<Self> {
        usage::of_tail(Dialect::Responses, tail).map(Self::Used)
    }
}

// === booking ===

/// The request that began one has ended, perhaps with what the answer has used.
pub(super) fn left(proxy: &Arc<Proxy>, name: Name, usage: Option<Usage>) {
    let Some(usage) = usage else {
        return proxy.background_responses.look_at(&name, now_ms() + FIRST_LOOK);
    };
    let settling = proxy.clone();
    proxy.core.background.spawn("the usage of a response in the background", async move {
        settle(&settling, &name, Outcome::Used(usage)).await;
    });
}

/// Books what one has used, unless somebody has.
pub(super) async fn settle(proxy: &Proxy, name: &Name, outcome: Outcome) {
    let pending = &proxy.background_responses;
    if pending.knows(name) {
        // Its row may still be on the way.
        proxy.core.store.flush().await;
    }
    match book_all(proxy, name, outcome).await {
        Ok(()) => pending.forget(name),
        Err(error) => {
            log::error!("the usage of a response in the background could not be booked: {error}");
            pending.look_at(name, now_ms() + LONGEST_PAUSE);
        }
    }
}

async fn book_all(proxy: &Proxy, (key_id, response_id): &Name, outcome: Outcome) -> store::Result<()> {
    let store = &proxy.core.store;
    for unbooked in rows::find(store, *key_id, response_id).await? {
        if rows::claim(store, unbooked.id).await? {
            book_one(proxy, &unbooked, outcome).await?;
        }
    }
    Ok(())
}

async fn book_one(proxy: &Proxy, unbooked: &UnbookedResponse, outcome: Outcome) -> store::Result<()> {
    let core = &proxy.core;
    let (tokens, source) = match &outcome {
        Outcome::Used(usage) => (cost::tokens(usage), UsageSource::Upstream),
        Outcome::Untold => (Tokens::default(), UsageSource::Unknown),
        Outcome::Nothing => return Ok(()),
    };
    let row = &unbooked.row;
    let snapshot = core.snapshot.load_full();
    let of_account = || snapshot.channels().filter(|channel| channel.account.id == unbooked.account_id);
    let channel =
        of_account().find(|channel| channel.id == unbooked.channel_id).or_else(|| of_account().next());
    let bill: Bill = {
        let catalog = channel.map(|channel| channel.account.prices.load());
        let catalog = catalog.as_ref().and_then(|catalog| catalog.as_ref());
        let price = catalog.and_then(|catalog| catalog.price(&row.model));
        pricing::bill(price, snapshot.site(row.site_id).map(|site| site.platform), tokens)
    };
    let keys = core.keys.load_full();
    let key = row.key_id.and_then(|id| keys.get(id));
    let limits = key.and_then(|key| key.limits.as_deref());
    let budgets: BudgetMask = limits.map_or(0, |limits| limits.counting(&unbooked.model_requested));
    if let Outcome::Used(usage) = &outcome {
        core.metrics.prompt_tokens.add(usage.prompt.unwrap_or(0));
        core.metrics.completion_tokens.add(usage.completion.unwrap_or(0));
        if let Some(channel) = channel {
            core.metrics.series.spend(channel.id, &row.model, cost::nano(bill.usd), usage.by_kind());
        }
    }
    let booked = Booked { row, channel, key, budgets, tokens: Tokens::default(), usd: 0.0 };
    book(core, &booked, Known { tokens, source, bill }).await
}

/// Whether it is not known yet what one has used.
pub(super) async fn is_unbooked(proxy: &Proxy, name: &Name) -> bool {
    if proxy.background_responses.knows(name) {
        return true;
    }
    let found = rows::find(&proxy.core.store, name.0, &name.1).await;
    found.is_ok_and(|found| !found.is_empty())
}

/// One is to be deleted: learns what it has used, and has it stopped where it is still made.
pub(super) async fn stop(proxy: &Proxy, name: &Name, at: &StoredAt) {
    for (method, suffix) in [(Method::GET, ""), (Method::POST, "/cancel")] {
        if let Ok(Some(outcome)) = ask(proxy, (method, suffix), &name.1, at, 0).await {
            return settle(proxy, name, outcome).await;
        }
    }
}

// === asking ===

/// Asks for those that nobody else asks for, until the service stops.
pub(super) fn start(proxy: &Arc<Proxy>) {
    proxy.core.background.spawn("responses in the background", watch(proxy.clone()));
}

async fn watch(proxy: Arc<Proxy>) {
    reload(&proxy).await;
    let mut reloaded = now_ms();
    let hour = i64::try_from(RELOAD.as_millis()).unwrap_or(Millis::MAX);
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
        for (name, at, began) in pending.take_due(now_ms()) {
            let looking = proxy.clone();
            proxy.core.background.spawn("a look at a response in the background", async move {
                look(&looking, &name, &at, began).await;
            });
        }
    }
}

/// Takes up what was left behind, by this process before it was started again or by another instance.
async fn reload(proxy: &Proxy) {
    let found = match rows::oldest(&proxy.core.store, MAX_PENDING).await {
        Ok(found) => found,
        Err(error) => return log::warn!("responses in the background could not be looked up: {error}"),
    };
    let keys = proxy.core.keys.load_full();
    for unbooked in found {
        let name = (unbooked.row.key_id, unbooked.response_id);
        if proxy.background_responses.knows(&name) {
            continue;
        }
        let key = unbooked.row.key_id.and_then(|id| keys.get(id));
        let admission = key.map(|key| Admission::resumed(key)).unwrap_or_default();
        let at = StoredAt { account: unbooked.account_id, token: unbooked.token_id, model: None };
        let began = unbooked.row.created_at;
        let pending = Pending { at, began, next_look: 0, _admission: admission };
        proxy.background_responses.insert(name, pending);
    }
}

async fn look(proxy: &Proxy, name: &Name, at: &StoredAt, began: Millis) {
    let pending = &proxy.background_responses;
    let Ok(_turn) = pending.looks.acquire().await else { return };
    let age = now_ms() - began;
    match ask(proxy, (Method::GET, ""), &name.1, at, age).await {
        Ok(Some(outcome)) => settle(proxy, name, outcome).await,
        Err(NotAsked::ForGood) => settle(proxy, name, Outcome::Untold).await,
        Ok(None) | Err(NotAsked::ForNow) if age >= LONGEST_WORK => {
            log::warn!("a response in the background has not ended after a day: nobody learns what it used");
            settle(proxy, name, Outcome::Untold).await;
        }
        Ok(None) | Err(NotAsked::ForNow) => {}
    }
    pending.look_at(name, now_ms() + (age / 2).clamp(FIRST_LOOK, LONGEST_PAUSE));
}

/// Asks its upstream how it is now; `None` while it is made.
async fn ask(
    proxy: &Proxy,
    (method, suffix): (Method, &str),
    response_id: &str,
    at: &StoredAt,
    age: Millis,
) -> Result<Option<Outcome>, NotAsked> {
    let upstream =
        ResourceUpstream::of(&proxy.core, at.account, at.token).await.map_err(|error| match error {
            Unreachable::Gone(_) => NotAsked::ForGood,
            Unreachable::Misconfigured(_) | Unreachable::Store(_) => NotAsked::ForNow,
        })?;
    let _slot = proxy.core.leases.lease(upstream.site_id).await.map_err(|_| NotAsked::ForNow)?;
    let asked = ResourceRequest {
        method,
        path: format!("/v1/responses/{}{suffix}", in_path(response_id)),
        label: "/v1/responses/{id}",
        accept: "application/json",
        forwarded: &[],
        headers: &HeaderMap::new(),
        query: "",
        timer: ReusableTimer::default(),
    };
    let answer = upstream.send(proxy, &asked).await.map_err(|failure| {
        log::debug!("a response in the background could not be asked for: {}", failure.text);
        match failure.upstream_status() {
            Some(404 | 410) if age >= UNKNOWN_AFTER => NotAsked::ForGood,
            _ => NotAsked::ForNow,
        }
    })?;
    timeout(BODY_TIMEOUT, read(answer.body)).await.map_err(|_| NotAsked::ForNow)
}

async fn read(mut body: UpstreamBody) -> Option<Outcome> {
    let mut held = BytesMut::new();
    let mut is_whole = true;
    while let Some(data) = body.data().await {
        held.extend_from_slice(&data.ok()?);
        if held.len() > MAX_HELD {
            is_whole = false;
            held = held.split_off(held.len() - TAIL);
        }
    }
    if is_whole { Outcome::of_object(&held) } else { Outcome::of_tail(&held) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_what_it_has_used_when_it_has_ended() {
        let used = usage::of_reply(Dialect::Responses, br#"{"usage":{"input_tokens":3,"output_tokens":4}}"#);
        let used = used.map(Outcome::Used);
        let with = r#""usage":{"input_tokens":3,"output_tokens":4}"#;
        for (object, outcome) in [
            (r#"{"status":"queued","usage":null}"#.to_owned(), None),
            (format!(r#"{{"status":"in_progress",{with}}}"#), None),
            (format!(r#"{{"status":"completed",{with}}}"#), used),
            (format!(r#"{{"status":"incomplete",{with}}}"#), used),
            (format!(r#"{{"status":"cancelled",{with}}}"#), used),
            (r#"{"status":"cancelled","usage":null}"#.to_owned(), Some(Outcome::Nothing)),
            (r#"{"status":"failed"}"#.to_owned(), Some(Outcome::Nothing)),
            (r#"{"status":"completed"}"#.to_owned(), Some(Outcome::Untold)),
            (format!("{{{with}}}"), used),
            ("{}".to_owned(), None),
            ("<html>".to_owned(), None),
        ] {
            assert_eq!(Outcome::of_object(object.as_bytes()), outcome, "{object}");
        }
        assert_eq!(Outcome::of_tail(format!(r#"xt"}}],{with}}}"#).as_bytes()), used);
    }
}
