-- One row for each run of an agent. What it did is in its log, not here.

CREATE TABLE runs (
    id            TEXT    NOT NULL PRIMARY KEY,
    team          TEXT    NOT NULL,
    sandbox_id    TEXT    NOT NULL,
    -- starting, running, succeeded, failed.
    state         TEXT    NOT NULL,
    -- cancel, continue: what the caller's hang-up means.
    on_disconnect TEXT    NOT NULL,
    -- The beginning of the prompt, to be recognised by.
    prompt_head   TEXT    NOT NULL,
    started_at    INTEGER NOT NULL,
    deadline      INTEGER NOT NULL,
    ended_at      INTEGER,
    -- The code of the error that ended it; a result has none.
    code          TEXT,
    last_seq      INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    CHECK ((ended_at IS NULL) = (state IN ('starting', 'running'))),
    CHECK ((code IS NOT NULL) = (state = 'failed'))
) STRICT;

CREATE INDEX runs_of_team ON runs (team, started_at, id);
CREATE INDEX runs_living ON runs (started_at) WHERE ended_at IS NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;
