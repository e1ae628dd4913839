-- Several OAuth accounts of one site that share one channel per route.
CREATE TABLE oauth_route_units (
  id {{id}},
  site_id {{int}} NOT NULL,
  provider {{key}} NOT NULL,
  name {{text}} NOT NULL,
  strategy {{key}} NOT NULL DEFAULT 'round_robin',
  enabled {{bool}} NOT NULL DEFAULT {{true}},
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL,
  FOREIGN KEY (site_id) REFERENCES sites(id) ON DELETE CASCADE
);

CREATE TABLE oauth_route_unit_members (
  id {{id}},
  unit_id {{int}} NOT NULL,
  account_id {{int}} NOT NULL,
  sort_order {{int}} NOT NULL DEFAULT 0,
  success_count {{int}} NOT NULL DEFAULT 0,
  fail_count {{int}} NOT NULL DEFAULT 0,
  total_latency_ms {{int}} NOT NULL DEFAULT 0,
  total_cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  last_used_at {{ts}} NULL,
  last_selected_at {{ts}} NULL,
  last_fail_at {{ts}} NULL,
  consecutive_fail_count {{int}} NOT NULL DEFAULT 0,
  cooldown_level {{int}} NOT NULL DEFAULT 0,
  cooldown_until {{ts}} NULL,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL,
  FOREIGN KEY (unit_id) REFERENCES oauth_route_units(id) ON DELETE CASCADE,
  FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX oauth_route_unit_members_account ON oauth_route_unit_members (account_id);
CREATE INDEX oauth_route_unit_members_unit ON oauth_route_unit_members (unit_id);
