INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000001', 'oorder', 'o-1', 'T', 'p');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000002', 'oorder-x', 'o-1', 'T', 'p');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000003', 'order', 'o-1', 'T', 'p');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000004', 'aab-x', 'o-1', 'T', 'p');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000005', 'oobad', 'o-1', 'T', 'p');
