-- +goose Up

-- The body that a call's attempts are sent with, where it was made for the provider from the call's own (templates, limits of
-- texts). It is kept so that each attempt sends the same bytes, also when the configuration changes between two. Personal data
-- like call_bodies: a row can be erased.
CREATE TABLE call_sent (
    call_id bigint PRIMARY KEY,
    body    bytea  NOT NULL
);
