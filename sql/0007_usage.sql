-- What was used, per local hour and local day, site and model; written in the transaction of the log
-- rows. No foreign keys: history survives a deleted site.
CREATE TABLE usage_hour (
  bucket_start {{ts}} NOT NULL,
  site_id {{int}} NOT NULL,
  model {{key}} NOT NULL,
  calls {{int}} NOT NULL DEFAULT 0,
  ok {{int}} NOT NULL DEFAULT 0,
  failed {{int}} NOT NULL DEFAULT 0,
  tokens {{int}} NOT NULL DEFAULT 0,
  cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  latency_ms {{int}} NOT NULL DEFAULT 0,
  latency_n {{int}} NOT NULL DEFAULT 0,
  PRIMARY KEY (bucket_start, site_id, model)
);

CREATE TABLE usage_day (
  local_day {{key}} NOT NULL,
  site_id {{int}} NOT NULL,
  model {{key}} NOT NULL,
  tz {{key}} NOT NULL,
  calls {{int}} NOT NULL DEFAULT 0,
  ok {{int}} NOT NULL DEFAULT 0,
  failed {{int}} NOT NULL DEFAULT 0,
  tokens {{int}} NOT NULL DEFAULT 0,
  cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  latency_ms {{int}} NOT NULL DEFAULT 0,
  latency_n {{int}} NOT NULL DEFAULT 0,
  PRIMARY KEY (local_day, site_id, model)
);
