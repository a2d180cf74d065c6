INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('00000000-0000-4000-8000-000000000003', 'order', 'o-1', 'T', 'p');
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, d_int, d_text, d_num, d_now, d_bool, d_date) VALUES ('00000000-0000-4000-8000-000000000004', 'order', 'o-1', 'T', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
