//! What a failure in one dialect says about the others.

use crate::dialect::Dialect;
use crate::error_words::ErrorText;

use crate::proxy::failure::Failure;

/// A refusal that concerns the dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) struct Downgrade {
    /// The dialect that the upstream names instead, if any. Another dialect is worth a try in any case.
    pub(in crate::proxy) to: Option<Dialect>,
    /// Whether the refusal is about the dialect itself, which then need not be tried again soon.
    pub(in crate::proxy) blocks: bool,
}

/// Reads a failure of a request in the dialect `asked`; returns `None` when other dialects would fail the same way.
pub(in crate::proxy) fn downgrade(failure: &Failure, asked: Dialect) -> Option<Downgrade> {
    let refusal = Refusal::of(failure, asked)?;
    let refuses = refusal.refuses_dialect();
    // The thing that the upstream does not find may be something that this request names.
    let blocks = refuses && !refusal.words.quotes_the_request();
    (refuses || refusal.may_refuse_dialect()).then_some(Downgrade { to: refusal.to, blocks })
}

/// A refusal that may concern the dialect.
struct Refusal<'f> {
    status: u16,
    words: &'f ErrorText,
    /// Whether a hub passes on the refusal of its own upstream.
    is_wrapped: bool,
    /// Whether the refusal names a dialect, be it the one that was asked.
    names_dialect: bool,
    /// The first other dialect that the refusal names.
    to: Option<Dialect>,
}

impl<'f> Refusal<'f> {
    /// Returns `None` for a failure that would be the same in every dialect.
    fn of(failure: &'f Failure, asked: Dialect) -> Option<Self> {
        let (status, words) = (failure.upstream_status()?, failure.words());
        let is_exhausted = (status >= 500 || matches!(status, 408 | 429)) && words.is_exhausted();
        // An earlier answer that the upstream has forgotten is unknown in every dialect.
        if is_exhausted || failure.has_forgotten() {
            return None;
        }
        let named = [
            words.names_responses().then_some(Dialect::Responses),
            words.names_messages().then_some(Dialect::Messages),
            words.names_chat().then_some(Dialect::Chat),
        ];
        Some(Self {
            status,
            words,
            is_wrapped: failure.is_wrapped(),
            names_dialect: named.iter().any(Option::is_some),
            to: named.into_iter().flatten().find(|dialect| *dialect != asked),
        })
    }

    /// Whether the dialect itself is refused.
    fn refuses_dialect(&self) -> bool {
        let Self { status, words, .. } = *self;
        words.refuses_dialect()
            || words.wants_other_body()
            || matches!(status, 405 | 415 | 501)
            // A 404 about the model would be the same in every dialect.
            || (status == 404 && !words.names_model())
            || (status == 403 && words.is_about_dispatch())
            || (status == 400 && words.says_unsupported() && self.names_dialect)
            || self.points_elsewhere()
    }

    /// Whether another dialect is named in place of this one.
    fn points_elsewhere(&self) -> bool {
        // "This is a chat model and not supported in the v1/completions endpoint. Did you mean …?"
        let is_supported_there = matches!(self.status, 400 | 404) && self.words.says_supported();
        // Hubs wrap "Please use the /v1/messages endpoint" of an upstream in an error of their own type.
        self.to.is_some() && (is_supported_there || (self.status == 400 && self.is_wrapped))
    }

    /// Whether the path may be refused, or something in the request: another dialect is worth a try, but this one is not to be
    /// avoided for it.
    fn may_refuse_dialect(&self) -> bool {
        let Self { status, words, .. } = *self;
        ((400..500).contains(&status) && !words.names_model() && words.may_refuse_dialect())
            || (status == 400
                && (words.says_unsupported()
                    || words.is_for_a_cli()
                    || (self.is_wrapped && self.names_dialect)))
    }
}

#[cfg(test)]
mod tests;
