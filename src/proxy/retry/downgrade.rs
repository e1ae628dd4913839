//! What a failure in one dialect says about the others.

use crate::dialect::Dialect;

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
    let status = failure.upstream_status()?;
    // An earlier answer that the upstream has forgotten is unknown in every dialect.
    if failure.has_forgotten() {
        return None;
    }
    let words = failure.words();
    if (status >= 500 || matches!(status, 408 | 429)) && words.is_exhausted() {
        return None;
    }
    let named = [
        (Dialect::Responses, words.names_responses()),
        (Dialect::Messages, words.names_messages()),
        (Dialect::Chat, words.names_chat()),
    ];
    let names_some = named.iter().any(|(_, is_named)| *is_named);
    let to = named.into_iter().find(|(dialect, is_named)| *is_named && *dialect != asked);
    let to = to.map(|(dialect, _)| dialect);
    let of_another = words.wants_other_body();
    let dispatch = status == 403 && words.is_about_dispatch();
    // A 404 about the model would be the same in every dialect.
    let of_model = words.names_model();
    let absent = matches!(status, 405 | 415 | 501) || (status == 404 && !of_model);
    let unsupported = status == 400 && words.says_unsupported();
    // "This is a chat model and not supported in the v1/completions endpoint. Did you mean …?"
    // Hubs wrap "Please use the /v1/messages endpoint" of an upstream in an error of these types.
    let is_wrapped = status == 400 && failure.is_wrapped();
    let elsewhere = to.is_some() && (is_wrapped || matches!(status, 400 | 404) && words.says_supported());
    let refused = absent
        || dispatch
        || of_another
        || elsewhere
        || words.refuses_dialect()
        || (unsupported && names_some);
    // A "not found" or "not supported" may be about the path or about something in the request: another
    // dialect is worth a try, but this one is not to be avoided for it.
    let perhaps = (400..500).contains(&status) && !of_model && words.may_refuse_dialect()
        || unsupported
        || is_wrapped && names_some
        || status == 400 && words.is_for_a_cli();
    // The thing that the upstream does not find may be something that this request names.
    let blocks = refused && !words.quotes_the_request();
    (refused || perhaps).then_some(Downgrade { to, blocks })
}

#[cfg(test)]
#[path = "downgrade_tests.rs"]
mod tests;
