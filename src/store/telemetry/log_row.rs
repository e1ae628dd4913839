//! A row of the proxy log: one per attempt, and one for each dialect that was refused on the way.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use crate::ids::{AccountId, ChannelId, KeyId, RouteId, SiteId};
use crate::money::Usd;
use crate::platform::Platform;
use crate::request_id::RequestId;
use crate::routing::{SelectionReason, pricing};
use crate::store::cached_tokens::CachedTokens;
use crate::store::sql::Arg;
use crate::time::Millis;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStatus {
    Success,
    #[default]
    Failed,
    Retried,
}

impl LogStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Retried => "retried",
        }
    }

    /// Reads a stored status; a word that is none was no success.
    pub fn parse(text: &str) -> Self {
        match text {
            "success" => Self::Success,
            "retried" => Self::Retried,
            _ => Self::Failed,
        }
    }

    pub fn is_success(self) -> bool {
        self == Self::Success
    }
}

/// The source of a row's token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageSource {
    Upstream,
    SelfLog,
    Unknown,
}

impl UsageSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::SelfLog => "self-log",
            Self::Unknown => "unknown",
        }
    }
}

const INTO: &str = "INTO proxy_logs (request_id, route_id, channel_id, account_id, site_id, \
     downstream_api_key_id, model_requested, model_actual, status, http_status, is_stream, \
     first_byte_latency_ms, latency_ms, prompt_tokens, completion_tokens, total_tokens, usage_source, \
     estimated_cost, billing_details, client_family, client_app_id, client_app_name, \
     client_confidence, session_id, downstream_path, upstream_path, error_message, retry_count, \
     created_at, input_tokens, cache_read_tokens, cache_creation_tokens, decision_reason)";

const VALUES: &str =
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The number of rows that one statement inserts when that many wait: running a statement costs about as much
/// as a row.
pub(in crate::store) const TOGETHER: usize = 10;

/// The numbers of rows that one statement inserts on a server, where each statement is a round trip: forty of
/// them for a group of ten thousand rows. Servers take 65,535 arguments.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const TOGETHER_ON_SERVER: [usize; 3] = [250, 10, 1];

/// Splits rows into parts, each with the number of its rows that one statement inserts on a server.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(in crate::store) fn parts(rows: &[ProxyLogRow]) -> [(&[ProxyLogRow], usize); 3] {
    let mut rest = rows;
    TOGETHER_ON_SERVER.map(|at_once| {
        let (part, after) = rest.split_at(rest.len() - rest.len() % at_once);
        rest = after;
        (part, at_once)
    })
}

/// Returns the rest of a statement that inserts this many rows, to follow the dialect's `INSERT`.
pub(in crate::store) fn into(rows: usize) -> String {
    format!("{INTO} VALUES {}", vec![VALUES; rows].join(", "))
}

/// The number of arguments that [`into`] takes for a row before its decision.
pub(in crate::store) const ARGS: usize = 32;

/// The record of one attempt, as the proxy hands it over. Token counts are `None` when unknown, not 0.
#[derive(Debug, Clone, Default)]
pub struct ProxyLogRow {
    pub created_at: Millis,
    pub request_id: Option<RequestId>,
    pub route_id: Option<RouteId>,
    pub channel_id: Option<ChannelId>,
    pub account_id: Option<AccountId>,
    pub site_id: Option<SiteId>,
    /// The platform of the site; not stored, but it decides the cost of tokens without a price.
    pub platform: Option<Platform>,
    pub downstream_api_key_id: Option<KeyId>,
    pub model_requested: Option<Arc<str>>,
    pub model_actual: Option<Arc<str>>,
    pub status: LogStatus,
    /// 0 when the network failed before a response.
    pub http_status: Option<u16>,
    pub is_stream: Option<bool>,
    pub first_byte_latency_ms: Option<i64>,
    pub latency_ms: Option<i64>,
    pub prompt_tokens: Option<i64>,
    pub completion_tokens: Option<i64>,
    pub total_tokens: Option<i64>,
    /// All input tokens, including those read from or written to a cache, however the upstream counts them.
    pub input_tokens: Option<i64>,
    pub cache_read_tokens: Option<i64>,
    pub cache_creation_tokens: Option<i64>,
    pub usage_source: Option<UsageSource>,
    /// In USD.
    pub estimated_cost: Usd,
    /// Whether the cost comes from the site's own prices, even if it is zero; not stored.
    pub is_priced: bool,
    /// JSON text.
    pub billing_details: Option<String>,
    pub client_family: Option<&'static str>,
    pub client_app_id: Option<Cow<'static, str>>,
    pub client_app_name: Option<Cow<'static, str>>,
    pub client_confidence: Option<&'static str>,
    pub session_id: Option<Arc<str>>,
    pub downstream_path: Option<&'static str>,
    pub upstream_path: Option<&'static str>,
    pub error_message: Option<String>,
    /// 0 for the first attempt of a request.
    pub retry_count: u32,
    /// Whether this is the one row by which a request is counted; not stored.
    pub begins_call: bool,
    /// The reason for which the channel was selected.
    pub decision: Option<SelectionReason>,
    /// The usage that the key pays although the attempt failed. It is not stored in the row, whose cost is 0 like that of
    /// every failure.
    pub charged: Option<Box<ChargedUsage>>,
}

