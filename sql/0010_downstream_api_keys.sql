-- The keys handed to clients. key_hash finds one, key_enc (sealed) shows it to the operator.
CREATE TABLE downstream_api_keys (
  id {{id}},
  name {{text}} NOT NULL,
  key_hash {{key}} NOT NULL,
  key_enc {{text}} NULL,
  description {{text}} NULL,
  group_name {{key}} NULL,
  tags {{json}} NULL,
  enabled {{bool}} NOT NULL DEFAULT {{true}},
  expires_at {{ts}} NULL,
  max_cost DOUBLE PRECISION NULL,
  used_cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  max_requests {{int}} NULL,
  used_requests {{int}} NOT NULL DEFAULT 0,
  supported_models {{json}} NULL,
  allowed_route_ids {{json}} NULL,
  site_weight_multipliers {{json}} NULL,
  excluded_site_ids {{json}} NULL,
  excluded_credential_refs {{json}} NULL,
  last_used_at {{ts}} NULL,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL
);
CREATE UNIQUE INDEX downstream_api_keys_hash ON downstream_api_keys (key_hash);
