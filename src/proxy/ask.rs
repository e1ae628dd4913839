//! Asks one address of a channel in one dialect after the other, until one is accepted.
//!
//! ```text
//! dialect ─▶ compose ─▶ send ─▶ accepted
//!    ▲         ▲         │
//!    │         └─────────┤ refused: the same dialect, rewritten or for what stands in for the operation;
//!    └───────────────────┤          the next dialect;
//!                        ▼          or nothing more
//! ```
//!
//! [`next_step`] decides which, from what is known of a [`RefusedRequest`]. A status outside 2xx is a refusal that has been
//! read.

use crate::dialect::Dialect;
use crate::dialect::canonical::ConversionError;
use crate::proxy::Proxy;
use crate::routing::{CredentialHeaders, Endpoint};
use crate::store::proxy_logs::ProxyLogRow;
use crate::time::now_ms;
use crate::upstream::RetryScope;

use super::attempt::Attempt;
use super::call::Call;
use super::compose::cache_key;
use super::compose::outgoing::PreparedBody;
use super::compose::{Delivery, UpstreamRoute};
use super::failure::Failure;
use super::operation::Operation;
use super::retry::dialect_order::{self, DialectOrder, RefusedDialect};
use super::retry::downgrade::{Downgrade, downgrade};
use super::retry::member_refusals::Refused;
use super::retry::recovery::{Recovery, RefusedCall};
use super::send::Accepted;

/// The dialects in which a channel's addresses are asked.
pub(super) struct Dialects {
    /// The dialects that were not refused for good, in order.
    pub(super) left: DialectOrder,
    /// The dialects that were refused before, asked only where no other can express the request.
    pub(super) avoided: DialectOrder,
    /// The dialects refused for good.
    pub(super) refused: Vec<RefusedDialect>,
    /// Whether the last remaining dialect was refused too.
    pub(super) are_all_refused: bool,
}

impl Dialects {
    /// Removes a dialect that cannot express the request. Returns the avoided ones, which are asked now, if no other was left.
    fn remove_unfit(&mut self, dialect: Dialect) -> Option<DialectOrder> {
        self.left.remove(dialect);
        if !self.left.is_empty() || !self.refused.is_empty() {
            return None;
        }
        self.left = self.avoided;
        self.avoided.clear();
        Some(self.left)
    }
}

/// The next request to an address.
struct NextRequest {
    dialect: Dialect,
    /// The body to send; `None` where the call's own has still to be prepared.
    written: Option<Box<PreparedBody>>,
}

/// A refused request, as far as it decides what is sent next.
struct RefusedRequest {
    /// The rewritten request, where rewriting may help.
    rewritten: Option<Box<PreparedBody>>,
    /// The operation that may be asked for instead, where the upstream lacks the call's own.
    stand_in: Option<Operation>,
    /// Whether the request may be sent to this upstream once more.
    may_repeat: bool,
    /// The consequence of the refusal for the dialects of the site.
    downgrade: Option<Downgrade>,
    /// Whether the channel can be asked in another dialect.
    has_others: bool,
}

/// The step that follows a refusal.
enum NextStep {
    /// Ask in this dialect again, with a rewritten request.
    Rewritten(Box<PreparedBody>),
    /// Ask in this dialect again, for the operation that replaces the call's own.
    StandIn(Operation),
    /// Ask in another dialect.
    OtherDialect(Downgrade),
    /// Ask nothing more.
    End { is_dialect_refused: bool },
}

impl NextStep {
    fn asks_again(&self) -> bool {
        !matches!(self, Self::End { .. })
    }
}

/// Decides what follows a refusal; a step that keeps the dialect is preferred.
fn next_step(refusal: RefusedRequest) -> NextStep {
    let downgrade = refusal.downgrade.filter(|_| refusal.may_repeat);
    match (refusal.rewritten, refusal.stand_in, downgrade) {
        (Some(rewritten), _, _) => NextStep::Rewritten(rewritten),
        (None, Some(stand_in), _) => NextStep::StandIn(stand_in),
        (None, None, Some(downgrade)) if refusal.has_others => NextStep::OtherDialect(downgrade),
        (None, None, refused) => {
            NextStep::End { is_dialect_refused: refused.is_some_and(|refused| refused.blocks) }
        }
    }
}

/// The state of asking one address.
struct AddressRound {
    /// The dialects that are still to be asked at this address.
    queue: DialectOrder,
    /// The call's own operation, or the one that replaces it.
    operation: Operation,
    /// The rewrites that have been tried in the current dialect.
    recovery: Recovery,
    /// The rewritten request that is sent if the dialect that the upstream named does not serve.
    postponed: Option<PostponedRequest>,
    refusals: Refusals,
    /// The log row of the dialect that was refused last; written when another dialect is asked.
    downgraded: Option<Box<ProxyLogRow>>,
}

