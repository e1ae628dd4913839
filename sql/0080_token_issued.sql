-- When the access token was got that ends at token_expires_at: how long before its end it is renewed depends on how
-- long it lives.
ALTER TABLE accounts ADD COLUMN token_issued_at {{ts}} NULL;
