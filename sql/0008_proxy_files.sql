-- Files clients uploaded. Bytes are stored once per content and counted by their references.
CREATE TABLE proxy_files (
  id {{id}},
  public_id {{key}} NOT NULL,
  owner_type {{key}} NOT NULL,
  owner_id {{key}} NOT NULL,
  filename {{text}} NOT NULL,
  mime_type {{text}} NOT NULL,
  purpose {{text}} NULL,
  byte_size {{int}} NOT NULL,
  sha256 {{key}} NOT NULL,
  created_at {{ts}} NOT NULL,
  updated_at {{ts}} NOT NULL,
  deleted_at {{ts}} NULL
);
CREATE UNIQUE INDEX proxy_files_public_id ON proxy_files (public_id);
CREATE INDEX proxy_files_owner ON proxy_files (owner_type, owner_id, deleted_at);
CREATE INDEX proxy_files_sha256 ON proxy_files (sha256);

CREATE TABLE proxy_file_blobs (
  sha256 {{key}} NOT NULL PRIMARY KEY,
  bytes {{blob}} NULL,
  reference_count {{int}} NOT NULL DEFAULT 1,
  created_at {{ts}} NOT NULL
);
