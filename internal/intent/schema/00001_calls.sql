-- +goose Up

-- An intent and its present state. The state itself is decision.Call as JSON; phase is a copy of its phase.
CREATE TABLE calls (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_no     bigint      NOT NULL,
    step         text        NOT NULL,
    op           text        NOT NULL,
    generation   integer     NOT NULL,
    key          text        NOT NULL UNIQUE,  -- the idempotency key
    provider     text        NOT NULL,
    reference    text        NOT NULL,
    reason       text        NOT NULL,
    deadline     timestamptz,
    state        jsonb       NOT NULL,
    phase        text        NOT NULL,
    exchanges    integer     NOT NULL DEFAULT 0,      -- begun so far: the n of the last start row
    running      boolean     NOT NULL DEFAULT false,  -- the last start row has no end row yet
    due_at       timestamptz NOT NULL DEFAULT now(),  -- of a leased call: when the lease ends
    lease_owner  text,                                -- for people; the token is what counts
    lease_token  bigint      NOT NULL DEFAULT 0,      -- rises whenever the call is leased or recorded
    problem      text,                                -- why the call cannot go on, when only a person can mend it
    outcome      text,
    causation_id uuid,
    hop          integer     NOT NULL,
    traceparent  text        NOT NULL,
    tracestate   text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- What a worker may claim. Calls that have ended are not in it, so its size is that of the work under way.
CREATE INDEX calls_due ON calls (provider, due_at) WHERE ended_at IS NULL;
CREATE INDEX calls_order ON calls (order_no);
-- For pruning: a few bytes for each 128 pages.
CREATE INDEX calls_created ON calls USING brin (created_at);

-- The request's body, stored once and sent in every attempt. It is apart because it never changes while its call
-- does, and because it holds personal data: a row can be erased without losing the record of the call.
CREATE TABLE call_bodies (
    call_id bigint PRIMARY KEY,
    body    bytea  NOT NULL
);

-- One row when an exchange starts, committed before it does, and one when it has ended (G6). The service may only insert.
CREATE TABLE call_attempts (
    call_id     bigint      NOT NULL,
    n           integer     NOT NULL,
    part        text        NOT NULL CHECK (part IN ('start', 'end')),
    kind        text        NOT NULL,  -- ATTEMPT, ASK or END
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    owner       text        NOT NULL,  -- the worker
    method      text,                  -- from here to headers: of the start
    url         text,
    headers     jsonb,                 -- of the request in a start row, of the answer in an end row
    status      integer,               -- from here: of the end
    body        text,
    result      text,
    reason      text,
    error       text,
    duration_ms double precision,
    PRIMARY KEY (call_id, n, part)
);

-- How long a provider asked everybody to stay away (Retry-After).
CREATE TABLE call_pauses (
    provider text        PRIMARY KEY,
    until    timestamptz NOT NULL
);
