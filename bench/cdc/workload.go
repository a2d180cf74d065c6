package main

import "fmt"

// workload is a backlog that is drained.
type workload struct {
	name, says string
	rows       int
	load       string // SQL of the procedure load(rows)
}

func (w workload) database() string { return "bench_" + w.name }

// keys is how many keys the rows are of. The number of a row is in its id, and
// grows with the commits: one session writes them.
const keys = 10_000

// procedure loads rows, so many a transaction. A row's number stands in the last
// twelve digits of its id.
func procedure(payload string, perTransaction int) string {
	return fmt.Sprintf(`
CREATE PROCEDURE load(rows int) LANGUAGE plpgsql AS $$
DECLARE i int := 1;
BEGIN
  WHILE i <= rows LOOP
    INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat, correlationid, causationid, hop)
    SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'bench', 'k' || n %% %[1]d, 'OrderPlaced', %[2]s, now(), 'k' || n %% %[1]d, '', 0
      FROM generate_series(i, least(i + %[3]d - 1, rows)) AS n;
    COMMIT;
    i := i + %[3]d;
  END LOOP;
END $$`, keys, payload, perTransaction)
}

const (
	bytes200 = `decode(repeat(md5(n::text), 12) || '00112233aabbccdd', 'hex')`
	json1000 = `convert_to(format('{"order":%s,"customer":"%s","lines":[{"sku":"%s","quantity":%s,"price":"19.99"}],"note":"%s"}', n, md5(n::text), md5(n::text), n % 9 + 1, repeat(md5(n::text), 27)), 'UTF8')`
)

func workloads(o options) []workload {
	return []workload{
		{"one", "200-byte rows, one a transaction", o.rows, procedure(bytes200, 1)},
		{"hundred", "200-byte rows, 100 a transaction", o.rows, procedure(bytes200, 100)},
		{"json", "1 kB JSON rows, 10 a transaction", o.rows / 2, procedure(json1000, 10)},
		{"big", "200-byte rows, one transaction", o.big, procedure(bytes200, o.big)},
	}
}
