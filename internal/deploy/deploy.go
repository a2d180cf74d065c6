// Package deploy prepares what the processes find when they start: databases with roles and tables,
// topics, schemas. Every step may be run again, by several at once, and while the system runs; a
// crash between two steps leaves what the next run completes.
package deploy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/tracker"
	"chorus/outbox"
	"chorus/services/inventory"
	"chorus/services/notifications"
	"chorus/services/orders"
)

// CDC is the role that replicates and prunes every outbox.
const CDC = "cdc"

// Database is what one service keeps its rows in. Its name is the service's, and so is the role's; the
// owner's role has "_owner" behind it.
type Database struct {
	Name   string
	Outbox bool
	States bool         // a participant's order states
	Calls  bool         // the result table
	Inbox  bool         // and the audit of what people did
	Own    func() fs.FS // the service's own migrations; nil for none
}

// Databases lists all of them.
func Databases() []Database {
	own := map[event.Participant]func() fs.FS{event.Orders: orders.Schema, event.Inventory: inventory.Schema}
	var all []Database
	for _, p := range event.Owners() {
		all = append(all, Database{
			Name: string(p), Outbox: true, States: true, Inbox: true, Calls: p != event.Orders, Own: own[p],
		})
	}
	return append(all,
		Database{Name: "notifications", Inbox: true, Calls: true, Own: notifications.Schema},
		Database{Name: "tracker", Inbox: true, Own: tracker.Schema},
		Database{Name: "providers"}, // the simulated outside world migrates its own, as its owner
	)
}

// Server is a PostgreSQL server and the passwords of its roles.
type Server struct {
	Admin    string                   // URL of a superuser
	Password func(role string) string // of a role, the same at each run
}

// URL returns how role logs in to the database.
func (s Server) URL(database, role string) (string, error) {
	return pg.WithDatabase(s.Admin, database, role, s.Password(role))
}

// Passwordless is URL without the password, for an argument that others can read; the password goes into PGPASSWORD.
func (s Server) Passwordless(database, role string) (string, error) {
	u, err := url.Parse(s.Admin)
	if err != nil {
		return "", errors.New("the server's URL cannot be read") // not its text: it holds a password
	}
	u.User, u.Path = url.User(role), "/"+database
	return u.String(), nil
}

// Owner returns how the database's owner logs in.
func (s Server) Owner(database string) (string, error) { return s.URL(database, database+"_owner") }

// Make makes or completes one database.
func (s Server) Make(ctx context.Context, db Database) error {
	if err := s.ensure(ctx, db); err != nil {
		return fmt.Errorf("database %s: %w", db.Name, err)
	}
	return nil
}

// Ensure makes or completes every database. progress is told the name of each when it is ready.
func (s Server) Ensure(ctx context.Context, log *slog.Logger, progress func(name string)) error {
	for _, db := range Databases() {
		if err := s.Make(ctx, db); err != nil {
			return err
		}
		log.Info("database ready", "database", db.Name)
		if progress != nil {
			progress(db.Name)
		}
	}
	return nil
}

func (s Server) ensure(ctx context.Context, db Database) error {
	spec := pg.DatabaseSpec{
		Name:    db.Name,
		Owner:   s.role(db.Name + "_owner"),
		Service: s.role(db.Name),
	}
	if db.Outbox {
		spec.CDC = s.role(CDC)
	}
	if err := pg.EnsureDatabase(ctx, s.Admin, spec); err != nil {
		return err
	}
	owner, err := s.Owner(db.Name)
	if err != nil {
		return err
	}
	if db.Outbox {
		if err := run(ctx, owner, outbox.Schema); err != nil {
			return fmt.Errorf("make the outbox: %w", err)
		}
		if err := pg.GrantOutbox(ctx, owner, "public.outbox", CDC); err != nil {
			return err
		}
		// A committed fact is never taken back (G2): the service can neither change nor delete what it said.
		if err := pg.RestrictToInsert(ctx, owner, "public.outbox", db.Name); err != nil {
			return err
		}
	}
	if db.Inbox {
		if err := run(ctx, owner, inbox.Schema); err != nil {
			return fmt.Errorf("make the inbox: %w", err)
		}
	}
	if err := s.migrate(ctx, owner, db); err != nil {
		return err
	}
	var insertOnly []string
	if db.Inbox {
		insertOnly = append(insertOnly, audit.Table)
	}
	if db.Calls {
		insertOnly = append(insertOnly, intent.AppendOnly()...)
	}
	for _, table := range insertOnly {
		if err := pg.RestrictToInsert(ctx, owner, table, db.Name); err != nil {
			return err
		}
	}
	return s.plans(ctx, db)
}

// plans keeps the cost of a statement apart from the size of its table. A plan that was made for a table of a few hundred rows
// reads all of it, and a connection would keep it while the table grows: until the next ANALYZE, which may be minutes away in a rush,
// every transaction would cost as much as there are orders.
//
// A service's statements go by key, so they are planned once, and always by index: planning them at each execution cost a fifth of the
// server's time. The tracker also answers people, whose filters want a plan of their own.
func (s Server) plans(ctx context.Context, db Database) error {
	settings := []string{"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_hashjoin = off", "enable_mergejoin = off"}
	if db.Name == "tracker" {
		settings = []string{"plan_cache_mode = force_custom_plan"}
	}
	roles := []string{db.Name}
	if db.Name == "providers" {
		roles = append(roles, db.Name+"_owner") // as whom the outside world works
	}
	var text strings.Builder
	for _, role := range roles {
		for _, setting := range settings {
			fmt.Fprintf(&text, "ALTER ROLE %s IN DATABASE %s SET %s;\n", pgx.Identifier{role}.Sanitize(), pgx.Identifier{db.Name}.Sanitize(), setting)
		}
	}
	if err := run(ctx, s.Admin, text.String()); err != nil {
		return fmt.Errorf("set how statements are planned: %w", err)
	}
	return nil
}

func (s Server) migrate(ctx context.Context, owner string, db Database) error {
	var sets []fs.FS
	if db.Inbox {
		sets = append(sets, audit.Schema())
	}
	if db.States {
		sets = append(sets, participant.Schema())
	}
	if db.Calls {
		sets = append(sets, intent.Schema())
	}
	if db.Own != nil {
		sets = append(sets, db.Own())
	}
	for _, set := range sets {
		if err := pg.Migrate(ctx, owner, set); err != nil {
			return err
		}
	}
	return nil
}

func (s Server) role(name string) pg.Role { return pg.Role{Name: name, Password: s.Password(name)} }

// schemaLock is the advisory lock under which a text of statements runs: IF NOT EXISTS alone fails when two sessions make the same
// table at once.
const schemaLock = "SELECT pg_advisory_xact_lock(7021996300175);\n"

// run sends a text of several statements, which the server runs as one transaction.
func run(ctx context.Context, dsn, sql string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, schemaLock+sql)
	return err
}
