-- The keys that seal credentials and index tokens, each wrapped under the key derived from
-- ACCOUNT_CREDENTIAL_SECRET.
CREATE TABLE crypto_keys (
  id {{id}},
  purpose {{key}} NOT NULL,
  wrapped {{text}} NOT NULL,
  status {{key}} NOT NULL DEFAULT 'active',
  created_at {{ts}} NOT NULL
);
