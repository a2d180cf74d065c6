-- +goose Up

-- The counts. Available is on_hand - held; the check is what "never oversold" rests on.
CREATE TABLE stock (
    sku     text   PRIMARY KEY CHECK (sku <> ''),
    on_hand bigint NOT NULL CHECK (on_hand >= 0),
    held    bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
    CHECK (held <= on_hand)
);
