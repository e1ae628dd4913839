-- One row per attempt. No foreign keys: history survives deletes.
CREATE TABLE proxy_logs (
  id {{id}},
  request_id {{key}} NULL,
  route_id {{int}} NULL,
  channel_id {{int}} NULL,
  account_id {{int}} NULL,
  site_id {{int}} NULL,
  downstream_api_key_id {{int}} NULL,
  model_requested {{text}} NULL,
  model_actual {{text}} NULL,
  status {{key}} NOT NULL,
  http_status {{int}} NULL,
  is_stream {{bool}} NULL,
  first_byte_latency_ms {{int}} NULL,
  latency_ms {{int}} NULL,
  prompt_tokens {{int}} NULL,
  completion_tokens {{int}} NULL,
  total_tokens {{int}} NULL,
  usage_source {{key}} NULL,
  estimated_cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  billing_details {{json}} NULL,
  client_family {{key}} NULL,
  client_app_id {{key}} NULL,
  client_app_name {{key}} NULL,
  client_confidence {{key}} NULL,
  session_id {{text}} NULL,
  downstream_path {{text}} NULL,
  upstream_path {{text}} NULL,
  error_message {{text}} NULL,
  retry_count {{int}} NOT NULL DEFAULT 0,
  created_at {{ts}} NOT NULL
);
CREATE INDEX proxy_logs_created ON proxy_logs (created_at);
CREATE INDEX proxy_logs_account ON proxy_logs (account_id, created_at);
CREATE INDEX proxy_logs_key ON proxy_logs (downstream_api_key_id, created_at);
CREATE INDEX proxy_logs_status ON proxy_logs (status, created_at);
