package pg_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

func open(t *testing.T, dsn string, opts pg.Options) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), dsn, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn := connect(t, dsn)
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func value[V any](t *testing.T, dsn, sql string) (v V) {
	t.Helper()
	if err := connect(t, dsn).QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// newSpec returns a spec whose names no other test uses, and removes what it
// makes. The server may be shared with other processes.
func newSpec(t *testing.T) (admin string, spec pg.DatabaseSpec) {
	t.Helper()
	dsn := pgtest.Database(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := u.Path[1:] + "_x"
	spec = pg.DatabaseSpec{
		Name:    name,
		Owner:   pg.Role{Name: name + "_owner", Password: "o'w\\ner"},
		Service: pg.Role{Name: name, Password: "service"},
		CDC:     pg.Role{Name: name + "_cdc", Password: "cdc"},
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), dsn)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		for _, sql := range []string{
			"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '" + name + "'",
			"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)",
			"DROP ROLE IF EXISTS " + spec.Owner.Name + ", " + spec.Service.Name + ", " + spec.CDC.Name,
		} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
	return dsn, spec
}

func as(t *testing.T, admin, database string, role pg.Role) string {
	t.Helper()
	dsn, err := pg.WithDatabase(admin, database, role.Name, role.Password)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}
