-- The log summed by spans of six hours and by what it can be filtered by, so that counting it does not read it. One row
-- for the rows of a span that are alike; first_id is the first of them.
CREATE TABLE proxy_log_sums (
  first_id {{int}} NOT NULL,
  start_at {{ts}} NOT NULL,
  site_id {{int}} NULL,
  downstream_api_key_id {{int}} NULL,
  model_requested {{text}} NULL,
  model_actual {{text}} NULL,
  client_family {{key}} NULL,
  client_app_id {{key}} NULL,
  client_app_name {{key}} NULL,
  calls {{int}} NOT NULL,
  ok {{int}} NOT NULL,
  tokens {{int}} NOT NULL,
  cost DOUBLE PRECISION NOT NULL,
  cache_input_tokens {{int}} NOT NULL,
  cache_read_tokens {{int}} NOT NULL,
  cache_creation_tokens {{int}} NOT NULL,
  PRIMARY KEY (first_id)
);
CREATE INDEX proxy_log_sums_start ON proxy_log_sums (start_at);

-- Which spans are summed. An open one was, until a row of it came late or changed, and has no sums.
CREATE TABLE proxy_log_spans (
  start_at {{ts}} NOT NULL,
  is_open {{bool}} NOT NULL,
  PRIMARY KEY (start_at)
);
