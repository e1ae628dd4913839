//! Answers that their upstreams make in the background (`background: true`): the usage of each is booked once, on the key
//! that asked for it, by the first party that learns of its end.
//!
//! | who learns of the end | when |
//! |---|---|
//! | the stream that began the answer | at its end, if the client stays |
//! | a client that reads the answer, resumes its stream or cancels it | at that time |
//! | the watch of this service | first after 10 s, then each time it is half as old again, at most 10 minutes apart; at start |
//!
//! Until then it counts as one of its key's concurrent calls. An answer that has not ended after a day, or whose account
//! is gone, is booked without usage.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::dialect::usage::{self, Usage};
use crate::dialect::{Dialect, json};
use crate::ids::{AccountId, ChannelId};
use crate::jobs::late_prices;
use crate::jobs::late_usage::{BookedRequest, ExactUsage, Payer, book};
use crate::keys::BudgetMask;
use crate::money::Usd;
use crate::proxy::Proxy;
use crate::routing::pricing::{self, Tokens};
use crate::routing::serving;
use crate::store;
use crate::store::amend::{Claim, RowName};
use crate::store::background_responses as rows;
use crate::store::proxy_logs::UsageSource;
use crate::time::{MINUTE, Millis, now_ms};

use super::name::ResponseName;
use crate::proxy::cost;

/// When the watch first asks for an answer, and the shortest and longest pause before it asks again, in milliseconds.
pub(in crate::proxy) const FIRST_LOOK: Millis = 10_000;
pub(in crate::proxy) const LONGEST_PAUSE: Millis = 10 * MINUTE;
/// How long a client waits for the usage of what it reads to be booked.
const PATIENCE: Duration = Duration::from_secs(2);

/// The usage of an answer that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::proxy) enum Outcome {
    Used(Usage),
    /// The upstream does not tell the usage.
    Unknown,
    Nothing,
}

// === impl Outcome ===

impl Outcome {
    /// Reads a whole response object; `None` while the answer is being made.
    pub(super) fn of_object(object: &[u8]) -> Option<Self> {
        let status = json::member(std::str::from_utf8(object).ok()?, "status").and_then(json::string);
        let told = usage::of_reply(Dialect::Responses, object).map(Self::Used);
        match status.as_deref() {
            Some("queued" | "in_progress") => None,
            Some("failed" | "cancelled") => Some(told.unwrap_or(Self::Nothing)),
            Some(_) => Some(told.unwrap_or(Self::Unknown)),
            None => told,
        }
    }

    /// Reads the end of a response object that is too long to be held.
    pub(in crate::proxy) fn of_tail(tail: &[u8]) -> Option<Self> {
        usage::of_tail(Dialect::Responses, tail).map(Self::Used)
    }
}

// === booking ===

/// Continues when the request that began an answer has ended: books its usage if it is known, else schedules the watch.
pub(in crate::proxy) fn book_or_watch(proxy: &Arc<Proxy>, name: ResponseName, usage: Option<Usage>) {
    proxy.background_responses.end_request(&name);
    let Some(usage) = usage else {
        return proxy.background_responses.schedule(&name, now_ms() + FIRST_LOOK);
    };
    let settling = proxy.clone();
    proxy.core.background.spawn("the usage of a response in the background", async move {
        book_outcome(&settling, &name, Outcome::Used(usage)).await;
    });
}

/// Books the usage of an answer, of whose end a client has asked. The booking goes on if the client leaves, or waits no longer.
pub(super) async fn book_for_client(proxy: &Arc<Proxy>, name: &ResponseName, outcome: Outcome) {
    let (done, booked) = oneshot::channel::<()>();
    let (settling, name) = (proxy.clone(), name.clone());
    proxy.core.background.spawn("the usage of a response in the background", async move {
        book_outcome(&settling, &name, outcome).await;
        drop(done);
    });
    // It is dropped without a word, or later than the client waits.
    drop(timeout(PATIENCE, booked).await);
}

