-- Deletions of sites and of route units look for the rows that refer to them.
CREATE INDEX oauth_route_units_site ON oauth_route_units (site_id);
CREATE INDEX route_channels_unit ON route_channels (oauth_route_unit_id);
