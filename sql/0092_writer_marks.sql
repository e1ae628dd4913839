-- Which transaction of a writer was the last that was committed. The mark changes with the transaction: so one whose
-- commit was cut off is known to be there, or is made again. Where one process has the database, nobody needs it.
CREATE TABLE writer_marks (
  writer {{key}} NOT NULL PRIMARY KEY,
  number {{int}} NOT NULL,
  written_at {{ts}} NOT NULL
);
