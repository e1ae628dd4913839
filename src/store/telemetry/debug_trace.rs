//! A single request recorded in full, on an operator's word. What comes here is redacted already. Texts named `*_json`
//! are JSON.

use crate::ids::{AccountId, ChannelId, KeyId, RouteId, SiteId};
use crate::store::sql::{Statement, Value};
use crate::time::Millis;

/// One request, as it went through the proxy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DebugTrace {
    pub downstream_path: String,
    pub client_kind: Option<String>,
    pub session_id: Option<String>,
    /// The request's id, as the log has it.
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
    /// In the order they were made.
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
    /// The dialect was refused, and another one was tried.
    pub downgrade_decision: bool,
    pub downgrade_reason: Option<String>,
    pub created_at: Millis,
}

impl DebugTrace {
    /// About what it takes in memory and on disk.
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

    /// The insertion of the trace as statement `at` of a batch, and of its attempts behind it.
    pub(in crate::store) fn insert(self, at: usize) -> Vec<Statement> {
        let size = i64::try_from(self.size()).unwrap_or(i64::MAX);
        let trace = Statement::new(
            "INSERT INTO proxy_debug_traces (downstream_path, client_kind, session_id, trace_hint, \
             requested_model, downstream_api_key_id, request_headers_json, request_body_json, \
             sticky_session_key, sticky_hit_channel_id, selected_channel_id, selected_route_id, \
             selected_account_id, selected_site_id, selected_site_platform, endpoint_candidates_json, \
             endpoint_runtime_state_json, decision_summary_json, final_status, final_http_status, \
             final_upstream_path, final_response_headers_json, final_response_body_json, stored_bytes, \
             created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, \
             ?, ?, ?, ?)",
            vec![
                self.downstream_path.into(),
                self.client_kind.into(),
                self.session_id.into(),
                self.trace_hint.into(),
                self.requested_model.into(),
                self.downstream_api_key_id.into(),
                self.request_headers_json.into(),
                self.request_body_json.into(),
                self.sticky_session_key.into(),
                self.sticky_hit_channel_id.into(),
                self.selected_channel_id.into(),
                self.selected_route_id.into(),
                self.selected_account_id.into(),
                self.selected_site_id.into(),
                self.selected_site_platform.into(),
                self.endpoint_candidates_json.into(),
                self.endpoint_runtime_state_json.into(),
                self.decision_summary_json.into(),
                self.final_status.into(),
                self.final_http_status.into(),
                self.final_upstream_path.into(),
                self.final_response_headers_json.into(),
                self.final_response_body_json.into(),
                size.into(),
                self.created_at.into(),
                self.updated_at.into(),
            ],
        );
        let attempts =
            self.attempts.into_iter().enumerate().map(|(index, attempt)| attempt.insert(at, index));
        std::iter::once(trace).chain(attempts).collect()
    }
}

impl DebugAttempt {
    fn insert(self, trace: usize, index: usize) -> Statement {
        Statement::new(
            "INSERT INTO proxy_debug_attempts (trace_id, attempt_index, endpoint, request_path, target_url, \
             request_headers_json, request_body_json, response_status, response_headers_json, \
             response_body_json, raw_error_text, downgrade_decision, downgrade_reason, created_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            vec![
                Value::IdOf(trace),
                i64::try_from(index).unwrap_or(i64::MAX).into(),
                self.endpoint.into(),
                self.request_path.into(),
                self.target_url.into(),
                self.request_headers_json.into(),
                self.request_body_json.into(),
                self.response_status.into(),
                self.response_headers_json.into(),
                self.response_body_json.into(),
                self.raw_error_text.into(),
                self.downgrade_decision.into(),
                self.downgrade_reason.into(),
                self.created_at.into(),
            ],
        )
    }
}
