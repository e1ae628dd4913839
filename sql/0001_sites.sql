-- Upstream sites, the pool of addresses behind each, and the models an operator switched off there.
-- custom_headers and proxy_url may carry credentials: both hold sealed text.
CREATE TABLE sites (
  id {{id}},
  name {{text}} NOT NULL,
  url {{url}} NOT NULL,
  external_checkin_url {{text}} NULL,
  platform {{key}} NOT NULL,
  proxy_url {{text}} NULL,
  use_system_proxy {{bool}} NOT NULL DEFAULT {{false}},
  custom_headers {{text}} NULL,
  status {{key}} NOT NULL DEFAULT 'active',
  is_pinned {{bool}} NOT NULL DEFAULT {{false}},
  sort_order {{int}} NOT NULL DEFAULT 0,
  global_weight DOUBLE PRECISION NOT NULL DEFAULT 1,
  initialization_preset_id {{key}} NULL,
  post_refresh_probe_enabled {{bool}} NOT NULL DEFAULT {{false}},
  post_refresh_probe_model {{key}} NOT NULL DEFAULT '',
  post_refresh_probe_scope {{key}} NOT NULL DEFAULT 'single',
  post_refresh_probe_latency_threshold_ms {{int}} NOT NULL DEFAULT 0,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL
);
CREATE UNIQUE INDEX sites_platform_url ON sites (platform, url);

CREATE TABLE site_api_endpoints (
  id {{id}},
  site_id {{int}} NOT NULL,
  url {{url}} NOT NULL,
  enabled {{bool}} NOT NULL DEFAULT {{true}},
  sort_order {{int}} NOT NULL DEFAULT 0,
  cooldown_until {{ts}} NULL,
  last_selected_at {{ts}} NULL,
  last_failed_at {{ts}} NULL,
  last_failure_reason {{text}} NULL,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL,
  FOREIGN KEY (site_id) REFERENCES sites(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX site_api_endpoints_site_url ON site_api_endpoints (site_id, url);

CREATE TABLE site_disabled_models (
  site_id {{int}} NOT NULL,
  model_name {{key}} NOT NULL,
  created_at {{ts}} NOT NULL,
  PRIMARY KEY (site_id, model_name),
  FOREIGN KEY (site_id) REFERENCES sites(id) ON DELETE CASCADE
);
