INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000024', 'order', 'o-1', 'T', '{"":1}');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000025', 'order', 'o-1', 'T', '{"":null}');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000026', 'order', 'o-1', 'T', '{"a":{"":{"":2}}}');
