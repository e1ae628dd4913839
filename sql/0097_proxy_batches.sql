-- Batches that clients had made: the name they know one by, and the account that has it.
CREATE TABLE proxy_batches (
  id {{id}},
  public_id {{key}} NOT NULL,
  owner_type {{key}} NOT NULL,
  owner_id {{key}} NOT NULL,
  api {{key}} NOT NULL,
  upstream_batch_id {{text}} NOT NULL,
  site_id {{int}} NOT NULL,
  account_id {{int}} NOT NULL,
  token_id {{int}} NULL,
  channel_id {{int}} NOT NULL,
  model_requested {{text}} NOT NULL,
  model_actual {{text}} NOT NULL,
  input_file_id {{text}} NULL,
  object {{json}} NOT NULL,
  request_id {{key}} NOT NULL,
  retry_count {{int}} NOT NULL,
  logged_at {{ts}} NOT NULL,
  is_booked {{bool}} NOT NULL,
  next_look_at {{ts}} NOT NULL,
  created_at {{ts}} NOT NULL
);
CREATE UNIQUE INDEX proxy_batches_public_id ON proxy_batches (public_id);
CREATE INDEX proxy_batches_owner ON proxy_batches (owner_type, owner_id, api, id);
CREATE INDEX proxy_batches_next_look_at ON proxy_batches (is_booked, next_look_at);
CREATE INDEX proxy_batches_created_at ON proxy_batches (created_at);
