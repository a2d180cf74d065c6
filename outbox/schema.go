package outbox

// Schema makes the table outbox and the publication of the same name in the
// current schema. It may be run again, and by several at once. Run it as the
// owner of the table; it needs CREATE on the database (for the publication).
//
// It is one text of several statements: send it without parameters, so that
// the server runs it as one transaction. In a goose migration it goes between
// StatementBegin and StatementEnd.
const Schema = `
-- IF NOT EXISTS alone fails when two sessions make the same table at once.
SELECT pg_advisory_xact_lock(7021996300174);

CREATE TABLE IF NOT EXISTS outbox (
    id            uuid         PRIMARY KEY,
    aggregatetype varchar(255) NOT NULL,
    aggregateid   varchar(255) NOT NULL CHECK (aggregateid <> ''),
    type          varchar(255) NOT NULL,
    payload       bytea,
    occurredat    timestamptz  NOT NULL DEFAULT now(),
    correlationid text         NOT NULL DEFAULT '',
    causationid   text         NOT NULL DEFAULT '',
    hop           int          NOT NULL DEFAULT 0,
    traceparent   text,
    tracestate    text
);

-- The pruner finds the oldest rows by it; without it each round reads the whole table.
CREATE INDEX IF NOT EXISTS outbox_occurredat ON outbox (occurredat);

-- Inserts alone: the pruner's deletes would otherwise travel to the publisher only to be dropped there.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = 'outbox') THEN
        CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert');
    END IF;
END
$$;
`
