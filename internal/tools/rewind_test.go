package tools

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/cluster"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

// TestRewindOfARunningCluster gives the command nothing but the data folder of a chorus up: the service's database, role and password follow from it.
func TestRewindOfARunningCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := pgtest.Database(t)
	server, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	const service = "billing"
	admin, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close(ctx) })
	if _, err := admin.Exec(ctx, `CREATE DATABASE billing`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(ctx, `DROP DATABASE billing`); err != nil {
			t.Error(err)
		}
	})
	server.Path = "/" + service
	dsn = server.String()
	server.User, server.Path = nil, ""

	dir := t.TempDir()
	for range 2 { // the secret stays
		if err := cluster.MakeSecret(dir); err != nil {
			t.Fatal(err)
		}
	}
	password, err := cluster.Passwords(dir)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(cluster.File{Addresses: map[string]string{"kafka": kafka(t), "postgres": server.String()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}

	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Migrate(ctx, dsn, audit.Schema()); err != nil {
		t.Fatal(err)
	}
	role := pgx.Identifier{service}.Sanitize()
	if _, err := db.Exec(ctx, inbox.Schema+`
CREATE ROLE `+role+` LOGIN PASSWORD '`+password(service)+`';
GRANT SELECT, INSERT, UPDATE ON partition_owner TO `+role+`;
GRANT SELECT, INSERT ON audit TO `+role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec(ctx, `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
		db.Close(ctx)
	})

	to := &said{}
	c := &RewindCmd{Cluster: Cluster{Data: dir}, Output: to.output(false), Consumer: service, Topic: "orders", To: "1", Partition: -1, DryRun: true}
	if err := run(t, c); err != nil {
		t.Fatal(err)
	}
	contains(t, to.out.String(), "orders.events/0 would go on at 1; it was at -1")
	c.DryRun = false
	if err := run(t, c); err != nil {
		t.Fatal(err)
	}
	var next int64
	if err := db.QueryRow(ctx, `SELECT next_offset FROM partition_owner WHERE consumer = $1`, service).Scan(&next); err != nil || next != 1 {
		t.Errorf("goes on at %d, want 1: %v", next, err)
	}

	for consumer, want := range map[string]string{
		"bill":  "there is no consumer bill; consumers are orders, inventory, fraud, shipping, billing, notifications, tracker",
		"fraud": "fraud does not read billing.events; it reads orders.events",
	} {
		c := *c
		c.Consumer, c.Topic = consumer, "billing"
		if err := run(t, &c); err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	}

	c.Data = t.TempDir()
	c.Kafka = []string{"127.0.0.1:1"}
	if err := run(t, c); err == nil || !strings.Contains(err.Error(), "--postgres, or --data") {
		t.Errorf("without a cluster: %v", err)
	}
}
