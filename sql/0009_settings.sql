-- What an operator saved, one JSON text per name; the secret ones are sealed.
CREATE TABLE settings (
  name {{key}} NOT NULL PRIMARY KEY,
  value {{json}} NULL,
  updated_at {{ts}} NOT NULL
);
