-- +goose Up

-- What a participant knows of each order: the state of its pure decision. phase is for people and reports;
-- due_at is when the state asked to be woken. The fill factor lets an update stay on its page.
CREATE TABLE order_states (
    order_no   bigint      PRIMARY KEY,
    state      jsonb       NOT NULL,
    phase      text        NOT NULL DEFAULT '',
    due_at     timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);

CREATE INDEX order_states_due ON order_states (due_at) WHERE due_at IS NOT NULL;
