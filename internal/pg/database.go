package pg

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Role is a login and its password.
type Role struct{ Name, Password string }

// DatabaseSpec is the database of one service with its roles (D3).
type DatabaseSpec struct {
	Name string
	// Owner migrates, prunes and erases; what it creates belongs to it,
	// the publication of the outbox included.
	Owner Role
	// Service reads and writes the owner's tables and creates nothing.
	Service Role
	// CDC may replicate, which PostgreSQL grants for a whole server, so it is one
	// role for all databases. It reads and prunes the tables given to it by
	// [GrantOutbox] and owns a schema of its name for what it keeps itself.
	// Without a name the database has no outbox.
	CDC Role
}

// provisionLock is the advisory lock, in the administrator's database, under
// which databases are made: roles belong to the server, and PostgreSQL fails
// two sessions that grant on one object at a time.
const provisionLock = 0x63686f727574

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

func (s DatabaseSpec) check() error {
	var faults []error
	seen := map[string]bool{}
	for _, role := range s.roles() {
		if !namePattern.MatchString(role.Name) || strings.HasPrefix(role.Name, "pg_") {
			faults = append(faults, fmt.Errorf("role name %q is not lower case letters, digits and underscores", role.Name))
		}
		if role.Password == "" {
			faults = append(faults, fmt.Errorf("role %s has no password", role.Name))
		}
		if seen[role.Name] {
			faults = append(faults, fmt.Errorf("role %s is named twice", role.Name))
		}
		seen[role.Name] = true
	}
	if !namePattern.MatchString(s.Name) {
		faults = append(faults, fmt.Errorf("database name %q is not lower case letters, digits and underscores", s.Name))
	}
	return errors.Join(faults...)
}

func (s DatabaseSpec) roles() []Role {
	roles := []Role{s.Owner, s.Service}
	if s.CDC.Name != "" {
		roles = append(roles, s.CDC)
	}
	return roles
}

// EnsureDatabase makes the database and its roles, or completes and corrects
// them: passwords, attributes and the rights named in [DatabaseSpec] are set, tables and
// rights on them are not touched. It may run at any time and in many processes at
// once. adminDSN is the URL of a superuser.
func EnsureDatabase(ctx context.Context, adminDSN string, spec DatabaseSpec) error {
	if err := spec.check(); err != nil {
		return fmt.Errorf("ensure database %q: %w", spec.Name, err)
	}
	if err := spec.ensure(ctx, adminDSN); err != nil {
		return fmt.Errorf("ensure database %s: %w", spec.Name, err)
	}
	return nil
}

func (s DatabaseSpec) ensure(ctx context.Context, adminDSN string) error {
	inside, err := WithDatabase(adminDSN, s.Name, "", "")
	if err != nil {
		return err
	}
	return onConn(ctx, adminDSN, func(admin *pgx.Conn) error {
		// Closing the connection frees the lock.
		if _, err := admin.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(provisionLock)); err != nil {
			return fmt.Errorf("wait for the lock: %w", err)
		}
		if err := s.ensureRoles(ctx, admin); err != nil {
			return err
		}
		var there bool
		if err := admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", s.Name).Scan(&there); err != nil {
			return err
		}
		if !there {
			_, err := admin.Exec(ctx, "CREATE DATABASE "+quote(s.Name)+" OWNER "+quote(s.Owner.Name)+" TEMPLATE template0 ENCODING 'UTF8'")
			if err != nil {
				return fmt.Errorf("create it: %w", err)
			}
		}
		if _, err := admin.Exec(ctx, s.databaseRights()); err != nil {
			return fmt.Errorf("set the rights on it: %w", err)
		}
		return onConn(ctx, inside, func(conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, s.schemaRights()); err != nil {
				return fmt.Errorf("set the rights in it: %w", err)
			}
			return nil
		})
	})
}

