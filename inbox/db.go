package inbox

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is a pool or a connection.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// dial returns how to open a partition's connection. What the DSN sets itself is left alone. The time limits make the server end what a frozen
// process has left open; the keepalive finds a dead network well before the batch's own limit.
func dial(config *pgx.ConnConfig) func(ctx context.Context) (*pgx.Conn, error) {
	defaults := map[string]string{
		"application_name":                    "chorus inbox",
		"idle_in_transaction_session_timeout": "10s",
		"statement_timeout":                   "30s",
		"lock_timeout":                        "20s", // before the statement's own: who waits for a lock says nothing about the fact (55P03), and tries until it works
	}
	for name, value := range defaults {
		if _, set := config.RuntimeParams[name]; !set {
			config.RuntimeParams[name] = value
		}
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	config.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}).DialContext
	return func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
}

// guardedTx keeps a Handler from ending the door's transaction.
type guardedTx struct{ pgx.Tx }

type errGuard struct{ what string }

func (e errGuard) Error() string {
	return e.what + ": the transaction belongs to the inbox, which commits it with the fence"
}

func (guardedTx) Commit(context.Context) error   { return errGuard{"commit"} }
func (guardedTx) Rollback(context.Context) error { return errGuard{"rollback"} }
