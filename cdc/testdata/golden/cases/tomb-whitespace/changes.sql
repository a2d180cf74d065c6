INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000064', 'order', 'o-1', 'T', E'\t\n\r ');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000065', 'order', 'o-1', 'T', E'\x01\x1f');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000066', 'order', 'o-1', 'T', E'\x7f');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000067', 'order', 'o-1', 'T', U&'\200B');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000068', 'order', 'o-1', 'T', U&'\3000');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000069', 'order', 'o-1', 'T', E' a ');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000070', 'order', 'o-1', 'T', '');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000071', 'order', 'o-1', 'T', NULL);
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000072', 'order', 'o-1', 'T', 'null');
