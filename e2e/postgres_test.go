package e2e

import (
	"context"
	"errors"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"chorus/internal/pgserver"
)

// cmdPostgres starts a PostgreSQL that is not the cluster's own.
func cmdPostgres(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	if neg || len(args) > 0 || c.postgres != nil {
		ts.Fatalf("usage: postgres, once, and before up")
	}
	dir, err := os.MkdirTemp("", "chorus-postgres-") // not in the cluster's folder, in which no process may be left when it is down
	ts.Check(err)
	ts.Check(os.Chmod(dir, 0o755))
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: dir, NoSync: true})
	ts.Check(err)
	c.postgres = server
	ts.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(server.Stop(ctx), os.RemoveAll(dir)); err != nil {
			c.t.Error(err)
		}
	})
}
