-- What bounds a key beside its totals: calls at once and in a minute, addresses, budgets by period.
ALTER TABLE downstream_api_keys ADD COLUMN max_concurrency {{int}} NULL;
ALTER TABLE downstream_api_keys ADD COLUMN requests_per_minute {{int}} NULL;
ALTER TABLE downstream_api_keys ADD COLUMN tokens_per_minute {{int}} NULL;
ALTER TABLE downstream_api_keys ADD COLUMN allowed_ips {{json}} NULL;
ALTER TABLE downstream_api_keys ADD COLUMN budgets {{json}} NULL;

-- What was used of a budget in its newest window. scope names what it counts: the period and the models.
CREATE TABLE downstream_key_budgets (
  key_id {{int}} NOT NULL,
  scope {{key}} NOT NULL,
  window_start {{ts}} NOT NULL,
  used_requests {{int}} NOT NULL DEFAULT 0,
  used_cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  used_tokens {{int}} NOT NULL DEFAULT 0,
  PRIMARY KEY (key_id, scope)
);

-- What each key used by local day, for its holder; key 0 is the proxy token. No foreign keys: the sum of all
-- outlives a deleted key.
CREATE TABLE downstream_key_days (
  key_id {{int}} NOT NULL,
  local_day {{key}} NOT NULL,
  tz {{key}} NOT NULL,
  requests {{int}} NOT NULL DEFAULT 0,
  cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  tokens {{int}} NOT NULL DEFAULT 0,
  input_tokens {{int}} NOT NULL DEFAULT 0,
  output_tokens {{int}} NOT NULL DEFAULT 0,
  cache_read_tokens {{int}} NOT NULL DEFAULT 0,
  PRIMARY KEY (key_id, local_day)
);
