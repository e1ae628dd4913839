-- What several instances on one database agree on: who runs a job, which scheduled runs happened,
-- which caches are stale, and which notifications were sent lately.
CREATE TABLE job_leases (
  job {{key}} NOT NULL PRIMARY KEY,
  owner {{key}} NOT NULL,
  token {{int}} NOT NULL DEFAULT 0,
  expires_at {{ts}} NOT NULL
);

CREATE TABLE job_runs (
  job {{key}} NOT NULL,
  scheduled_for {{ts}} NOT NULL,
  started_at {{ts}} NOT NULL,
  PRIMARY KEY (job, scheduled_for)
);

CREATE TABLE cache_versions (
  scope {{key}} NOT NULL PRIMARY KEY,
  version {{int}} NOT NULL DEFAULT 0
);

CREATE TABLE notification_throttle (
  signature {{key}} NOT NULL PRIMARY KEY,
  last_sent_at {{ts}} NOT NULL,
  merged_count {{int}} NOT NULL DEFAULT 0
);
