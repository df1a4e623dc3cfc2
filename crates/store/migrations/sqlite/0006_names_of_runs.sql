-- What a caller calls its run, as a hash: a client that was cut off finds its run by it.
ALTER TABLE runs ADD COLUMN callers_name BLOB;

CREATE INDEX runs_called ON runs (team, callers_name, started_at, id)
    WHERE callers_name IS NOT NULL;
