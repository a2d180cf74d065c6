package pg_test

import (
	"sync"
	"testing"
	"testing/fstest"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

func files(pairs ...string) fstest.MapFS {
	all := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		all["schema/"+pairs[i]] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + pairs[i+1])}
	}
	return all
}

const orders = "CREATE TABLE orders (number bigint PRIMARY KEY);"

func TestMigrateTogetherAndForward(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	first := files("00001_orders.sql", orders)
	var replicas sync.WaitGroup
	for range 6 {
		replicas.Go(func() {
			if err := pg.Migrate(t.Context(), dsn, first); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	second := files("00001_orders.sql", orders, "00002_total.sql", "ALTER TABLE orders ADD COLUMN total bigint;")
	if err := pg.Migrate(t.Context(), dsn, second); err != nil {
		t.Fatal(err)
	}
	exec(t, dsn, "INSERT INTO orders (number, total) VALUES (1, 2)")
	// An old replica that starts after the new one.
	if err := pg.Migrate(t.Context(), dsn, first); err != nil {
		t.Errorf("old code on the new schema: %v", err)
	}
	exec(t, dsn, "INSERT INTO orders (number, total) VALUES (2, 2)")
}

func TestMigrateSetsSideBySide(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	for _, set := range []fstest.MapFS{
		files("00001_orders.sql", orders),
		files("00001_door.sql", "CREATE TABLE inbox (id uuid PRIMARY KEY);"),
	} {
		for range 2 {
			if err := pg.Migrate(t.Context(), dsn, set); err != nil {
				t.Fatal(err)
			}
		}
	}
	exec(t, dsn, "SELECT number FROM orders", "SELECT id FROM inbox")
}

func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	if err := pg.Migrate(t.Context(), dsn, files("00001_orders.sql", orders)); err != nil {
		t.Fatal(err)
	}
	twoFolders := files("00001_a.sql", "SELECT 1;")
	twoFolders["other/00001_b.sql"] = twoFolders["schema/00001_a.sql"]
	for name, set := range map[string]fstest.MapFS{
		"an edited first file":         files("00001_orders.sql", orders+"\n-- edited"),
		"no files":                     {},
		"two folders":                  twoFolders,
		"a file without number":        files("00001_a.sql", "SELECT 1;", "b.sql", "SELECT 1;"),
		"numbers of different lengths": files("1_a.sql", "SELECT 1;", "10_b.sql", "SELECT 1;"),
		"one number twice":             files("00001_a.sql", "SELECT 1;", "00001_b.sql", "SELECT 1;"),
	} {
		if err := pg.Migrate(t.Context(), dsn, set); err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

func TestMigrateRollsBackAFaultyFile(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	faulty := files("00001_orders.sql", orders, "00002_two.sql", "CREATE TABLE half (v int);\nCREATE TABLE orders (v int);")
	if err := pg.Migrate(t.Context(), dsn, faulty); pg.Code(err) != "42P07" {
		t.Fatalf("a file that makes a table twice: %v, want SQLSTATE 42P07", err)
	}
	if value[bool](t, dsn, "SELECT to_regclass('half') IS NOT NULL") {
		t.Error("the first statement of the faulty file is still in effect")
	}
	mended := files("00001_orders.sql", orders, "00002_two.sql", "CREATE TABLE half (v int);")
	if err := pg.Migrate(t.Context(), dsn, mended); err != nil {
		t.Fatal(err)
	}
	if !value[bool](t, dsn, "SELECT to_regclass('half') IS NOT NULL") {
		t.Error("the mended file was not applied")
	}
}
