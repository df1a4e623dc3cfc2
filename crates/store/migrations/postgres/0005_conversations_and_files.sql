CREATE TABLE conversations (
    id         TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    workspace  TEXT   NOT NULL,
    title      TEXT   NOT NULL,
    agent_id   TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);

CREATE INDEX conversations_by_workspace ON conversations (workspace, updated_at, id);

-- The session is not referred to: it is pruned before its turn.
CREATE TABLE turns (
    id              TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    chat_id         TEXT   COLLATE "C" NOT NULL REFERENCES conversations (id),
    workspace       TEXT   NOT NULL,
    session_id      TEXT   NOT NULL,
    user_message_id TEXT   COLLATE "C" NOT NULL,
    state           TEXT   NOT NULL,
    on_disconnect   TEXT   NOT NULL,
    run_id          TEXT,
    code            TEXT,
    error           TEXT,
    started_at      BIGINT NOT NULL,
    ended_at        BIGINT
);

-- One turn of a conversation at a time.
CREATE UNIQUE INDEX open_turns ON turns (chat_id) WHERE ended_at IS NULL;
CREATE INDEX turns_by_chat ON turns (chat_id);
CREATE INDEX turns_by_end ON turns (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE messages (
    id          TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    chat_id     TEXT   COLLATE "C" NOT NULL REFERENCES conversations (id),
    turn_id     TEXT   COLLATE "C" NOT NULL REFERENCES turns (id),
    role        TEXT   NOT NULL,
    blocks      TEXT   NOT NULL,
    attachments TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    position    BIGINT NOT NULL,
    UNIQUE (chat_id, position)
);

CREATE INDEX messages_by_turn ON messages (turn_id);

CREATE TABLE executions (
    id          TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    workspace   TEXT   NOT NULL,
    workflow_id TEXT   NOT NULL,
    workflow    TEXT   NOT NULL,
    input       TEXT   NOT NULL,
    state       TEXT   NOT NULL,
    outputs     TEXT,
    code        TEXT,
    error       TEXT,
    started_at  BIGINT NOT NULL,
    ended_at    BIGINT
);

CREATE INDEX executions_by_workspace ON executions (workspace, started_at, id);
CREATE INDEX open_executions ON executions (started_at) WHERE ended_at IS NULL;
CREATE INDEX executions_by_end ON executions (ended_at) WHERE ended_at IS NOT NULL;

-- What happened in a turn or an execution, whose id the stream has.
CREATE TABLE stream_events (
    stream_id TEXT   COLLATE "C" NOT NULL,
    seq       BIGINT NOT NULL,
    kind      TEXT   NOT NULL,
    data      TEXT   NOT NULL,
    upstream  BIGINT,
    PRIMARY KEY (stream_id, seq)
);

-- Files of a bag, which is that of a chat or of an execution. One that is not
-- committed holds its name only. A name stays taken when its file is deleted.
CREATE TABLE assistant_chat_bag_files (
    id           TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    workspace    TEXT   NOT NULL,
    chat_id      TEXT   COLLATE "C" NOT NULL,
    message_id   TEXT,
    name         TEXT   NOT NULL,
    wanted_name  TEXT   NOT NULL,
    number       BIGINT NOT NULL,
    mime_type    TEXT   NOT NULL DEFAULT '',
    size         BIGINT NOT NULL DEFAULT 0,
    sha256       TEXT   NOT NULL DEFAULT '',
    storage_key  TEXT   NOT NULL UNIQUE,
    source       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    committed_at BIGINT,
    deleted_at   BIGINT,
    UNIQUE (chat_id, name)
);

CREATE INDEX bag_files_by_number ON assistant_chat_bag_files (chat_id, wanted_name, number);
CREATE INDEX bag_files_in_order ON assistant_chat_bag_files (chat_id, created_at, id);
-- How many there are and how large they are is read from this alone.
CREATE INDEX kept_bag_files ON assistant_chat_bag_files (chat_id, size) WHERE deleted_at IS NULL;
CREATE INDEX reserved_bag_files ON assistant_chat_bag_files (created_at) WHERE committed_at IS NULL;

CREATE TABLE workspace_files (
    id           TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    workspace    TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    wanted_name  TEXT   NOT NULL,
    number       BIGINT NOT NULL,
    mime_type    TEXT   NOT NULL DEFAULT '',
    size         BIGINT NOT NULL DEFAULT 0,
    sha256       TEXT   NOT NULL DEFAULT '',
    storage_key  TEXT   NOT NULL UNIQUE,
    source       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    committed_at BIGINT,
    deleted_at   BIGINT,
    UNIQUE (workspace, name)
);

CREATE INDEX files_by_number ON workspace_files (workspace, wanted_name, number);
CREATE INDEX files_in_order ON workspace_files (workspace, created_at, id);
CREATE INDEX reserved_files ON workspace_files (created_at) WHERE committed_at IS NULL;

-- A row for each bag and each workspace, held while one of their files gets its
-- name. It counts the names that were ever given there.
CREATE TABLE file_shelves (
    shelf TEXT   NOT NULL PRIMARY KEY,
    given BIGINT NOT NULL
);
