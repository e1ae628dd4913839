-- Credentials on a site. access_token, api_token, proxy_url, login_password, refresh_token, id_token,
-- provider_data, sub2api_refresh_token and account_tokens.token_enc hold sealed text.
-- former_status is what an account was before its site was disabled; credential_version is the
-- compare-and-set counter of token refreshes.
CREATE TABLE accounts (
  id {{id}},
  site_id {{int}} NOT NULL,
  username {{text}} NULL,
  access_token {{text}} NULL,
  api_token {{text}} NULL,
  balance DOUBLE PRECISION NOT NULL DEFAULT 0,
  balance_used DOUBLE PRECISION NOT NULL DEFAULT 0,
  quota DOUBLE PRECISION NOT NULL DEFAULT 0,
  unit_cost DOUBLE PRECISION NULL,
  value_score DOUBLE PRECISION NOT NULL DEFAULT 0,
  status {{key}} NOT NULL DEFAULT 'active',
  former_status {{key}} NULL,
  is_pinned {{bool}} NOT NULL DEFAULT {{false}},
  sort_order {{int}} NOT NULL DEFAULT 0,
  checkin_enabled {{bool}} NOT NULL DEFAULT {{true}},
  last_checkin_at {{ts}} NULL,
  last_balance_refresh {{ts}} NULL,
  oauth_provider {{key}} NULL,
  oauth_account_key {{key}} NULL,
  oauth_project_id {{key}} NULL,
  credential_mode {{key}} NOT NULL DEFAULT 'auto',
  platform_user_id {{int}} NULL,
  proxy_url {{text}} NULL,
  use_system_proxy {{bool}} NOT NULL DEFAULT {{false}},
  login_username {{text}} NULL,
  login_password {{text}} NULL,
  login_updated_at {{ts}} NULL,
  refresh_token {{text}} NULL,
  id_token {{text}} NULL,
  provider_data {{text}} NULL,
  token_expires_at {{ts}} NULL,
  sub2api_refresh_token {{text}} NULL,
  sub2api_token_expires_at {{ts}} NULL,
  health_state {{key}} NULL,
  health_reason {{text}} NULL,
  health_source {{key}} NULL,
  health_checked_at {{ts}} NULL,
  credential_version {{int}} NOT NULL DEFAULT 0,
  extra {{json}} NULL,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL,
  FOREIGN KEY (site_id) REFERENCES sites(id) ON DELETE CASCADE
);
CREATE INDEX accounts_site_status ON accounts (site_id, status);
CREATE INDEX accounts_oauth_identity ON accounts (oauth_provider, oauth_account_key, oauth_project_id);

-- token_hash is NULL while the value is masked_pending, so that a plain unique index serves all databases.
CREATE TABLE account_tokens (
  id {{id}},
  account_id {{int}} NOT NULL,
  name {{text}} NOT NULL,
  token_enc {{text}} NULL,
  token_hash {{key}} NULL,
  token_group {{text}} NULL,
  value_status {{key}} NOT NULL DEFAULT 'ready',
  source {{key}} NOT NULL DEFAULT 'manual',
  enabled {{bool}} NOT NULL DEFAULT {{true}},
  is_default {{bool}} NOT NULL DEFAULT {{false}},
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL,
  FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX account_tokens_account_hash ON account_tokens (account_id, token_hash);

CREATE TABLE checkin_logs (
  id {{id}},
  account_id {{int}} NOT NULL,
  status {{key}} NOT NULL,
  message {{text}} NULL,
  reward {{text}} NULL,
  created_at {{ts}} NOT NULL,
  FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE
);
CREATE INDEX checkin_logs_account_created ON checkin_logs (account_id, created_at);
CREATE INDEX checkin_logs_created ON checkin_logs (created_at);