/// A rewritten request in a dialect that was left for another.
struct PostponedRequest {
    dialect: Dialect,
    written: Box<PreparedBody>,
    recovery: Recovery,
}

impl AddressRound {
    fn new(queue: DialectOrder, operation: Operation) -> Self {
        Self {
            queue,
            operation,
            recovery: Recovery::default(),
            postponed: None,
            refusals: Refusals::default(),
            downgraded: None,
        }
    }

    fn next_dialect(&mut self) -> Option<NextRequest> {
        match self.queue.pop_first() {
            Some(dialect) => {
                self.recovery = Recovery::default();
                Some(NextRequest { dialect, written: None })
            }
            None => self.resume(),
        }
    }

    /// Returns to the dialect that was left, with the request that was postponed.
    fn resume(&mut self) -> Option<NextRequest> {
        let PostponedRequest { dialect, written, recovery } = self.postponed.take()?;
        self.recovery = recovery;
        Some(NextRequest { dialect, written: Some(written) })
    }

    /// Returns to the dialect that is asked, for another operation than before.
    fn ask_for(&mut self, operation: Operation, dialect: Dialect) -> Option<NextRequest> {
        (self.operation, self.recovery) = (operation, Recovery::default());
        Some(NextRequest { dialect, written: None })
    }

    /// Logs the dialect that was refused last, now that another is asked.
    fn log_downgrade(&mut self, proxy: &Proxy) {
        if let Some(row) = self.downgraded.take() {
            proxy.core.store.telemetry().log(*row);
        }
    }
}

/// The refusals of the dialects tried so far at an address: the first of each kind. Prefers a failure that is not specific
/// to a dialect, then what no dialect can express.
#[derive(Default)]
struct Refusals {
    /// A failure that another dialect might avoid, and that is not about the dialect.
    cause: Option<Box<Failure>>,
    /// The failure of a request that a dialect cannot express.
    inexpressible: Option<Box<Failure>>,
    /// The refusal of a dialect.
    of_dialect: Option<Box<Failure>>,
}

impl Refusals {
    /// Records that a dialect cannot express the request.
    fn cannot_express(&mut self, why: ConversionError) {
        self.inexpressible.get_or_insert_with(|| Box::new(Failure::unfit(why)));
    }

    /// Returns the failure to report when all dialects have been tried.
    fn first(self) -> Option<Failure> {
        self.cause.or(self.inexpressible).or(self.of_dialect).map(|failure| *failure)
    }

    /// Returns the failure to report when `last` ends the round. If the last dialect was refused too, the first refusal is
    /// the one of the client's own dialect, which the client can understand.
    fn or_last(self, last: Failure, is_dialect_refused: bool) -> Failure {
        if is_dialect_refused {
            self.first().unwrap_or(last)
        } else {
            self.cause.map_or(last, |failure| *failure)
        }
    }
}

