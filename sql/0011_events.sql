-- What the operator should notice: in-site events, and announcements read from the sites.
CREATE TABLE events (
  id {{id}},
  type {{key}} NOT NULL,
  title {{text}} NOT NULL,
  message {{text}} NULL,
  level {{key}} NOT NULL DEFAULT 'info',
  is_read {{bool}} NOT NULL DEFAULT {{false}},
  related_id {{int}} NULL,
  related_type {{key}} NULL,
  created_at {{ts}} NOT NULL
);
CREATE INDEX events_read ON events (is_read, created_at);
CREATE INDEX events_type ON events (type, created_at);
CREATE INDEX events_created ON events (created_at);

CREATE TABLE site_announcements (
  id {{id}},
  site_id {{int}} NOT NULL,
  platform {{key}} NOT NULL,
  source_key {{key}} NOT NULL,
  title {{text}} NOT NULL,
  content {{text}} NOT NULL,
  level {{key}} NOT NULL DEFAULT 'info',
  source_url {{text}} NULL,
  starts_at {{ts}} NULL,
  ends_at {{ts}} NULL,
  upstream_created_at {{ts}} NULL,
  upstream_updated_at {{ts}} NULL,
  first_seen_at {{ts}} NULL,
  last_seen_at {{ts}} NULL,
  read_at {{ts}} NULL,
  dismissed_at {{ts}} NULL,
  raw_payload {{text}} NULL,
  FOREIGN KEY (site_id) REFERENCES sites(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX site_announcements_source ON site_announcements (site_id, source_key);
