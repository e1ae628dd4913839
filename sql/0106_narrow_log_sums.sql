-- The sums of the log once more, each with part of what it can be filtered by: few rows, however many combinations of all
-- of it occur.
CREATE TABLE proxy_log_site_sums (
  first_id {{int}} NOT NULL,
  start_at {{ts}} NOT NULL,
  site_id {{int}} NULL,
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
CREATE INDEX proxy_log_site_sums_start ON proxy_log_site_sums (start_at);

CREATE TABLE proxy_log_model_sums (
  first_id {{int}} NOT NULL,
  start_at {{ts}} NOT NULL,
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
CREATE INDEX proxy_log_model_sums_start ON proxy_log_model_sums (start_at);

INSERT INTO proxy_log_site_sums (first_id, start_at, site_id, client_family, client_app_id, client_app_name,
  calls, ok, tokens, cost, cache_input_tokens, cache_read_tokens, cache_creation_tokens)
SELECT MIN(first_id), start_at, site_id, client_family, client_app_id, client_app_name,
  SUM(calls), SUM(ok), SUM(tokens), SUM(cost), SUM(cache_input_tokens), SUM(cache_read_tokens), SUM(cache_creation_tokens)
FROM proxy_log_sums GROUP BY start_at, site_id, client_family, client_app_id, client_app_name;

INSERT INTO proxy_log_model_sums (first_id, start_at, downstream_api_key_id, model_requested, model_actual, client_family,
  client_app_id, client_app_name, calls, ok, tokens, cost, cache_input_tokens, cache_read_tokens, cache_creation_tokens)
SELECT MIN(first_id), start_at, downstream_api_key_id, model_requested, model_actual, client_family,
  client_app_id, client_app_name,
  SUM(calls), SUM(ok), SUM(tokens), SUM(cost), SUM(cache_input_tokens), SUM(cache_read_tokens), SUM(cache_creation_tokens)
FROM proxy_log_sums GROUP BY start_at, downstream_api_key_id, model_requested, model_actual, client_family, client_app_id,
  client_app_name;

-- A former release that still runs makes spans without these sums.
ALTER TABLE proxy_log_spans ADD COLUMN has_narrow_sums {{bool}} NOT NULL DEFAULT {{false}};
UPDATE proxy_log_spans SET has_narrow_sums = has_quarters;
