-- In which order a group names its sources; which routes an operator made, so that they stay without
-- channels; and until when the provider itself said that a channel's credential is used up.
ALTER TABLE route_group_sources ADD COLUMN position {{int}} NOT NULL DEFAULT 0;
ALTER TABLE token_routes ADD COLUMN is_manual {{bool}} NOT NULL DEFAULT {{false}};
ALTER TABLE channel_stats ADD COLUMN provider_cooldown_until {{ts}} NULL;
