-- The bytes of a blob in pieces, so that neither writing nor reading one takes it whole. They carry the
-- public id of the upload that brought them; a blob says which upload that was.
CREATE TABLE proxy_file_chunks (
  upload {{key}} NOT NULL,
  position {{int}} NOT NULL,
  bytes {{blob}} NOT NULL,
  created_at {{ts}} NOT NULL,
  PRIMARY KEY (upload, position)
);
CREATE INDEX proxy_file_chunks_created ON proxy_file_chunks (created_at);
ALTER TABLE proxy_file_blobs ADD COLUMN upload {{key}} NULL;
CREATE INDEX proxy_file_blobs_upload ON proxy_file_blobs (upload);
CREATE INDEX proxy_files_created ON proxy_files (created_at);
