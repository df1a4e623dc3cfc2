-- Times are milliseconds since 1970 in UTC. Everything that SQLite has up to
-- its third migration; from the fourth on, both have the same ones.
-- Ids sort by their bytes, as they do in SQLite, whatever the server's locale.

CREATE TABLE api_keys (
    id         TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    team       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    -- SHA-256 of the key. The key itself is never stored.
    hash       BYTEA  NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    -- What a list may show of the key.
    hint       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE TABLE sandboxes (
    id         TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    team       TEXT   NOT NULL,
    template   TEXT   NOT NULL,
    tier       TEXT   NOT NULL,
    -- The caller's own labels, a JSON object of strings.
    metadata   TEXT   NOT NULL,
    started_at BIGINT NOT NULL,
    deadline   BIGINT NOT NULL,
    ended_at   BIGINT,
    end_reason TEXT,
    -- What it reaches, as JSON.
    network    TEXT   NOT NULL,
    CHECK ((ended_at IS NULL) = (end_reason IS NULL))
);

CREATE INDEX sandboxes_living ON sandboxes (started_at) WHERE ended_at IS NULL;
CREATE INDEX sandboxes_ended ON sandboxes (ended_at) WHERE ended_at IS NOT NULL;

-- One row for each run of an agent. What it did is in its log, not here.
CREATE TABLE runs (
    id            TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    team          TEXT   NOT NULL,
    sandbox_id    TEXT   NOT NULL,
    -- starting, running, succeeded, failed.
    state         TEXT   NOT NULL,
    -- cancel, continue: what the caller's hang-up means.
    on_disconnect TEXT   NOT NULL,
    -- The beginning of the prompt, to be recognised by.
    prompt_head   TEXT   NOT NULL,
    started_at    BIGINT NOT NULL,
    deadline      BIGINT NOT NULL,
    ended_at      BIGINT,
    -- The code of the error that ended it; a result has none.
    code          TEXT,
    last_seq      BIGINT NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    CHECK ((ended_at IS NULL) = (state IN ('starting', 'running'))),
    CHECK ((code IS NOT NULL) = (state = 'failed'))
);

CREATE INDEX runs_of_team ON runs (team, started_at, id);
CREATE INDEX runs_living ON runs (started_at) WHERE ended_at IS NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;
