-- Hints of providers used to lengthen the cooldown itself. It is ten minutes now, and the hint stands beside it.
UPDATE channel_stats SET provider_cooldown_until = cooldown_until
WHERE last_fail_at IS NOT NULL AND cooldown_until > last_fail_at + 600000;

UPDATE channel_stats SET cooldown_until = last_fail_at + 600000
WHERE last_fail_at IS NOT NULL AND cooldown_until > last_fail_at + 600000;

-- Another channel of the credential had met the limit; when is not known.
UPDATE channel_stats SET cooldown_until = NULL
WHERE last_fail_at IS NULL AND provider_cooldown_until = cooldown_until;