impl Delivery<'_> {
    /// Asks one address. A dialect that is refused for good leaves `dialects`: the next address is not asked in it.
    pub(super) async fn ask(
        &self,
        endpoint: &Endpoint,
        values: &CredentialHeaders,
        dialects: &mut Dialects,
        attempt: &mut Attempt,
    ) -> Result<Box<Accepted>, Failure> {
        let site = &self.channel.account.site;
        let mut round = AddressRound::new(dialects.left, self.call.operation);
        let mut request = round.next_dialect();
        while let Some(NextRequest { dialect, written }) = request {
            let prepared = match written {
                Some(outgoing) => Some(*outgoing),
                None => self.prepared(&mut round, dialect).await?,
            };
            let Some(outgoing) = prepared else {
                round.queue = dialects.remove_unfit(dialect).unwrap_or(round.queue);
                request = round.next_dialect();
                continue;
            };
            if self.call.settings.single_dialect {
                dialects.left.keep_only(dialect);
                round.queue.clear();
            }
            let route =
                UpstreamRoute { path: round.operation.upstream_path(site.platform, dialect), dialect };
            let composed = self.compose(endpoint, values, route, outgoing).map_err(Failure::unfit)?;
            round.log_downgrade(self.proxy);
            let failure = match self.send(endpoint, route, composed, attempt).await {
                Ok(accepted) => {
                    self.learn(round.recovery.refused(), dialect);
                    return Ok(accepted);
                }
                Err(failure) => failure,
            };
            // Boxed, because it is rare and large.
            let step =
                Box::pin(self.judge_refusal(&failure, &mut round, dialect, dialects.left.len() > 1)).await;
            self.call.trace.request_failed(&failure.text, step.asks_again());
            request = match step {
                NextStep::Rewritten(outgoing) => Some(NextRequest { dialect, written: Some(outgoing) }),
                NextStep::StandIn(operation) => round.ask_for(operation, dialect),
                NextStep::OtherDialect(downgrade) => {
                    round.downgraded = attempt.refusal_row(&failure);
                    self.give_way(dialect, downgrade, failure, &mut round, dialects);
                    round.next_dialect()
                }
                NextStep::End { is_dialect_refused: true } if round.postponed.is_some() => {
                    round.downgraded = attempt.refusal_row(&failure);
                    round.refusals.of_dialect.get_or_insert_with(|| Box::new(failure));
                    round.resume()
                }
                NextStep::End { is_dialect_refused } => {
                    dialects.are_all_refused = is_dialect_refused;
                    return Err(self.final_failure(round.refusals, dialect, failure, is_dialect_refused));
                }
            };
        }
        let name = &site.name;
        let none = || format!("site {name} accepts none of the dialects that this request can be sent in");
        Err(round.refusals.first().unwrap_or_else(|| Failure::local(none())))
    }

    /// Returns the failure to report when the one of this dialect ends the round.
    fn final_failure(
        &self,
        mut refusals: Refusals,
        dialect: Dialect,
        failure: Failure,
        is_dialect_refused: bool,
    ) -> Failure {
        if is_dialect_refused && dialect == Dialect::Responses && self.needs_responses() {
            refusals.cannot_express(ConversionError::unsupported("file_url"));
        }
        refusals.or_last(failure, is_dialect_refused)
    }

    /// Whether no other dialect than responses can express the call.
    fn needs_responses(&self) -> bool {
        let Self { call, channel, .. } = *self;
        let platform = channel.account.site.platform;
        dialect_order::needs_responses(platform, call.shape.dialect, call.envelope.marks, &call.body)
    }

    /// Prepares the call's body; `None` if this dialect cannot express it.
    async fn prepared(
        &self,
        round: &mut AddressRound,
        dialect: Dialect,
    ) -> Result<Option<PreparedBody>, Failure> {
        match self.prepare_apart(round.operation, dialect).await? {
            Ok(outgoing) => Ok(Some(outgoing)),
            Err(unfit @ ConversionError::Unsupported { .. }) => {
                round.refusals.cannot_express(unfit);
                Ok(None)
            }
            Err(unfit) => Err(Failure::unfit(unfit)),
        }
    }

    /// Remembers that the model accepted the request without what it does not know.
    fn learn(&self, refused: &Refused, dialect: Dialect) {
        if !refused.is_nothing() {
            self.proxy.member_refusals.refused(self.asked_model(dialect), refused, now_ms());
        }
    }

    /// Decides what follows a failure in the dialect that was asked last.
    async fn judge_refusal(
        &self,
        failure: &Failure,
        round: &mut AddressRound,
        dialect: Dialect,
        has_others: bool,
    ) -> NextStep {
        let Self { proxy, call, channel, .. } = *self;
        let site = &channel.account.site;
        let (conversions, length) = (&proxy.conversions, call.body.len());
        let AddressRound { queue, operation, recovery, postponed, .. } = round;
        let stand_in = fallback_operation(call, *operation, failure);
        let prepare = || self.prepare(*operation, dialect).ok();
        // Rewriting cannot help where the upstream lacks the operation.
        let rewrite = || match stand_in {
            Some(_) => None,
            None => recovery.next(RefusedCall { call, platform: site.platform, dialect, failure }, prepare),
        };
        let mut rewritten = if dialect == call.shape.dialect {
            conversions.read_through(length, rewrite).await
        } else {
            conversions.answer(length).await.convert(rewrite)
        };
        // A key that the client chose may be refused for itself; ours is one that every site of this kind takes.
        let has_key = call.envelope.has_previous || call.envelope.has_cache_key;
        let is_own_key = dialect != call.shape.dialect && !has_key;
        if rewritten.is_some() && is_own_key && recovery.leaves_out(cache_key::MEMBER) {
            proxy.cache_keys.refused(site.id, now_ms());
        }
        let refused = downgrade(failure, dialect);
        // The dialect that the upstream names takes all of the request; a rewritten one leaves a part of it out.
        let names_another =
            refused.and_then(|refused| refused.to).is_some_and(|other| queue.contains(&other));
        if let Some(written) = rewritten.take_if(|_| names_another) {
            let recovery = std::mem::take(recovery);
            *postponed = Some(PostponedRequest { dialect, written: Box::new(written), recovery });
        }
        next_step(RefusedRequest {
            stand_in,
            may_repeat: failure.retry_scope(call.work()) == RetryScope::Here,
            downgrade: refused.filter(|_| rewritten.is_none()),
            has_others,
            rewritten: rewritten.map(Box::new),
        })
    }

    /// Moves on from a refused dialect; the next one is the one that the upstream named, if it did.
    fn give_way(
        &self,
        dialect: Dialect,
        downgrade: Downgrade,
        failure: Failure,
        round: &mut AddressRound,
        dialects: &mut Dialects,
    ) {
        let (platform, client) = (self.channel.account.site.platform, self.call.shape.dialect);
        let AddressRound { queue, refusals, .. } = round;
        dialect_order::order_for_document(queue, platform, client, self.model, &self.call.body);
        if let Some(wanted) = downgrade.to.and_then(|to| queue.iter().position(|own| *own == to)) {
            queue.prefer(wanted);
        }
        if downgrade.blocks {
            dialects.left.remove(dialect);
            dialects.refused.push(RefusedDialect { dialect, instead: downgrade.to });
            refusals.of_dialect.get_or_insert_with(|| Box::new(failure));
        } else {
            refusals.cause.get_or_insert_with(|| Box::new(failure));
        }
    }
}

