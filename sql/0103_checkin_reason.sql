-- The code of the reason why a check-in ended as it did; null in the rows of older releases.
ALTER TABLE checkin_logs ADD COLUMN reason {{key}} NULL;
