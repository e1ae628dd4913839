-- What caches of prompts had part in. `input_tokens` has the cached ones in it, however the upstream counts; the sums have
-- the input of those calls alone whose upstream tells of its cache, so that a share can be made of them.
ALTER TABLE proxy_logs ADD COLUMN input_tokens {{int}} NULL;
ALTER TABLE proxy_logs ADD COLUMN cache_read_tokens {{int}} NULL;
ALTER TABLE proxy_logs ADD COLUMN cache_creation_tokens {{int}} NULL;

ALTER TABLE usage_hour ADD COLUMN cache_input_tokens {{int}} NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN cache_read_tokens {{int}} NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN cache_creation_tokens {{int}} NOT NULL DEFAULT 0;
ALTER TABLE usage_day ADD COLUMN cache_input_tokens {{int}} NOT NULL DEFAULT 0;
ALTER TABLE usage_day ADD COLUMN cache_read_tokens {{int}} NOT NULL DEFAULT 0;
ALTER TABLE usage_day ADD COLUMN cache_creation_tokens {{int}} NOT NULL DEFAULT 0;

ALTER TABLE channel_stats ADD COLUMN cache_input_tokens {{int}} NOT NULL DEFAULT 0;
ALTER TABLE channel_stats ADD COLUMN cache_read_tokens {{int}} NOT NULL DEFAULT 0;
ALTER TABLE oauth_route_unit_members ADD COLUMN cache_input_tokens {{int}} NOT NULL DEFAULT 0;
ALTER TABLE oauth_route_unit_members ADD COLUMN cache_read_tokens {{int}} NOT NULL DEFAULT 0;
