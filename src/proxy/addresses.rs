//! Step 6: tries the addresses of a channel one after the other, until one gives an answer that can be sent on.
//!
//! ```text
//! channel ─▶ address ─▶ ask ─▶ commit     a broken address gives way to the next; what is neither its fault
//!               ▲        │        │        nor a dialect's ends the attempt
//!               └────────┴────────┴─▶ failure
//! ```
//!
//! A request that an upstream may already be working on is not sent to a channel twice: [`Failure::retry_scope`].

use std::sync::Arc;
use std::time::Duration;

use crate::dialect::{Dialect, messages};
use crate::proxy::Proxy;
use crate::routing::Endpoint;
use crate::time::{Millis, now_ms};

use super::ask::Dialects;
use super::attempt::{Attempt, Choice, Slots};
use super::call::Call;
use super::channel_addresses::{ChannelAddresses, usable_credential};
use super::client_answer::ClientAnswer;
use super::commit::{self, Uncommittable};
use super::compose::Delivery;
use super::compose::code_assist;
use super::failure::Failure;
use super::operation::Operation;
use super::retry::dialect_order::{self, DialectMemoryKey, DialectOrder};
use super::retry::token_renewal;
use super::send::Accepted;

/// Tries one channel. When this returns a failure, the attempt is settled; with an answer, it travels
/// in the answer's body.
pub(super) async fn attempt(
    proxy: &Arc<Proxy>,
    call: &Call,
    choice: &Choice,
    number: u32,
    slots: Slots,
) -> Result<ClientAnswer, Failure> {
    call.trace.channel_selected(&choice.channel, &choice.model, choice.reason);
    let begun = Attempt::begin(proxy, call, choice, number, slots);
    let delivery = Delivery { proxy, call, channel: &choice.channel, model: &choice.model };
    let (mut attempt, failure) = match delivery.deliver(begun).await {
        Ok(answered) => return Ok(answered),
        Err(unanswered) => unanswered,
    };
    // Boxed, because it is rare and large.
    let fresh = Box::pin(token_renewal::renewed(proxy, call, &choice.channel, &failure)).await;
    let Some(fresh) = fresh else {
        attempt.fail(&failure);
        return Err(failure);
    };
    attempt.continue_with(&fresh, &failure);
    call.trace.channel_failed(&failure.text);
    call.trace.channel_selected(&fresh, &choice.model, choice.reason);
    let delivery = Delivery { channel: &fresh, ..delivery };
    Box::pin(delivery.deliver(attempt)).await.map_err(|(mut attempt, failure)| {
        attempt.fail(&failure);
        failure
    })
}

/// The state of one attempt's search for an address and a dialect.
struct Search<'a> {
    addresses: ChannelAddresses<'a>,
    dialects: Dialects,
    /// The number of passes through all addresses, including the current one.
    round: u32,
}

/// The maximum number of passes through addresses without capacity, and the pause before another pass, multiplied by the
/// number of passes so far.
const MAX_ROUNDS: u32 = 3;
const ROUND_PAUSE: Duration = Duration::from_millis(250);

// === impl Search ===

impl<'a> Search<'a> {
    /// Returns the address to ask next. After all had no capacity, waits a moment and starts again with the first one.
    async fn next_address(&mut self, all: &'a [Arc<Endpoint>]) -> Option<&'a Endpoint> {
        let next = self.addresses.next_address();
        let may_try_again =
            self.round < MAX_ROUNDS && self.addresses.last.as_ref().is_some_and(|last| last.lacks_capacity());
        if next.is_some() || !may_try_again {
            return next;
        }
        tokio::time::sleep(ROUND_PAUSE * self.round).await;
        self.round += 1;
        self.addresses.begin_again(all);
        self.addresses.next_address()
    }
}

// === impl Delivery ===

impl<'a> Delivery<'a> {
    /// Tries the channel's addresses; returns the attempt unsettled where none answers.
    async fn deliver(&self, mut attempt: Box<Attempt>) -> Result<ClientAnswer, (Box<Attempt>, Failure)> {
        let Self { proxy, call, .. } = *self;
        let mut search = proxy.conversions.read_through(call.body.len(), || self.search(&attempt)).await;
        call.trace.dialects_ordered(&search.dialects.left);
        loop {
            let accepted = match self.answer(&mut search, &mut attempt).await {
                Ok(answered) => answered,
                Err(failure) => {
                    if search.dialects.are_all_refused {
                        proxy.dialect_memory.forget(self.memory_key());
                    }
                    let failure = failure.redacted(&attempt.secrets());
                    return Err((attempt, failure));
                }
            };
            let dialect = accepted.dialect;
            let failure = match commit::commit(proxy, call, accepted, attempt).await {
                Ok(answered) => {
                    self.remember(&search.dialects, dialect);
                    return Ok(answered);
                }
                Err(Uncommittable { attempt: unsettled, failure }) => {
                    attempt = unsettled;
                    failure
                }
            };
            if !failure.blames_address() {
                return Err((attempt, self.to_the_call(failure).await));
            }
            if let Err(failure) = search.addresses.give_up(failure) {
                return Err((attempt, *failure));
            }
            search.addresses.last.iter().for_each(|failure| call.trace.request_failed(&failure.text, false));
        }
    }

