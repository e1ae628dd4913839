-- When an address of a site last began to cool and when that was last ended, as 0096 has it for channels.
ALTER TABLE site_api_endpoints ADD COLUMN rested_at {{ts}} NULL;
ALTER TABLE site_api_endpoints ADD COLUMN cleared_at {{ts}} NULL;
ALTER TABLE site_api_endpoints ADD COLUMN rest_changed_at {{ts}} NULL;
CREATE INDEX site_api_endpoints_rest_changed_at ON site_api_endpoints (rest_changed_at);
