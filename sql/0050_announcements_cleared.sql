-- What an operator cleared is remembered by its key: the site goes on showing it, and it is not news again.
ALTER TABLE site_announcements ADD COLUMN cleared_at {{ts}} NULL;
