-- +goose Up

-- An order's row is written with each of its facts. An update that changes no indexed column stays on its page and touches no index, so what nearly every fact changes, for
-- whom and until when the order waits, is indexed no more: only whether it waits at all. Half of a page is left free, because a batch may write all rows of a page.
--
-- The column rewrites the table, during which the tracker's view stands still. Old code runs on: it reads lists of overdue orders from the whole table until it is replaced.
ALTER TABLE orders SET (fillfactor = 50);
ALTER TABLE orders ADD COLUMN waiting boolean GENERATED ALWAYS AS (waits_for IS NOT NULL) STORED;
CREATE INDEX orders_open ON orders (order_no) WHERE waiting;
DROP INDEX orders_waiting;
DROP INDEX orders_overdue;
