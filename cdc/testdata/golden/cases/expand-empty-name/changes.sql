INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000019', 'order', 'o-1', 'T', '{"":null}');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000020', 'order', 'o-1', 'T', '{"":[],"a":1}');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000021', 'order', 'o-1', 'T', '{"a":[{"":1}]}');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000022', 'order', 'o-1', 'T', '{"a":[{"":null},{"b":2}]}');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000023', 'order', 'o-1', 'T', '{" ":1}');