/// Books the usage of an answer, unless that has been done, or the request that began it is at work and will do it.
pub(in crate::proxy) async fn book_outcome(proxy: &Proxy, name: &ResponseName, outcome: Outcome) {
    let pending = &proxy.background_responses;
    if pending.is_streaming(name) {
        return;
    }
    if pending.may_have(name) {
        // The answer's row may not be written yet.
        proxy.core.store.flush().await;
    }
    match book_all(proxy, name, outcome).await {
        Ok(()) => pending.forget(name),
        Err(error) => {
            log::error!("the usage of a background response could not be booked: {error}");
            pending.schedule(name, now_ms() + LONGEST_PAUSE);
        }
    }
}

async fn book_all(proxy: &Proxy, name: &ResponseName, outcome: Outcome) -> store::Result<()> {
    let store = &proxy.core.store;
    for unbooked in rows::find(store, name.key_id, &name.id).await? {
        if outcome == Outcome::Nothing {
            rows::close(store, unbooked.id).await?;
            continue;
        }
        let answer = LateUsage {
            row: &unbooked.row,
            account_id: unbooked.account_id,
            channel_id: unbooked.channel_id,
            model_requested: &unbooked.model_requested,
            claim: rows::claim(unbooked.id),
        };
        match book_late(proxy, answer, outcome).await {
            // Another party was faster.
            Ok(()) | Err(store::Error::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// An answer whose usage becomes known long after its request was answered.
pub(in crate::proxy) struct LateUsage<'a> {
    pub(in crate::proxy) row: &'a RowName,
    pub(in crate::proxy) account_id: AccountId,
    pub(in crate::proxy) channel_id: ChannelId,
    pub(in crate::proxy) model_requested: &'a str,
    /// The claim that the booking takes, in the same transaction.
    pub(in crate::proxy) claim: Claim,
}

/// Books the usage of an answer; [`store::Error::NotFound`] if that has been done.
pub(in crate::proxy) async fn book_late(
    proxy: &Proxy,
    answer: LateUsage<'_>,
    outcome: Outcome,
) -> store::Result<()> {
    let core = &proxy.core;
    let (tokens, source) = match &outcome {
        Outcome::Used(usage) => (cost::tokens(usage), Some(UsageSource::Upstream)),
        Outcome::Unknown | Outcome::Nothing => (Tokens::default(), None),
    };
    let row = answer.row;
    let snapshot = core.snapshot.load_full();
    let of_account =
        || snapshot.channels().flat_map(serving).filter(|channel| channel.account.id == answer.account_id);
    let channel =
        of_account().find(|channel| channel.id == answer.channel_id).or_else(|| of_account().next());
    if let Some(channel) = channel {
        // Soon after a start, the prices may not have been read; the answer is booked once, so by them if there are any.
        late_prices::wait_for_list(&proxy.jobs, channel, &row.model).await;
    }
    let bill = match channel {
        Some(channel) => channel.account.bill(&row.model, tokens),
        None => pricing::bill(None, snapshot.site(row.site_id).map(|site| site.platform), tokens),
    };
    let keys = core.keys.load_full();
    let key = row.key_id.and_then(|id| keys.get(id));
    let limits = key.and_then(|key| key.limits.as_deref());
    let budgets: BudgetMask = limits.map_or(0, |limits| limits.counting(answer.model_requested));
    let payer = key.map(|key| Payer::new(key.clone(), budgets));
    let claim = Some(answer.claim);
    let booked = BookedRequest { row, channel, payer, tokens: Tokens::default(), cost: Usd::ZERO, claim };
    book(core, booked, ExactUsage { tokens, source, bill }).await
}

/// Whether the usage of an answer is not booked yet.
pub(super) async fn is_unbooked(proxy: &Proxy, name: &ResponseName) -> bool {
    if proxy.background_responses.knows(name) {
        return true;
    }
    let found = rows::find(&proxy.core.store, name.key_id, &name.id).await;
    found.is_ok_and(|found| !found.is_empty())
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
            (r#"{"status":"completed"}"#.to_owned(), Some(Outcome::Unknown)),
            (format!("{{{with}}}"), used),
            ("{}".to_owned(), None),
            ("<html>".to_owned(), None),
        ] {
            assert_eq!(Outcome::of_object(object.as_bytes()), outcome, "{object}");
        }
        assert_eq!(Outcome::of_tail(format!(r#"xt"}}],{with}}}"#).as_bytes()), used);
    }
}
