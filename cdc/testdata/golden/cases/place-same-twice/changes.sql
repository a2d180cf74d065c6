INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000104', 'order', 'o-1', 'T', 'p');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000105', 'order', 'o-1', 'T', NULL);
