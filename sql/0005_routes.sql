-- Downstream models and the channels that serve them. channel_stats holds what moves with every
-- request, so that counters never rewrite or block configuration.
CREATE TABLE token_routes (
  id {{id}},
  model_pattern {{text}} NOT NULL,
  display_name {{text}} NULL,
  display_icon {{text}} NULL,
  route_mode {{key}} NOT NULL DEFAULT 'pattern',
  model_mapping {{json}} NULL,
  routing_strategy {{key}} NOT NULL DEFAULT 'weighted',
  enabled {{bool}} NOT NULL DEFAULT {{true}},
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL
);

CREATE TABLE route_group_sources (
  group_route_id {{int}} NOT NULL,
  source_route_id {{int}} NOT NULL,
  PRIMARY KEY (group_route_id, source_route_id),
  FOREIGN KEY (group_route_id) REFERENCES token_routes(id) ON DELETE CASCADE,
  FOREIGN KEY (source_route_id) REFERENCES token_routes(id) ON DELETE CASCADE
);
CREATE INDEX route_group_sources_source ON route_group_sources (source_route_id);

CREATE TABLE route_channels (
  id {{id}},
  route_id {{int}} NOT NULL,
  account_id {{int}} NOT NULL,
  token_id {{int}} NULL,
  oauth_route_unit_id {{int}} NULL,
  source_model {{key}} NULL,
  priority {{int}} NOT NULL DEFAULT 0,
  weight {{int}} NOT NULL DEFAULT 10,
  enabled {{bool}} NOT NULL DEFAULT {{true}},
  manual_override {{bool}} NOT NULL DEFAULT {{false}},
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL,
  FOREIGN KEY (route_id) REFERENCES token_routes(id) ON DELETE CASCADE,
  FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE,
  FOREIGN KEY (token_id) REFERENCES account_tokens(id) ON DELETE SET NULL,
  FOREIGN KEY (oauth_route_unit_id) REFERENCES oauth_route_units(id) ON DELETE SET NULL
);
CREATE INDEX route_channels_route ON route_channels (route_id);
CREATE INDEX route_channels_account ON route_channels (account_id);
CREATE INDEX route_channels_token ON route_channels (token_id);

CREATE TABLE channel_stats (
  channel_id {{int}} NOT NULL PRIMARY KEY,
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
  FOREIGN KEY (channel_id) REFERENCES route_channels(id) ON DELETE CASCADE
);
