package pg

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// migrationLock is the advisory lock under which a database is migrated; any
// number that nothing else in the database uses.
const migrationLock = 0x63686f727573 // "chorus"

// Migrate brings the database up to the newest of fsys's migrations: the files
// NUMBER_NAME.sql of its one folder (schema), in goose's format, each applied once
// in a transaction of its own. There is no way back (expand, deploy, contract), and
// versions newer than fsys's are left alone: old code runs on the new schema.
// Replicas may start together; one migrates and the others wait.
//
// The name of the first file names the set, and with it the table of applied
// versions, so several sets, say of a library and a service, live in one database.
// A set is known by the content of its first file: a change of it, or another
// set of the same name, is refused, because goose would skip in silence.
func Migrate(ctx context.Context, dsn string, fsys fs.FS) error {
	set, err := readSet(fsys)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", set.name, err)
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	if err := set.apply(ctx, db); err != nil {
		return fmt.Errorf("migrate %s in database %s: %w", set.name, cfg.Database, err)
	}
	return nil
}

// migrations are the files of one set.
type migrations struct {
	files fs.FS
	name  string // of the first file, without number
	mark  string // of the first file's content
}

// table is where goose records the applied versions.
func (m migrations) table() string { return "schema_" + m.name }

var filePattern = regexp.MustCompile(`^[0-9]+_([a-z][a-z0-9_]*)\.sql$`)

func readSet(fsys fs.FS) (migrations, error) {
	files, err := fs.Glob(fsys, "*/*.sql")
	if err != nil {
		return migrations{}, err
	}
	if len(files) == 0 {
		return migrations{}, errors.New("there is no folder with .sql files")
	}
	folder, first := path.Split(files[0]) // Glob returns them sorted
	for _, file := range files {
		dir, base := path.Split(file)
		if dir != folder {
			return migrations{}, fmt.Errorf("they are in two folders: %s and %s", folder, dir)
		}
		if !filePattern.MatchString(base) {
			return migrations{}, fmt.Errorf("%s is not named like 00001_what_it_does.sql", file)
		}
		// So that the order of names is the order of versions.
		if strings.IndexByte(base, '_') != strings.IndexByte(first, '_') {
			return migrations{}, fmt.Errorf("the numbers of %s and %s differ in length", first, base)
		}
	}
	content, err := fs.ReadFile(fsys, files[0])
	if err != nil {
		return migrations{}, err
	}
	sub, err := fs.Sub(fsys, strings.TrimSuffix(folder, "/"))
	if err != nil {
		return migrations{}, err
	}
	sum := sha256.Sum256(content)
	return migrations{
		files: sub,
		name:  filePattern.FindStringSubmatch(first)[1],
		mark:  "first migration " + first + " " + hex.EncodeToString(sum[:8]),
	}, nil
}

func (m migrations) apply(ctx context.Context, db *sql.DB) error {
	if err := m.recognise(ctx, db); err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, m.files,
		goose.WithTableName(m.table()),
		goose.WithSessionLocker(advisoryLock{}),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "COMMENT ON TABLE "+pgx.Identifier{m.table()}.Sanitize()+" IS "+literal(m.mark))
	return err
}

// recognise compares the mark that an earlier run left in the database.
func (m migrations) recognise(ctx context.Context, db *sql.DB) error {
	var mark sql.NullString
	err := db.QueryRowContext(ctx, "SELECT obj_description(to_regclass($1), 'pg_class')",
		pgx.Identifier{m.table()}.Sanitize()).Scan(&mark)
	if err != nil {
		return fmt.Errorf("look for an earlier run: %w", err)
	}
	if mark.Valid && mark.String != m.mark {
		return fmt.Errorf("the database was migrated by another set of this name, or an applied file was changed: it has %q, the program %q", mark.String, m.mark)
	}
	return nil
}

// advisoryLock makes replicas migrate one after the other. It asks again and
// again rather than blocks in the server, where its snapshot would hold up a
// CREATE INDEX CONCURRENTLY of the one that migrates. PostgreSQL frees the lock
// when the session ends, however it ends.
type advisoryLock struct{}

func (advisoryLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		var locked bool
		err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(migrationLock)).Scan(&locked)
		if err != nil {
			return fmt.Errorf("lock the schema: %w", err)
		}
		if locked {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for another process that migrates: %w", context.Cause(ctx))
		}
	}
}

func (advisoryLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", int64(migrationLock))
	return err
}
