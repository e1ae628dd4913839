-- What an operator has recorded of single requests, to see why they went as they did. Redacted before
-- they are stored; a trace takes its attempts with it. stored_bytes bounds the whole table.
CREATE TABLE proxy_debug_traces (
  id {{id}},
  downstream_path {{text}} NOT NULL,
  client_kind {{key}} NULL,
  session_id {{text}} NULL,
  trace_hint {{text}} NULL,
  requested_model {{text}} NULL,
  downstream_api_key_id {{int}} NULL,
  request_headers_json {{json}} NULL,
  request_body_json {{json}} NULL,
  sticky_session_key {{text}} NULL,
  sticky_hit_channel_id {{int}} NULL,
  selected_channel_id {{int}} NULL,
  selected_route_id {{int}} NULL,
  selected_account_id {{int}} NULL,
  selected_site_id {{int}} NULL,
  selected_site_platform {{key}} NULL,
  endpoint_candidates_json {{json}} NULL,
  endpoint_runtime_state_json {{json}} NULL,
  decision_summary_json {{json}} NULL,
  final_status {{key}} NULL,
  final_http_status {{int}} NULL,
  final_upstream_path {{text}} NULL,
  final_response_headers_json {{json}} NULL,
  final_response_body_json {{json}} NULL,
  stored_bytes {{int}} NOT NULL DEFAULT 0,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL
);
CREATE INDEX proxy_debug_traces_created ON proxy_debug_traces (created_at);

CREATE TABLE proxy_debug_attempts (
  id {{id}},
  trace_id {{int}} NOT NULL,
  attempt_index {{int}} NOT NULL,
  endpoint {{text}} NOT NULL,
  request_path {{text}} NOT NULL,
  target_url {{text}} NOT NULL,
  runtime_executor {{text}} NULL,
  request_headers_json {{json}} NULL,
  request_body_json {{json}} NULL,
  response_status {{int}} NULL,
  response_headers_json {{json}} NULL,
  response_body_json {{json}} NULL,
  raw_error_text {{text}} NULL,
  recover_applied {{bool}} NOT NULL DEFAULT {{false}},
  downgrade_decision {{bool}} NOT NULL DEFAULT {{false}},
  downgrade_reason {{text}} NULL,
  memory_write_json {{json}} NULL,
  created_at {{ts}} NOT NULL,
  FOREIGN KEY (trace_id) REFERENCES proxy_debug_traces(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX proxy_debug_attempts_order ON proxy_debug_attempts (trace_id, attempt_index);