/// The usage that a key pays for an attempt. Tokens include cached ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChargedUsage {
    pub cost: Usd,
    pub tokens: i64,
    pub input: i64,
    pub output: i64,
    pub cache_read: i64,
}

impl ProxyLogRow {
    /// Builds a row of which only the time and the outcome are known.
    pub fn new(created_at: Millis, status: LogStatus) -> Self {
        Self { created_at, status, ..Self::default() }
    }

    /// Sets the cost of a success with tokens but without a price to what such tokens cost on the average site.
    /// This is done here once, so that the log and the usage tables agree.
    pub fn settle_cost(&mut self) {
        let tokens = self.tokens();
        if self.status.is_success() && !self.is_priced && self.estimated_cost <= Usd::ZERO && tokens > 0 {
            self.estimated_cost = pricing::flat_estimate(self.platform, tokens.unsigned_abs());
        }
    }

    /// Returns all tokens of the attempt; 0 when unknown.
    pub fn tokens(&self) -> i64 {
        let parts = self.prompt_tokens.unwrap_or(0).saturating_add(self.completion_tokens.unwrap_or(0));
        self.total_tokens.unwrap_or(0).max(parts)
    }

    /// Returns the token counts of the cache; zeros when the upstream does not report them.
    pub fn cached(&self) -> CachedTokens {
        if self.cache_read_tokens.is_none() && self.cache_creation_tokens.is_none() {
            return CachedTokens::default();
        }
        CachedTokens {
            input: self.input_tokens.unwrap_or(0),
            read: self.cache_read_tokens.unwrap_or(0),
            creation: self.cache_creation_tokens.unwrap_or(0),
        }
    }

    /// Returns the arguments of the statement that stores a row, except the last one, the decision, which has
    /// yet to be formatted.
    pub(in crate::store) fn args(&self) -> [Arg<'_>; ARGS] {
        [
            self.request_id.as_ref().map(RequestId::as_str).into(),
            self.route_id.into(),
            self.channel_id.into(),
            self.account_id.into(),
            self.site_id.into(),
            self.downstream_api_key_id.into(),
            self.model_requested.as_deref().into(),
            self.model_actual.as_deref().into(),
            self.status.as_str().into(),
            self.http_status.map(i64::from).into(),
            self.is_stream.into(),
            self.first_byte_latency_ms.into(),
            self.latency_ms.into(),
            self.prompt_tokens.into(),
            self.completion_tokens.into(),
            self.total_tokens.into(),
            self.usage_source.map(UsageSource::as_str).into(),
            self.estimated_cost.into(),
            self.billing_details.as_deref().into(),
            self.client_family.into(),
            self.client_app_id.as_deref().into(),
            self.client_app_name.as_deref().into(),
            self.client_confidence.into(),
            self.session_id.as_deref().into(),
            self.downstream_path.into(),
            self.upstream_path.into(),
            self.error_message.as_deref().into(),
            i64::from(self.retry_count).into(),
            self.created_at.into(),
            self.input_tokens.into(),
            self.cache_read_tokens.into(),
            self.cache_creation_tokens.into(),
        ]
    }
}

/// Identifies the row of one attempt.
#[derive(Clone, Debug)]
pub struct RowName {
    pub created_at: Millis,
    pub request_id: RequestId,
    pub retry_count: u32,
    pub site_id: SiteId,
    pub model: String,
    /// The key that made the request; `None` for the proxy token.
    pub key_id: Option<KeyId>,
}

impl RowName {
    /// Returns the name of a row; `None` if the row lacks its request id, its site or its model.
    pub fn of(row: &ProxyLogRow) -> Option<Self> {
        Some(Self {
            created_at: row.created_at,
            request_id: row.request_id?,
            retry_count: row.retry_count,
            site_id: row.site_id?,
            model: row.model_actual.as_deref()?.to_owned(),
            key_id: row.downstream_api_key_id,
        })
    }
}
