package inbox

// Schema makes the tables of this package in the first schema of the search path. It may be run again at each start, and by any migration tool that
// splits statements at semicolons. The role that runs Run needs SELECT, INSERT, UPDATE and DELETE on them.
//
// Keys of dead letters are indexed by their hash, because a key may be longer than an index takes.
//
// Rows come in the order of their time, so a few bytes for each 128 pages are index enough to find the old ones (BRIN), and cost their insertion nothing.
const Schema = `
CREATE TABLE IF NOT EXISTS inbox (
    consumer    text        NOT NULL,
    event_id    uuid        NOT NULL,
    verdict     text        NOT NULL DEFAULT 'applied' CHECK (verdict IN ('applied', 'remembered', 'ignored', 'dead')),
    why         text        NOT NULL DEFAULT '',
    duplicates  integer     NOT NULL DEFAULT 0,
    occurred_at timestamptz NOT NULL,
    handled_at  timestamptz NOT NULL DEFAULT now(),
    topic       text,
    partition   integer,
    "offset"    bigint,
    PRIMARY KEY (consumer, event_id)
) WITH (fillfactor = 90);

DROP INDEX IF EXISTS inbox_by_age;

CREATE INDEX IF NOT EXISTS inbox_age ON inbox USING brin (handled_at) WITH (autosummarize = on);

CREATE TABLE IF NOT EXISTS partition_owner (
    consumer      text        NOT NULL,
    topic         text        NOT NULL,
    partition     integer     NOT NULL,
    topic_id      uuid        NOT NULL,
    epoch         bigint      NOT NULL,
    next_offset   bigint      NOT NULL,
    pid           integer,
    backend_start timestamptz,
    owner         text        NOT NULL DEFAULT '',
    claimed_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, topic, partition)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS dead_letters (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer        text        NOT NULL,
    topic_id        uuid        NOT NULL,
    topic           text        NOT NULL,
    partition       integer     NOT NULL,
    "offset"        bigint      NOT NULL,
    event_id        uuid,
    event_type      text        NOT NULL DEFAULT '',
    key             bytea,
    value           bytea,
    headers         bytea[]     NOT NULL DEFAULT '{}',
    occurred_at     timestamptz NOT NULL,
    recorded_at     timestamptz NOT NULL,
    reason          text        NOT NULL,
    detail          text        NOT NULL DEFAULT '',
    attempts        integer     NOT NULL DEFAULT 1,
    first_failed_at timestamptz NOT NULL DEFAULT now(),
    last_failed_at  timestamptz NOT NULL DEFAULT now(),
    state           text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'redriven', 'discarded')),
    closed_at       timestamptz,
    closed_why      text        NOT NULL DEFAULT '',
    UNIQUE (consumer, topic_id, partition, "offset")
);

CREATE INDEX IF NOT EXISTS dead_letters_open ON dead_letters (consumer, event_id) WHERE state = 'open';

CREATE INDEX IF NOT EXISTS dead_letters_held ON dead_letters (consumer, topic, sha256(key)) WHERE state = 'open';
`
