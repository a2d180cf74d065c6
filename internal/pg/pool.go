// Package pg is how every part of chorus reaches PostgreSQL: the pool, the one
// transaction helper, what an error means, migrations, and a database with its
// roles for each service.
//
// It stores nothing of its own but the version tables of the migrations. A crash
// inside [InTx] or [Migrate] leaves the state before it, because PostgreSQL rolls
// back what was not committed; [EnsureDatabase] cannot run in one transaction, so
// each of its steps may be repeated and a later run completes it.
package pg

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options differ from one pool to the next; their zero values are good defaults.
type Options struct {
	// Name appears as application_name in pg_stat_activity and the server's log.
	Name string
	// MaxConns bounds the pool; 10 by default. The sum over all replicas of all
	// services must fit the server's max_connections (D3).
	MaxConns int32
	// StatementTimeout ends a statement on the server; 30 s by default.
	StatementTimeout time.Duration
	// IdleInTxTimeout ends the session of a transaction that waits for its
	// client, so that a frozen process holds no locks; 10 s by default.
	IdleInTxTimeout time.Duration
	// Tracer sees every query; none by default.
	Tracer pgx.QueryTracer
}

// Open makes a pool and proves it with one connection. Parameters in the DSN win
// over opts. The caller closes the pool; whether an error is worth another
// try is for [Transient] to say.
//
// Statements are prepared once a connection. After a migration such a statement
// may fail once with "cached plan must not change result type"; pgx then forgets
// it, and [InTx] runs the transaction again.
func Open(ctx context.Context, dsn string, opts Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	if opts.MaxConns > 0 {
		cfg.MaxConns = opts.MaxConns
	} else if u, err := url.Parse(dsn); err != nil || !u.Query().Has("pool_max_conns") {
		cfg.MaxConns = 10
	}
	if u, err := url.Parse(dsn); err != nil || !u.Query().Has("pool_max_conn_idle_time") {
		cfg.MaxConnIdleTime = idle
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	param := func(name, value string) {
		if _, given := cfg.ConnConfig.RuntimeParams[name]; !given && value != "" {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	param("application_name", opts.Name)
	param("statement_timeout", milliseconds(opts.StatementTimeout, 30*time.Second))
	param("idle_in_transaction_session_timeout", milliseconds(opts.IdleInTxTimeout, 10*time.Second))
	if opts.Tracer != nil {
		cfg.ConnConfig.Tracer = opts.Tracer
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", cfg.ConnConfig.Database, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open database %s: %w", cfg.ConnConfig.Database, err)
	}
	return pool, nil
}

// idle is how long a connection is kept that nobody uses. It is a process of the server and holds megabytes; a new
// one takes some milliseconds.
const idle = 2 * time.Minute

// milliseconds writes a timeout as PostgreSQL reads it. A positive one is never
// rounded to 0, which would switch it off.
func milliseconds(d, otherwise time.Duration) string {
	if d <= 0 {
		d = otherwise
	}
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

// WithDatabase returns the URL dsn pointed at another database, user and
// password; host and parameters stay. An empty argument keeps what dsn has.
func WithDatabase(dsn, database, user, password string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		// The parser's error would show the password.
		return "", fmt.Errorf("the database's URL does not have the form postgres://user:password@host:port/database")
	}
	if database != "" {
		u.Path = "/" + database
		u.RawPath = ""
	}
	if user != "" || password != "" {
		given, _ := u.User.Password()
		if user == "" {
			user = u.User.Username()
		}
		if password != "" {
			given = password
		}
		u.User = url.UserPassword(user, given)
	}
	return u.String(), nil
}
