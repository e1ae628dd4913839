-- Channels that an operator added where their credential had one for the model already.
ALTER TABLE route_channels ADD COLUMN is_extra {{bool}} NOT NULL DEFAULT {{false}};
