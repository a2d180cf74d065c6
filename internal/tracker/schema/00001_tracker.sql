-- +goose Up

-- Every fact of every order, as it was read. seq counts an order's facts in the order in which they were folded: live
-- views go on after the last one that they have shown. body is json, not jsonb: it is never searched, and json keeps every text.
CREATE TABLE facts (
    event_id     uuid        PRIMARY KEY,
    order_no     bigint      NOT NULL,
    seq          integer     NOT NULL,
    type         text        NOT NULL,
    owner        text        NOT NULL,
    occurred_at  timestamptz NOT NULL,
    causation_id uuid,
    hop          integer     NOT NULL,
    topic        text        NOT NULL,
    partition    integer     NOT NULL,
    "offset"     bigint      NOT NULL,
    recorded_at  timestamptz NOT NULL,  -- the record's own time: when its transaction committed
    folded_at    timestamptz NOT NULL DEFAULT now(),
    body         json        NOT NULL
);

CREATE INDEX facts_by_order ON facts (order_no, seq);

-- One row an order: state is the fold of its facts, the columns are what lists are filtered and counted by.
CREATE TABLE orders (
    order_no        bigint      PRIMARY KEY,
    state           json        NOT NULL DEFAULT '{}',
    facts           integer     NOT NULL DEFAULT 0,   -- the last seq
    status          text        NOT NULL DEFAULT '',
    customer        text        NOT NULL DEFAULT '',
    currency        text        NOT NULL DEFAULT '',
    total           bigint      NOT NULL DEFAULT 0,   -- minor units
    placed_at       timestamptz,                      -- null until OrderPlaced has been read
    updated_at      timestamptz,
    ended_at        timestamptz,                      -- confirmed, or wholly undone
    needs_attention boolean     NOT NULL DEFAULT false,
    waits_for       text,                             -- "owner" or "owner/step"; null when at rest
    overdue_at      timestamptz                       -- when the first of its waits runs out
) WITH (fillfactor = 80);

CREATE INDEX orders_by_status ON orders (status, order_no);
CREATE INDEX orders_waiting ON orders (waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX orders_overdue ON orders (overdue_at) WHERE overdue_at IS NOT NULL;
CREATE INDEX orders_attention ON orders (order_no) WHERE needs_attention;
