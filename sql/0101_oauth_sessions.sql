-- Logins in a browser between their start and their end, where several instances may be asked of one.
CREATE TABLE oauth_sessions (
  id {{id}},
  state {{key}} NOT NULL UNIQUE,
  provider {{key}} NOT NULL,
  status {{key}} NOT NULL,
  error {{text}} NULL,
  account_id {{int}} NULL,
  site_id {{int}} NULL,
  details {{text}} NULL,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL,
  expires_at {{ts}} NOT NULL
);
CREATE INDEX oauth_sessions_expires ON oauth_sessions (expires_at);
