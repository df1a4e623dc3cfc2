-- What the owner of a workspace makes and names: agents, environments, models,
-- skills, MCP servers, tables, workflows.
CREATE TABLE resources (
    id         TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    workspace  TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    -- Everything that is not a secret, as JSON.
    body       TEXT   NOT NULL,
    -- Its secrets, if it has any, sealed with a key that is not in here.
    sealed     BYTEA,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (workspace, kind, name)
);

CREATE INDEX resources_in_order ON resources (workspace, kind, created_at, id);

-- The rows of the tables among the resources, in the order they came.
CREATE TABLE table_rows (
    position   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT   COLLATE "C" NOT NULL UNIQUE,
    table_id   TEXT   COLLATE "C" NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    -- The values under their columns' names, as JSON.
    data       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE INDEX table_rows_in_order ON table_rows (table_id, position);

-- One dispatch each: what its sandbox may ask for, and as whom.
CREATE TABLE sessions (
    id         TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    workspace  TEXT   NOT NULL,
    -- assistant, agents: which family of callbacks it has.
    caller     TEXT   NOT NULL,
    -- The conversation or the execution whose bag it has.
    scope      TEXT   NOT NULL,
    -- The turn or the block it works on.
    work       TEXT   NOT NULL,
    -- What its configuration is made of, as JSON; never a secret.
    brief      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    settled_at BIGINT
);

CREATE INDEX sessions_settled ON sessions (settled_at) WHERE settled_at IS NOT NULL;

-- Tokens that open one thing once. Only their SHA-256 is here.
CREATE TABLE crew_agent_otp (
    hash       BYTEA  NOT NULL PRIMARY KEY CHECK (octet_length(hash) = 32),
    -- setup, run, upload.
    kind       TEXT   NOT NULL,
    session_id TEXT   COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT
);

CREATE INDEX crew_agent_otp_of_session ON crew_agent_otp (session_id);

-- What a sandbox calls the workspace with. Only its SHA-256 is here.
CREATE TABLE sandbox_bearers (
    hash       BYTEA  NOT NULL PRIMARY KEY CHECK (octet_length(hash) = 32),
    session_id TEXT   COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE INDEX sandbox_bearers_of_session ON sandbox_bearers (session_id);
