-- The model that was asked for, so that an answer that is read again may name it.
ALTER TABLE proxy_response_ids ADD COLUMN model_requested {{text}} NULL;

-- Answers that their upstreams make in the background, and whose usage is not booked yet. A row goes when it is.
CREATE TABLE proxy_background_responses (
  id {{id}},
  response_id {{key}} NOT NULL,
  key_id {{int}} NULL,
  site_id {{int}} NOT NULL,
  account_id {{int}} NOT NULL,
  token_id {{int}} NULL,
  channel_id {{int}} NOT NULL,
  model_requested {{text}} NOT NULL,
  model_actual {{text}} NOT NULL,
  request_id {{key}} NOT NULL,
  retry_count {{int}} NOT NULL,
  created_at {{ts}} NOT NULL
);
CREATE INDEX proxy_background_responses_response_id ON proxy_background_responses (response_id);
