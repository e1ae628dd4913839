-- When a channel last began to rest and when it was last answered or cleared, so that what several instances say of its
-- rest has one outcome in whichever order it comes; and when that changed, by the clock of the database.
ALTER TABLE channel_stats ADD COLUMN rested_at {{ts}} NULL;
ALTER TABLE channel_stats ADD COLUMN cleared_at {{ts}} NULL;
ALTER TABLE channel_stats ADD COLUMN rest_changed_at {{ts}} NULL;
CREATE INDEX channel_stats_rest_changed_at ON channel_stats (rest_changed_at);

ALTER TABLE oauth_route_unit_members ADD COLUMN rested_at {{ts}} NULL;
ALTER TABLE oauth_route_unit_members ADD COLUMN cleared_at {{ts}} NULL;
ALTER TABLE oauth_route_unit_members ADD COLUMN rest_changed_at {{ts}} NULL;
CREATE INDEX oauth_route_unit_members_rest_changed_at ON oauth_route_unit_members (rest_changed_at);
