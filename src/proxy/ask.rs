//! One address of a channel is asked in one dialect after the other, until one is taken.
//!
//! ```text
//! dialect ─▶ compose ─▶ send ─▶ accepted
//!    ▲         ▲         │
//!    │         └─────────┤ refused: the same dialect in other words, or for what stands in for the operation;
//!    └───────────────────┤          the next dialect;
//!                        ▼          or nothing more
//! ```
//!
//! [`next`] decides which, of what is known of a [`RefusedRequest`]. A status outside 2xx is a refusal that has been read.

use crate::dialect::Dialect;
use crate::dialect::canonical::ConversionError;
use crate::routing::{CredentialHeaders, Endpoint};
use crate::store::proxy_logs::ProxyLogRow;
use crate::time::now_ms;
use crate::upstream::Repeat;

use super::attempt::Attempt;
use super::call::Call;
use super::compose::Delivery;
use super::compose::cache_key;
use super::compose::outgoing::Outgoing;
use super::failure::Failure;
use super::operation::Operation;
use super::retry::downgrade::{Downgrade, downgrade};
use super::retry::formats::{self, Formats};
use super::retry::recovery::Recovery;
use super::send::Accepted;

/// The dialects in which a channel's addresses are asked.
pub(super) struct Dialects {
    /// Those that were not refused for good, in order.
    pub(super) left: Formats,
    /// Those that were, each with the one that the upstream named instead.
    pub(super) refused: Vec<(Dialect, Option<Dialect>)>,
    /// So was the last one.
    pub(super) are_all_refused: bool,
}

/// What is sent next to an address.
struct Ask {
    format: Dialect,
    /// The request as it is to be sent; not written yet where it goes as it is.
    written: Option<Box<Outgoing>>,
}

/// A refused request, as far as that decides what is sent next.
struct RefusedRequest {
    /// The request in other words, where these may help.
    other_words: Option<Box<Outgoing>>,
    /// What may be asked for in its place, where the upstream has no such operation.
    stand_in: Option<Operation>,
    /// It may be sent to this upstream once more.
    may_repeat: bool,
    /// What it says of the dialects.
    downgrade: Option<Downgrade>,
    /// The channel can be asked in another dialect.
    has_others: bool,
}

/// What follows a refusal.
enum Next {
    /// Ask in this dialect again, in other words.
    OtherWords(Box<Outgoing>),
    /// Ask in this dialect again, for what stands in for the operation.
    StandIn(Operation),
    /// Another dialect.
    OtherDialect(Downgrade),
    /// Nothing more.
    End { is_dialect_refused: bool },
}

impl Next {
    fn goes_on(&self) -> bool {
        !matches!(self, Self::End { .. })
    }
}

/// What follows a refusal: what keeps the dialect comes first.
fn next(refusal: RefusedRequest) -> Next {
    let downgrade = refusal.downgrade.filter(|_| refusal.may_repeat);
    match (refusal.other_words, refusal.stand_in, downgrade) {
        (Some(outgoing), _, _) => Next::OtherWords(outgoing),
        (None, Some(stand_in), _) => Next::StandIn(stand_in),
        (None, None, Some(downgrade)) if refusal.has_others => Next::OtherDialect(downgrade),
        (None, None, refused) => {
            Next::End { is_dialect_refused: refused.is_some_and(|refused| refused.blocks) }
        }
    }
}

/// How far the asking of one address has come.
struct Round {
    /// The dialects that are still to be asked here.
    queue: Formats,
    /// The call's, or what stands in for it.
    operation: Operation,
    /// What has been tried in the present dialect.
    recovery: Recovery,
    refusals: Refusals,
}

impl Round {
    fn next_dialect(&mut self) -> Option<Ask> {
        self.recovery = Recovery::default();
        self.queue.pop_first().map(|format| Ask { format, written: None })
    }
}

/// What an address has said to the dialects tried so far: the first of each kind. Prefers a failure that is not specific
/// to a dialect, then what no dialect can express.
#[derive(Default)]
struct Refusals {
    /// A failure that another dialect might not meet, and that is not about dialects.
    cause: Option<Box<Failure>>,
    /// The request cannot be said in a dialect.
    unsaid: Option<Box<Failure>>,
    /// A dialect is not taken.
    of_dialect: Option<Box<Failure>>,
}

