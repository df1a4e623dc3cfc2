-- Times are milliseconds since 1970 in UTC. STRICT makes SQLite check types,
-- as Postgres does, so that both backends refuse the same rows.

CREATE TABLE api_keys (
    id         TEXT    NOT NULL PRIMARY KEY,
    team       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    -- SHA-256 of the key. The key itself is never stored.
    hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    -- What a list may show of the key.
    hint       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE TABLE sandboxes (
    id         TEXT    NOT NULL PRIMARY KEY,
    team       TEXT    NOT NULL,
    template   TEXT    NOT NULL,
    tier       TEXT    NOT NULL,
    -- The caller's own labels, a JSON object of strings.
    metadata   TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    deadline   INTEGER NOT NULL,
    ended_at   INTEGER,
    end_reason TEXT,
    CHECK ((ended_at IS NULL) = (end_reason IS NULL))
) STRICT;

CREATE INDEX sandboxes_living ON sandboxes (started_at) WHERE ended_at IS NULL;
CREATE INDEX sandboxes_ended ON sandboxes (ended_at) WHERE ended_at IS NOT NULL;
