-- Videos that clients had made: the name they know one by, and how it is reached where it is made.
CREATE TABLE proxy_video_tasks (
  id {{id}},
  public_id {{key}} NOT NULL,
  owner_type {{key}} NOT NULL,
  owner_id {{key}} NOT NULL,
  upstream_video_id {{text}} NOT NULL,
  site_id {{int}} NOT NULL,
  account_id {{int}} NOT NULL,
  token_id {{int}} NULL,
  channel_id {{int}} NOT NULL,
  site_url {{text}} NOT NULL,
  through_proxy {{bool}} NOT NULL,
  token_value {{text}} NULL,
  requested_model {{text}} NOT NULL,
  actual_model {{text}} NOT NULL,
  status_snapshot {{json}} NULL,
  last_upstream_status {{int}} NULL,
  last_polled_at {{ts}} NULL,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL
);
CREATE UNIQUE INDEX proxy_video_tasks_public_id ON proxy_video_tasks (public_id);
CREATE INDEX proxy_video_tasks_created_at ON proxy_video_tasks (created_at);