impl Refusals {
    /// What to tell of dialects that have all been tried.
    fn first(self) -> Option<Failure> {
        self.cause.or(self.unsaid).or(self.of_dialect).map(|failure| *failure)
    }

    /// What to tell when `last` ends the round. Where the last dialect is not taken either, the first one refused is
    /// the client's own, in which it understands why.
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
        let mut round = Round {
            queue: dialects.left,
            operation: self.call.operation,
            recovery: Recovery::default(),
            refusals: Refusals::default(),
        };
        // The row of the dialect that was refused last; written when another one is asked.
        let mut downgraded: Option<Box<ProxyLogRow>> = None;
        let mut ask = round.next_dialect();
        while let Some(Ask { format, written }) = ask {
            let prepared = match written {
                Some(outgoing) => Ok(*outgoing),
                None => self.prepare_apart(round.operation, format).await?,
            };
            let outgoing = match prepared {
                Ok(outgoing) => outgoing,
                Err(unfit @ ConversionError::Unsupported { .. }) => {
                    dialects.left.remove(format);
                    round.refusals.unsaid.get_or_insert_with(|| Box::new(Failure::unfit(unfit)));
                    ask = round.next_dialect();
                    continue;
                }
                Err(unfit) => return Err(Failure::unfit(unfit)),
            };
            let asked = (round.operation.upstream_path(site.platform, format), format);
            let composed = self.compose(endpoint, values, asked, outgoing).map_err(Failure::unfit)?;
            if let Some(row) = downgraded.take() {
                self.proxy.core.store.telemetry().log(*row);
            }
            let failure = match self.send(endpoint, asked, composed, attempt).await {
                Ok(accepted) => {
                    self.learn(round.recovery.unknown(), format);
                    return Ok(accepted);
                }
                Err(failure) => failure,
            };
            // Boxed, because it is rare and large.
            let next = Box::pin(self.after(&failure, &mut round, format, dialects.left.len() > 1)).await;
            self.call.trace.request_failed(&failure.text, next.goes_on());
            ask = match next {
                Next::OtherWords(outgoing) => Some(Ask { format, written: Some(outgoing) }),
                Next::StandIn(operation) => {
                    (round.operation, round.recovery) = (operation, Recovery::default());
                    Some(Ask { format, written: None })
                }
                Next::OtherDialect(downgrade) => {
                    downgraded = attempt.downgrade(&failure);
                    self.give_way((format, downgrade), failure, &mut round, dialects);
                    round.next_dialect()
                }
                Next::End { is_dialect_refused } => {
                    dialects.are_all_refused = is_dialect_refused;
                    return Err(round.refusals.or_last(failure, is_dialect_refused));
                }
            };
        }
        let nothing = || Failure::local(format!("site {} takes none of the dialects", site.name));
        Err(round.refusals.first().unwrap_or_else(nothing))
    }

    /// The model took the request without these members, which it does not know.
    fn learn(&self, unknown: &[&'static str], format: Dialect) {
        if !unknown.is_empty() {
            let asked = (self.channel.account.site.id, format, self.model);
            self.proxy.left_out.refused(asked, unknown, now_ms());
        }
    }

    /// What follows a failure of the dialect that was asked last.
    async fn after(&self, failure: &Failure, round: &mut Round, format: Dialect, has_others: bool) -> Next {
        let Self { proxy, call, channel, .. } = *self;
        let site = &channel.account.site;
        let (conversions, length) = (&proxy.conversions, call.body.len());
        let Round { operation, recovery, .. } = round;
        let stand_in = stand_in(call, *operation, failure);
        let prepare = || self.prepare(*operation, format).ok();
        // No other words make an operation of one that is not there.
        let words = || match stand_in {
            Some(_) => None,
            None => recovery.next(call, (site.platform, format), failure, prepare),
        };
        let other_words = match format == call.shape.dialect {
            true => conversions.read_through(length, words).await,
            false => conversions.answer(length).await.convert(words),
        };
        if other_words.is_some() && recovery.leaves_out(cache_key::MEMBER) {
            proxy.cache_keys.refused(site.id, now_ms());
        }
        next(RefusedRequest {
            stand_in,
            may_repeat: failure.may_repeat(call.work()) == Repeat::Here,
            downgrade: other_words.is_none().then(|| downgrade(failure, format)).flatten(),
            has_others,
            other_words: other_words.map(Box::new),
        })
    }

    /// The dialect was refused, and the next one is asked: the one that the upstream named, where it did.
    fn give_way(
        &self,
        (format, downgrade): (Dialect, Downgrade),
        failure: Failure,
        round: &mut Round,
        dialects: &mut Dialects,
    ) {
        let (platform, client) = (self.channel.account.site.platform, self.call.shape.dialect);
        let Round { queue, refusals, .. } = round;
        formats::order_for_document(queue, platform, client, self.model, &self.call.body);
        if let Some(wanted) = downgrade.to.and_then(|to| queue.iter().position(|own| *own == to)) {
            queue.prefer(wanted);
        }
        if downgrade.blocks {
            dialects.left.remove(format);
            dialects.refused.push((format, downgrade.to));
            refusals.of_dialect.get_or_insert_with(|| Box::new(failure));
        } else {
            refusals.cause.get_or_insert_with(|| Box::new(failure));
        }
    }
}

