-- +goose Up

-- The catalogue. A price may have more digits than its currency: the sum of an order is exact and rounded once.
CREATE TABLE products (
    sku        text        PRIMARY KEY CHECK (sku <> ''),
    name       text        NOT NULL,
    unit_price numeric     NOT NULL CHECK (unit_price >= 0),
    currency   text        NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE SEQUENCE order_numbers START 1001 MAXVALUE 9007199254740991;

-- What people read of an order. Its course stands in order_states; status, reason, needs_attention and stuck are copied
-- from there in the transaction that changes them. The fill factor leaves room for the copies.
CREATE TABLE orders (
    order_no        bigint      PRIMARY KEY,
    customer        text        NOT NULL,
    currency        text        NOT NULL,
    lines           jsonb       NOT NULL,
    discount        bigint      NOT NULL,
    tax             bigint      NOT NULL,
    shipping_fee    bigint      NOT NULL,
    total           bigint      NOT NULL,
    shipping        text        NOT NULL,
    event_id        uuid        NOT NULL,
    status          text        NOT NULL,
    reason          text        NOT NULL DEFAULT '',
    needs_attention boolean     NOT NULL DEFAULT false,
    stuck           text[]      NOT NULL DEFAULT '{}',
    placed_at       timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
) WITH (fillfactor = 80);

CREATE INDEX orders_by_status ON orders (status, order_no);
-- By hash, because a name may be longer than an index entry.
CREATE INDEX orders_by_customer ON orders (hashtextextended(customer, 0), order_no);
CREATE INDEX orders_in_trouble ON orders (order_no) WHERE needs_attention;

-- Answers by idempotency key. scope is the SHA-256 of customer, path and key; body that of the request's meaning.
CREATE TABLE idempotency (
    scope      bytea       PRIMARY KEY,
    body       bytea       NOT NULL,
    response   jsonb       NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE INDEX idempotency_by_age ON idempotency (created_at);
