-- +goose Up

-- What a customer was told, once for each new status of an order. No key of the fact's stands here: that nothing is told
-- twice is the inbox's work, and check has that it does it.
CREATE TABLE notifications (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_no bigint      NOT NULL,
    event_id uuid        NOT NULL,
    type     text        NOT NULL,
    text     text        NOT NULL,
    told_at  timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX notifications_order ON notifications (order_no);
