-- +goose NO TRANSACTION
-- +goose Up

-- Ended orders that are old: the rows of orders as they were, out of the way of those that still move. An order is in one
-- of the two tables. A column that is added to orders is added here too.
CREATE TABLE IF NOT EXISTS archived_orders (
    LIKE orders INCLUDING DEFAULTS,
    archived_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (order_no)
);

CREATE INDEX IF NOT EXISTS archived_by_status ON archived_orders (status, order_no);
CREATE INDEX IF NOT EXISTS archived_by_customer ON archived_orders (hashtextextended(customer, 0), order_no);

-- What may be archived, the oldest first. Built beside the writers; what an interrupted build left is built anew.
DROP INDEX IF EXISTS orders_ended;
CREATE INDEX CONCURRENTLY orders_ended ON orders (updated_at)
    WHERE status IN ('DELIVERED', 'REJECTED', 'CANCELLED', 'FAILED') AND NOT needs_attention;
