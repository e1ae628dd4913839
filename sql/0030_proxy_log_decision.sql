-- Why an attempt went to its channel, in a line for people.
ALTER TABLE proxy_logs ADD COLUMN decision_reason {{text}} NULL;
