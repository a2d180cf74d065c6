-- +goose Up

-- Calls are found by their order. Only those that came without one, as a look-up before anything is known of its key, are found by key.
CREATE INDEX request_log_unnamed ON request_log (key) WHERE order_number = 0;
DROP INDEX request_log_key;