/// Returns the operation that may be asked for instead, where the upstream lacks the call's own.
fn fallback_operation(call: &Call, operation: Operation, failure: &Failure) -> Option<Operation> {
    match operation {
        Operation::Compact if failure.lacks_compaction() && call.settings.compact_fallback => {
            Some(Operation::Answer)
        }
        // Hubs have the first version, from which the second differs in what it omits.
        Operation::RerankV2 if failure.lacks_surface() => Some(Operation::Rerank),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Returns the name of the step that follows a refusal.
    fn follows(
        [is_rewritten, has_stand_in, may_repeat, has_others]: [bool; 4],
        downgrade: Option<Downgrade>,
    ) -> &'static str {
        let outgoing = || Box::new(PreparedBody::of([Bytes::new(), Bytes::new(), Bytes::new()], false));
        let rewritten = is_rewritten.then(outgoing);
        let stand_in = has_stand_in.then_some(Operation::Answer);
        match next_step(RefusedRequest { rewritten, stand_in, may_repeat, downgrade, has_others }) {
            NextStep::Rewritten(_) => "rewritten",
            NextStep::StandIn(_) => "an answer",
            NextStep::OtherDialect(_) => "another dialect",
            NextStep::End { is_dialect_refused: true } => "end of dialects",
            NextStep::End { is_dialect_refused: false } => "end",
        }
    }

    #[test]
    fn a_refusal_keeps_its_dialect_while_rewriting_may_help_then_gives_way_then_ends() {
        let of_dialect = Some(Downgrade { to: None, blocks: true });
        let perhaps = Some(Downgrade { to: None, blocks: false });
        for (known, downgrade, expected) in [
            ([true, true, true, true], of_dialect, "rewritten"),
            ([true, false, false, false], None, "rewritten"),
            ([false, true, true, true], of_dialect, "an answer"),
            ([false, true, false, false], None, "an answer"),
            ([false, false, true, true], of_dialect, "another dialect"),
            ([false, false, true, true], perhaps, "another dialect"),
            ([false, false, true, true], None, "end"),
            ([false, false, true, false], of_dialect, "end of dialects"),
            ([false, false, true, false], perhaps, "end"),
            ([false, false, false, true], of_dialect, "end"),
            ([false, false, false, false], None, "end"),
        ] {
            assert_eq!(follows(known, downgrade), expected, "{known:?} {downgrade:?}");
        }
    }

    #[test]
    fn a_failure_that_is_about_more_than_the_dialect_is_reported_first() {
        let failure = |text: &str| Box::new(Failure::judged(text.to_owned()));
        let refusals = |cause: bool, inexpressible: bool, of_dialect: bool| Refusals {
            cause: cause.then(|| failure("cause")),
            inexpressible: inexpressible.then(|| failure("inexpressible")),
            of_dialect: of_dialect.then(|| failure("dialect")),
        };
        let first = |refusals: Refusals| refusals.first().map(|failure| failure.text);
        assert_eq!(first(refusals(true, true, true)).as_deref(), Some("cause"));
        assert_eq!(first(refusals(false, true, true)).as_deref(), Some("inexpressible"));
        assert_eq!(first(refusals(false, false, true)).as_deref(), Some("dialect"));
        assert_eq!(first(Refusals::default()), None);
        let last = |refusals: Refusals, is_dialect_refused| {
            refusals.or_last(Failure::judged("last".to_owned()), is_dialect_refused).text
        };
        assert_eq!(last(refusals(false, true, true), true), "inexpressible");
        assert_eq!(last(refusals(false, true, true), false), "last");
        assert_eq!(last(refusals(true, true, true), false), "cause");
        assert_eq!(last(Refusals::default(), true), "last");
    }
}
