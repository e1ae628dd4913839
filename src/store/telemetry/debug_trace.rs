//! A single request recorded in full when an operator asks for it. What arrives here is already redacted. Texts
//! named `*_json` are JSON.

use crate::ids::{AccountId, ChannelId, KeyId, RouteId, SiteId};
use crate::store::sql::{Statement, Value};
use crate::time::Millis;

/// The record of one request through the proxy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DebugTrace {
    pub downstream_path: String,
    pub client_kind: Option<String>,
    pub session_id: Option<String>,
    /// The id of the request, as in the log.
    pub trace_hint: Option<String>,
    pub requested_model: Option<String>,
    pub downstream_api_key_id: Option<KeyId>,
    pub request_headers_json: Option<String>,
    pub request_body_json: Option<String>,
    pub sticky_session_key: Option<String>,
    pub sticky_hit_channel_id: Option<ChannelId>,
    pub selected_channel_id: Option<ChannelId>,
    pub selected_route_id: Option<RouteId>,
    pub selected_account_id: Option<AccountId>,
    pub selected_site_id: Option<SiteId>,
    pub selected_site_platform: Option<String>,
    pub endpoint_candidates_json: Option<String>,
    pub endpoint_runtime_state_json: Option<String>,
    pub decision_summary_json: Option<String>,
    pub final_status: Option<&'static str>,
    pub final_http_status: Option<i64>,
    pub final_upstream_path: Option<String>,
    pub final_response_headers_json: Option<String>,
    pub final_response_body_json: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// In the order in which they were made.
    pub attempts: Vec<DebugAttempt>,
}

/// One request to an upstream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DebugAttempt {
    /// The dialect spoken.
    pub endpoint: String,
    pub request_path: String,
    pub target_url: String,
    pub request_headers_json: Option<String>,
    pub request_body_json: Option<String>,
    pub response_status: Option<i64>,
    pub response_headers_json: Option<String>,
    pub response_body_json: Option<String>,
    pub raw_error_text: Option<String>,
    /// Whether the dialect was refused and another one was tried.
    pub downgrade_decision: bool,
    pub downgrade_reason: Option<String>,
    pub created_at: Millis,
}

impl DebugTrace {
    /// Returns its approximate size in memory and on disk, in bytes.
    pub fn size(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let attempts = self.attempts.iter().map(|attempt| {
            512 + of(&attempt.request_headers_json)
                + of(&attempt.request_body_json)
                + of(&attempt.response_headers_json)
                + of(&attempt.response_body_json)
                + of(&attempt.raw_error_text)
        });
        1024 + of(&self.request_headers_json)
            + of(&self.request_body_json)
            + of(&self.decision_summary_json)
            + of(&self.final_response_headers_json)
            + of(&self.final_response_body_json)
            + attempts.sum::<usize>()
    }

    /// Builds the insertion of the trace, as statement `at` of a batch, followed by those of its attempts.
    pub(in crate::store) fn insert(self, at: usize) -> Vec<Statement> {
        let size = i64::try_from(self.size()).unwrap_or(i64::MAX);
        let trace = Statement::insert(
            "proxy_debug_traces",
            [
                ("downstream_path", self.downstream_path.into()),
                ("client_kind", self.client_kind.into()),
                ("session_id", self.session_id.into()),
                ("trace_hint", self.trace_hint.into()),
                ("requested_model", self.requested_model.into()),
                ("downstream_api_key_id", self.downstream_api_key_id.into()),
                ("request_headers_json", self.request_headers_json.into()),
                ("request_body_json", self.request_body_json.into()),
                ("sticky_session_key", self.sticky_session_key.into()),
                ("sticky_hit_channel_id", self.sticky_hit_channel_id.into()),
                ("selected_channel_id", self.selected_channel_id.into()),
                ("selected_route_id", self.selected_route_id.into()),
                ("selected_account_id", self.selected_account_id.into()),
                ("selected_site_id", self.selected_site_id.into()),
                ("selected_site_platform", self.selected_site_platform.into()),
                ("endpoint_candidates_json", self.endpoint_candidates_json.into()),
                ("endpoint_runtime_state_json", self.endpoint_runtime_state_json.into()),
                ("decision_summary_json", self.decision_summary_json.into()),
                ("final_status", self.final_status.into()),
                ("final_http_status", self.final_http_status.into()),
                ("final_upstream_path", self.final_upstream_path.into()),
                ("final_response_headers_json", self.final_response_headers_json.into()),
                ("final_response_body_json", self.final_response_body_json.into()),
                ("stored_bytes", size.into()),
                ("created_at", self.created_at.into()),
                ("updated_at", self.updated_at.into()),
            ],
        );
        let attempts =
            self.attempts.into_iter().enumerate().map(|(index, attempt)| attempt.insert(at, index));
        std::iter::once(trace).chain(attempts).collect()
    }
}

impl DebugAttempt {
    fn insert(self, trace: usize, index: usize) -> Statement {
        Statement::insert(
            "proxy_debug_attempts",
            [
                ("trace_id", Value::IdOf(trace)),
                ("attempt_index", i64::try_from(index).unwrap_or(i64::MAX).into()),
                ("endpoint", self.endpoint.into()),
                ("request_path", self.request_path.into()),
                ("target_url", self.target_url.into()),
                ("request_headers_json", self.request_headers_json.into()),
                ("request_body_json", self.request_body_json.into()),
                ("response_status", self.response_status.into()),
                ("response_headers_json", self.response_headers_json.into()),
                ("response_body_json", self.response_body_json.into()),
                ("raw_error_text", self.raw_error_text.into()),
                ("downgrade_decision", self.downgrade_decision.into()),
                ("downgrade_reason", self.downgrade_reason.into()),
                ("created_at", self.created_at.into()),
            ],
        )
    }
}
