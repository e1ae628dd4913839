-- How many requests may run on one site at a time. NULL = unlimited; inert where it is unused.
ALTER TABLE sites ADD COLUMN max_concurrency {{int}} NULL;
