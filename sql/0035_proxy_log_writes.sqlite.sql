-- A request's log row costs what it touches. No query looks for the rows of an account; those of a
-- key and the failures are sought among the rows that have a key, or failed, and only they pay.
DROP INDEX proxy_logs_account;
DROP INDEX proxy_logs_status;
DROP INDEX proxy_logs_key;
CREATE INDEX proxy_logs_key ON proxy_logs (downstream_api_key_id, created_at)
  WHERE downstream_api_key_id IS NOT NULL;
CREATE INDEX proxy_logs_failed ON proxy_logs (created_at) WHERE status <> 'success';
