package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chorus/internal/pgtest"
	"chorus/outbox"
)

func database(t *testing.T) (string, *pgx.Conn) {
	t.Helper()
	dsn := pgtest.Database(t)
	db := connect(t, dsn)
	if _, err := db.Exec(t.Context(), outbox.Schema); err != nil {
		t.Fatal(err)
	}
	return dsn, db
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

func row(n byte) outbox.Row {
	return outbox.Row{ID: [16]byte{15: n}, AggregateType: "orders", AggregateID: "8842", Type: "OrderPlaced", Payload: []byte{n}}
}

// add appends the rows in a transaction of their own.
func add(t *testing.T, db *pgx.Conn, rows ...outbox.Row) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return outbox.Append(t.Context(), tx, rows...) })
}

func TestAppendKeepsEveryField(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	want := outbox.Row{ID: [16]byte{0: 0xAB, 15: 1}, AggregateType: "orders", AggregateID: "8842", Type: "OrderPlaced",
		Payload: []byte{0, 0xFF, '\\', '\''}, OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 123_456_000, time.UTC),
		CorrelationID: "8842", CausationID: `{ä,"\`, Hop: 3, TraceParent: "00-a-b-01", TraceState: "x=y"}
	if err := add(t, db, want); err != nil {
		t.Fatal(err)
	}
	var got outbox.Row
	if err := db.QueryRow(t.Context(), `SELECT id, aggregatetype, aggregateid, type, payload, occurredat AT TIME ZONE 'UTC',
	         correlationid, causationid, hop, traceparent, tracestate FROM outbox`).Scan(
		&got.ID, &got.AggregateType, &got.AggregateID, &got.Type, &got.Payload, &got.OccurredAt,
		&got.CorrelationID, &got.CausationID, &got.Hop, &got.TraceParent, &got.TraceState); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAbsentValues(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	null, empty := row(1), row(2)
	null.Payload, empty.Payload = nil, []byte{}
	before := time.Now().Add(-time.Minute)
	if err := add(t, db, null, empty); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(t.Context(), `SELECT payload IS NULL, traceparent IS NULL AND tracestate IS NULL, occurredat FROM outbox ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	var nulls []bool
	for rows.Next() {
		var payload, trace bool
		var at time.Time
		if err := rows.Scan(&payload, &trace, &at); err != nil {
			t.Fatal(err)
		}
		nulls = append(nulls, payload)
		if !trace {
			t.Error("an empty trace is not NULL")
		}
		if at.Before(before) || at.After(time.Now().Add(time.Minute)) {
			t.Errorf("occurred at %s by default", at)
		}
	}
	if diff := cmp.Diff([]bool{true, false}, nulls); diff != "" {
		t.Errorf("payload NULL: %s", diff)
	}
}

// The order of the arguments is the order in the heap, hence in the log.
func TestAppendKeepsOrderOfManyRows(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	const n = 20_000 // more than 65,535 parameters' worth
	rows := make([]outbox.Row, n)
	for i := range rows {
		rows[i] = row(1)
		// Descending ids: an order by the key's index would turn them round.
		rows[i].ID = [16]byte{13: byte((n - i) >> 16), 14: byte((n - i) >> 8), 15: byte(n - i)}
		rows[i].Payload = fmt.Appendf(nil, "%d", i)
	}
	if err := add(t, db, rows...); err != nil {
		t.Fatal(err)
	}
	got, err := db.Query(t.Context(), `SELECT payload FROM outbox ORDER BY ctid`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(got, pgx.RowTo[[]byte])
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != n {
		t.Fatalf("%d rows, want %d", len(all), n)
	}
	for i, p := range all {
		if string(p) != fmt.Sprint(i) {
			t.Fatalf("row %d is %s", i, p)
		}
	}
}

// Faulty rows are refused before anything is sent: the transaction lives on.
func TestAppendRefusesFaultyRows(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	for name, spoil := range map[string]func(*outbox.Row){
		"id is zero":              func(r *outbox.Row) { r.ID = [16]byte{} },
		"aggregate type is empty": func(r *outbox.Row) { r.AggregateType = "" },
		"aggregate id is empty":   func(r *outbox.Row) { r.AggregateID = "" }, // CDC-17
		"type is empty":           func(r *outbox.Row) { r.Type = "" },
		"hop is -1":               func(r *outbox.Row) { r.Hop = -1 },
	} {
		bad := row(2)
		spoil(&bad)
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			if err := outbox.Append(t.Context(), tx, row(1), bad); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: got error %v", name, err)
			}
			var n int
			if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&n); err != nil || n != 0 {
				t.Errorf("%s: %d rows (%v), want an empty table in a transaction that works", name, n, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestAppendOfNothing(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	if err := add(t, db); err != nil {
		t.Error(err)
	}
}

func TestAppendNamesSQLState(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	if err := add(t, db, row(1)); err != nil {
		t.Fatal(err)
	}
	long := row(2)
	long.AggregateID = strings.Repeat("9", 256)
	for state, r := range map[string]outbox.Row{"23505": row(1), "22001": long} {
		var pg *pgconn.PgError
		if err := add(t, db, r); !errors.As(err, &pg) || pg.Code != state {
			t.Errorf("got %v, want SQLSTATE %s", err, state)
		}
	}
}

// G1: what is rolled back was never said.
func TestRollbackTakesTheRowsBack(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := outbox.Append(t.Context(), tx, row(1)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows (%v)", n, err)
	}
}

// Replicas of a service start together, each with the schema.
func TestSchemaMayBeRunBySeveralAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	db := connect(t, dsn)
	var wg sync.WaitGroup
	for range 8 {
		other := connect(t, dsn)
		wg.Go(func() {
			if _, err := other.Exec(t.Context(), outbox.Schema); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var inserts, updates, deletes, truncates bool
	if err := db.QueryRow(t.Context(), `SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication JOIN pg_publication_tables USING (pubname)
	  WHERE pubname = 'outbox' AND tablename = 'outbox'`).Scan(&inserts, &updates, &deletes, &truncates); err != nil {
		t.Fatal(err)
	}
	if !inserts || updates || deletes || truncates {
		t.Errorf("publishes inserts %t, updates %t, deletes %t, truncates %t", inserts, updates, deletes, truncates)
	}
}
