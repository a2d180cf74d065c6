CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload text, d date, t0 timestamp(0), t3 timestamp(3), t6 timestamp, z timestamptz, ti time, ti3 time(3));