/// What may be asked for where the upstream has no such operation.
fn stand_in(call: &Call, operation: Operation, failure: &Failure) -> Option<Operation> {
    match operation {
        Operation::Compact if failure.lacks_compaction() && call.settings.compact_fallback => {
            Some(Operation::Answer)
        }
        // Hubs have the first version, of which the second differs in what it leaves out.
        Operation::RerankV2 if failure.lacks_surface() => Some(Operation::Rerank),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// The name of what follows a refusal.
    fn follows(
        [is_reworded, has_stand_in, may_repeat, has_others]: [bool; 4],
        downgrade: Option<Downgrade>,
    ) -> &'static str {
        let outgoing = || Box::new(Outgoing::of([Bytes::new(), Bytes::new(), Bytes::new()], false));
        let other_words = is_reworded.then(outgoing);
        let stand_in = has_stand_in.then_some(Operation::Answer);
        match next(RefusedRequest { other_words, stand_in, may_repeat, downgrade, has_others }) {
            Next::OtherWords(_) => "other words",
            Next::StandIn(_) => "an answer",
            Next::OtherDialect(_) => "another dialect",
            Next::End { is_dialect_refused: true } => "end of dialects",
            Next::End { is_dialect_refused: false } => "end",
        }
    }

    #[test]
    fn a_refusal_keeps_its_dialect_while_other_words_may_help_then_gives_way_then_ends() {
        let of_dialect = Some(Downgrade { to: None, blocks: true });
        let perhaps = Some(Downgrade { to: None, blocks: false });
        for (known, downgrade, expected) in [
            ([true, true, true, true], of_dialect, "other words"),
            ([true, false, false, false], None, "other words"),
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
    fn a_failure_that_is_about_more_than_the_dialect_is_told_first() {
        let failure = |text: &str| Box::new(Failure::judged(text.to_owned()));
        let told = |cause: bool, unsaid: bool, of_dialect: bool| Refusals {
            cause: cause.then(|| failure("cause")),
            unsaid: unsaid.then(|| failure("unsaid")),
            of_dialect: of_dialect.then(|| failure("dialect")),
        };
        let first = |refusals: Refusals| refusals.first().map(|failure| failure.text);
        assert_eq!(first(told(true, true, true)).as_deref(), Some("cause"));
        assert_eq!(first(told(false, true, true)).as_deref(), Some("unsaid"));
        assert_eq!(first(told(false, false, true)).as_deref(), Some("dialect"));
        assert_eq!(first(Refusals::default()), None);
        let last = |refusals: Refusals, is_dialect_refused| {
            refusals.or_last(Failure::judged("last".to_owned()), is_dialect_refused).text
        };
        assert_eq!(last(told(false, true, true), true), "unsaid");
        assert_eq!(last(told(false, true, true), false), "last");
        assert_eq!(last(told(true, true, true), false), "cause");
        assert_eq!(last(Refusals::default(), true), "last");
    }
}
