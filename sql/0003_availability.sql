-- Which models an account, or one of its tokens, can reach. is_manual rows were typed by an operator
-- and survive every discovery.
CREATE TABLE model_availability (
  account_id {{int}} NOT NULL,
  model_name {{key}} NOT NULL,
  available {{bool}} NOT NULL DEFAULT {{true}},
  is_manual {{bool}} NOT NULL DEFAULT {{false}},
  latency_ms {{int}} NULL,
  checked_at {{ts}} NOT NULL,
  PRIMARY KEY (account_id, model_name),
  FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE
);
CREATE INDEX model_availability_model ON model_availability (model_name);

CREATE TABLE token_model_availability (
  token_id {{int}} NOT NULL,
  model_name {{key}} NOT NULL,
  available {{bool}} NOT NULL DEFAULT {{true}},
  latency_ms {{int}} NULL,
  checked_at {{ts}} NOT NULL,
  PRIMARY KEY (token_id, model_name),
  FOREIGN KEY (token_id) REFERENCES account_tokens(id) ON DELETE CASCADE
);
CREATE INDEX token_model_availability_model ON token_model_availability (model_name);