    fn search(&self, attempt: &Attempt) -> Search<'a> {
        // The first address is asked as the attempt begins, which saves a look at the clock.
        let now = attempt.began_at().unwrap_or_else(now_ms);
        let endpoints = &self.channel.account.site.endpoints;
        let addresses = ChannelAddresses::at(&self.proxy.core, endpoints, self.call.work(), now);
        let (left, avoided) = self.dialect_order(now);
        let dialects = Dialects { left, avoided, refused: Vec::new(), are_all_refused: false };
        Search { addresses, dialects, round: 1 }
    }

    /// Asks one address after the other until one answers with a good status.
    async fn answer(&self, search: &mut Search<'a>, attempt: &mut Attempt) -> Result<Box<Accepted>, Failure> {
        let values = usable_credential(self.channel).map_err(|failure| *failure)?;
        if let Some(obstacle) = code_assist::obstacle(&self.channel.account) {
            return Err(obstacle);
        }
        let site = &self.channel.account.site;
        let passes_on = site.platform.profile().code_assist.as_ref().is_some_and(|api| api.passes_on);
        while let Some(endpoint) = search.next_address(&site.endpoints).await {
            match self.ask(endpoint, values, &mut search.dialects, attempt).await {
                Err(failure) if passes_on && failure.finds_no_room() => search.addresses.skip(failure),
                answer => {
                    if let Some(accepted) = search.addresses.record(answer).map_err(|failure| *failure)? {
                        return Ok(accepted);
                    }
                }
            }
        }
        Err(search.addresses.exhausted())
    }

    /// Returns the dialects to ask in, in order, from what is known of the site; and those to ask in only where none of
    /// these can express the request.
    fn dialect_order(&self, now: Millis) -> (DialectOrder, DialectOrder) {
        let (site, client) = (&self.channel.account.site, self.call.shape.dialect);
        if self.call.operation != Operation::Answer {
            let dialects = dialect_order::order_of_others(site.platform, client, self.call.operation);
            return (dialects, DialectOrder::none());
        }
        let mut dialects = dialect_order::order(site.platform, client, self.model);
        let (marks, body) = (self.call.envelope.marks, &self.call.body[..]);
        if dialects.first() != Some(&client) {
            dialect_order::order_for_document(&mut dialects, site.platform, client, self.model, body);
        }
        if dialects.len() > 1
            && let Some(prices) = self.channel.account.prices.load().as_ref()
            && let Some(price) = prices.price(self.model)
        {
            let models = [self.model, self.call.model.as_ref()];
            let listed = &price.labels.endpoint_types;
            dialect_order::prefer_listed(&mut dialects, site.platform, client, models, listed);
        }
        if dialects.len() > 1 && continues_elsewhere(self.call) {
            dialect_order::prefer(&mut dialects, Dialect::Responses);
        }
        dialect_order::keep_address(&mut dialects, site.platform, client, marks, body);
        let avoided = self.proxy.dialect_memory.apply(&mut dialects, self.memory_key(), now);
        (dialects, avoided)
    }

    /// Remembers the refused dialects, once the site has answered the same request in another: so they were to blame.
    fn remember(&self, dialects: &Dialects, answered: Dialect) {
        if dialects.refused.is_empty() {
            return;
        }
        let (memory, key, now) = (&self.proxy.dialect_memory, self.memory_key(), now_ms());
        for refused in &dialects.refused {
            memory.refused(key, *refused, now);
        }
        memory.succeeded(key, answered, now);
    }

    /// Returns the key under which the site's dialects are remembered.
    fn memory_key(&self) -> DialectMemoryKey<'_> {
        let site = self.channel.account.site.id;
        let (client, model, body) = (self.call.shape.dialect, &self.call.model, &self.call.body);
        DialectMemoryKey { site, client, model, body }
    }
}

/// Whether a messages body goes on from an answer that only an upstream of the responses dialect may keep: it has results
/// for calls that it does not contain, and something by which such an upstream finds the conversation.
fn continues_elsewhere(call: &Call) -> bool {
    let envelope = &call.envelope;
    let names_conversation = envelope.has_previous || envelope.has_cache_key || envelope.user.is_some();
    call.shape.dialect == Dialect::Messages && names_conversation && messages::answers_elsewhere(&call.body)
}
