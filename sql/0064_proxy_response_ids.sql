-- Answers of the responses dialect that an upstream stores: whose each is, and which upstream has it.
CREATE TABLE proxy_response_ids (
  id {{id}},
  response_id {{key}} NOT NULL,
  owner_type {{key}} NOT NULL,
  owner_id {{key}} NOT NULL,
  site_id {{int}} NOT NULL,
  account_id {{int}} NOT NULL,
  token_id {{int}} NULL,
  channel_id {{int}} NOT NULL,
  created_at {{ts}} NOT NULL
);
CREATE INDEX proxy_response_ids_response_id ON proxy_response_ids (response_id);
CREATE INDEX proxy_response_ids_created_at ON proxy_response_ids (created_at);
