-- Costly answers of the admin API, sealed: a start serves them while nothing has changed that they were made of.
CREATE TABLE admin_snapshots (
  name {{key}} NOT NULL PRIMARY KEY,
  payload {{text}} NOT NULL,
  version {{int}} NOT NULL,
  generated_at {{ts}} NOT NULL
);
