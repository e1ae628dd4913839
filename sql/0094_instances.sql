-- The processes that serve from this database now, and which of them served a time of a schedule.
CREATE TABLE instances (
  id {{key}} NOT NULL PRIMARY KEY,
  name {{text}} NOT NULL,
  version {{text}} NOT NULL,
  started_at {{ts}} NOT NULL,
  last_seen_at {{ts}} NOT NULL
);

ALTER TABLE job_runs ADD COLUMN owner {{key}} NULL;
