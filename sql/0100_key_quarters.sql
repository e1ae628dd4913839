-- What each downstream key did in each quarter of an hour of a summed span, so that its hours and days in any time zone are
-- told without reading the log.
CREATE TABLE proxy_log_key_quarters (
  downstream_api_key_id {{int}} NOT NULL,
  start_at {{ts}} NOT NULL,
  quarter_at {{ts}} NOT NULL,
  calls {{int}} NOT NULL,
  ok {{int}} NOT NULL,
  tokens {{int}} NOT NULL,
  cost DOUBLE PRECISION NOT NULL,
  cache_input_tokens {{int}} NOT NULL,
  cache_read_tokens {{int}} NOT NULL,
  cache_creation_tokens {{int}} NOT NULL,
  PRIMARY KEY (downstream_api_key_id, start_at, quarter_at)
);
CREATE INDEX proxy_log_key_quarters_start ON proxy_log_key_quarters (start_at);

-- Spans that were summed without them are summed again.
ALTER TABLE proxy_log_spans ADD COLUMN has_quarters {{bool}} NOT NULL DEFAULT {{false}};
