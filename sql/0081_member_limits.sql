-- Members of a route unit rest as channels do: also for as long as their provider has said.
ALTER TABLE oauth_route_unit_members ADD COLUMN provider_cooldown_until {{ts}} NULL;