func (s DatabaseSpec) ensureRoles(ctx context.Context, admin *pgx.Conn) error {
	for _, role := range s.roles() {
		var there bool
		err := admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role.Name).Scan(&there)
		if err != nil {
			return fmt.Errorf("look for role %s: %w", role.Name, err)
		}
		verb := "CREATE"
		if there {
			verb = "ALTER"
		}
		replication := "NOREPLICATION"
		if role == s.CDC {
			replication = "REPLICATION"
		}
		_, err = admin.Exec(ctx, verb+" ROLE "+quote(role.Name)+
			" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS "+replication+" PASSWORD "+literal(role.Password))
		if err != nil {
			return fmt.Errorf("%s role %s: %w", strings.ToLower(verb), role.Name, err)
		}
	}
	return nil
}

// databaseRights closes the database to all but its own roles.
func (s DatabaseSpec) databaseRights() string {
	db := quote(s.Name)
	sql := "ALTER DATABASE " + db + " OWNER TO " + quote(s.Owner.Name) + ";\n" +
		"REVOKE ALL ON DATABASE " + db + " FROM PUBLIC;\n"
	for _, role := range s.roles() {
		sql += "GRANT CONNECT ON DATABASE " + db + " TO " + quote(role.Name) + ";\n"
	}
	return sql
}

// schemaRights lets the service use what the owner creates from now on. Tables that
// exist are left as they are: a right that was taken away must not come back.
func (s DatabaseSpec) schemaRights() string {
	owner, service := quote(s.Owner.Name), quote(s.Service.Name)
	sql := "ALTER SCHEMA public OWNER TO " + owner + ";\n" +
		"REVOKE ALL ON SCHEMA public FROM PUBLIC;\n" +
		"GRANT USAGE ON SCHEMA public TO " + service + ";\n" +
		"ALTER DEFAULT PRIVILEGES FOR ROLE " + owner + " IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO " + service + ";\n" +
		"ALTER DEFAULT PRIVILEGES FOR ROLE " + owner + " IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO " + service + ";\n"
	if s.CDC.Name != "" {
		cdc := quote(s.CDC.Name)
		sql += "GRANT USAGE ON SCHEMA public TO " + cdc + ";\n" +
			"CREATE SCHEMA IF NOT EXISTS " + cdc + " AUTHORIZATION " + cdc + ";\n"
	}
	return sql
}

// GrantOutbox lets role, that of cdc, read the outbox table (snapshot) and delete
// from it (pruning). Call it after the migration that makes the table.
func GrantOutbox(ctx context.Context, ownerDSN, table, role string) error {
	err := onConn(ctx, ownerDSN, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d);\n", int64(rightsLock))+
			"GRANT SELECT, DELETE ON TABLE "+quote(table)+" TO "+quote(role))
		return err
	})
	if err != nil {
		return fmt.Errorf("grant outbox %s to %s: %w", table, role, err)
	}
	return nil
}

// rightsLock is the advisory lock under which rights on tables are changed; any number that nothing else in the database uses.
const rightsLock = migrationLock + 1

// RestrictToInsert leaves role only INSERT and SELECT on the table, for records
// that are never changed (D7). It lasts: nothing here grants on a table that exists.
func RestrictToInsert(ctx context.Context, ownerDSN, table, role string) error {
	err := onConn(ctx, ownerDSN, func(conn *pgx.Conn) error {
		return InTx(ctx, conn, "change its rights", func(tx pgx.Tx) error {
			// Two that change the rights of a table at once would fail with XX000, "tuple concurrently updated".
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(rightsLock)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "REVOKE ALL ON TABLE "+quote(table)+" FROM "+quote(role)+";\n"+
				"GRANT SELECT, INSERT ON TABLE "+quote(table)+" TO "+quote(role))
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("restrict %s to inserts by %s: %w", table, role, err)
	}
	return nil
}

func onConn(ctx context.Context, dsn string, do func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return do(conn)
}

// quote writes a name, or schema.name, as an identifier.
func quote(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }

// literal writes a string where PostgreSQL takes no parameter. Backslashes mean
// themselves with standard_conforming_strings, the default for ever.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
