//! The cost of an answer, by the prices in memory.

use std::sync::Arc;

use crate::dialect::usage::Usage;
use crate::jobs::late_usage::{Payer, SettledRequest};
use crate::money::Usd;
use crate::routing::Channel;
use crate::routing::pricing::{Bill, BillingDetails, Tokens, usage_record};
use crate::store::amend::RowName;
use crate::store::proxy_logs::{ChargedUsage, ProxyLogRow};

/// Bills the usage of the row's model.
pub(super) fn bill(channel: &Channel, row: &ProxyLogRow, usage: Option<&Usage>) -> Bill {
    let model = row.model_actual.as_deref().unwrap_or_default();
    channel.account.bill(model, usage.map(tokens).unwrap_or_default())
}

/// Returns the bill of an answer that costs nothing, or whose usage is not known yet.
pub(super) fn empty_bill() -> Bill {
    Bill { cost: Usd::ZERO, is_priced: true, details: None }
}

/// Writes the details as the log stores them.
pub(super) fn details(details: Option<&BillingDetails>) -> Option<String> {
    // Plain numbers: writing them cannot fail.
    details.and_then(|details| serde_json::to_string(details).ok())
}

/// Returns what the key pays for the part of an answer that had come before it broke off.
pub(super) fn charged(usage: &Usage, cost: Usd) -> ChargedUsage {
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let [input, output, cache_read, _] = usage.by_kind().map(count);
    ChargedUsage { cost, tokens: count(usage.all()), input, output, cache_read }
}

/// Whether the site keeps a log that is worth asking about an answer with this usage.
pub(super) fn is_in_log(channel: &Channel, usage: Option<&Usage>) -> bool {
    usage_record::is_worth_asking(channel.account.site.platform, usage.is_some())
}

/// Collects what must be known to book a settled request anew later; `None` if the row has no [`RowName`].
pub(super) fn settled_request(
    channel: &Arc<Channel>,
    payer: Option<Payer>,
    row: &ProxyLogRow,
    usage: Option<&Usage>,
    is_priced: bool,
) -> Option<SettledRequest> {
    Some(SettledRequest {
        row: RowName::of(row)?,
        channel: channel.clone(),
        payer,
        ended: row.created_at.saturating_add(row.latency_ms.unwrap_or(0)),
        tokens: usage.map(tokens).unwrap_or_default(),
        cost: row.estimated_cost,
        is_priced,
    })
}

pub(super) fn tokens(usage: &Usage) -> Tokens {
    Tokens {
        prompt: usage.prompt.unwrap_or(0),
        completion: usage.completion.unwrap_or(0),
        total: usage.total.unwrap_or(0),
        cache_read: usage.cache_read.unwrap_or(0),
        cache_creation: usage.cache_creation.unwrap_or(0),
        prompt_includes_cache: usage.prompt_includes_cache,
    }
}
