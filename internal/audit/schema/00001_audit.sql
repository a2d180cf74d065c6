-- +goose Up

-- What people did to the system: one row an action, written in the transaction of the action itself. The service may only insert.
CREATE TABLE audit (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    who      text        NOT NULL,
    action   text        NOT NULL,
    subject  text        NOT NULL,  -- what it was done to, for people: "payment", "dead letter 12"
    order_no bigint,                -- the order it is about, if it is about one
    why      text        NOT NULL,
    before   jsonb       NOT NULL,
    after    jsonb       NOT NULL
);

CREATE INDEX audit_by_order ON audit (order_no, id) WHERE order_no IS NOT NULL;
