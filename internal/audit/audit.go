// Package audit keeps what people did to the system: who, when, why, and what was so before and after.
//
// It owns the table audit in each service's database. A row is written in the transaction of the action itself, so there is no
// action without its row and no row without its action, whenever the process dies. The service's role can only insert and read, so what
// is written stays; the owner's role prunes it, if anybody does.
package audit

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
)

//go:embed schema/*.sql
var schema embed.FS

// Schema is the package's migrations, for pg.Migrate.
func Schema() fs.FS { return schema }

// Table is the one of which the service's role may only insert and read rows (pg.RestrictToInsert).
const Table = "audit"

// The actions.
const (
	Redrive = "redrive" // a dead letter was handed to its consumer again
	Discard = "discard" // a dead letter was closed unhandled
	Resolve = "resolve" // a stuck step was ended by a person's word
	Retry   = "retry"   // a stuck step's call was begun again
	Cancel  = "cancel"  // an order was cancelled by an operator
	Rewind  = "rewind"  // a consumer's place in a topic was changed
	Erase   = "erase"   // an order's personal fields were erased
)

// Entry is one action.
type Entry struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Who     string          `json:"who"`
	Action  string          `json:"action"`
	Subject string          `json:"subject"`
	Order   event.OrderNo   `json:"order,omitzero"` // 0 for none
	Why     string          `json:"why,omitempty"`
	Before  json.RawMessage `json:"before"`
	After   json.RawMessage `json:"after"`
}

// longest bounds the texts of an entry, in bytes.
const longest = 2000

// Record writes an entry in the action's transaction. before and after are what it changed, as JSON has them; they must hold no personal data, because a row is
// never erased. ID and At are the database's to set.
func Record(ctx context.Context, tx pgx.Tx, e Entry, before, after any) error {
	states := make([]string, 2)
	for i, v := range []any{before, after} {
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("audit %s of %s: %w", e.Action, e.Subject, err)
		}
		states[i] = strings.ReplaceAll(string(raw), `\u0000`, `\ufffd`) // no jsonb holds it
	}
	var order *int64
	if e.Order != 0 {
		n := int64(e.Order)
		order = &n
	}
	_, err := tx.Exec(ctx, `INSERT INTO audit (who, action, subject, order_no, why, before, after) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		clean(cmp.Or(e.Who, Unknown)), e.Action, clean(e.Subject), order, clean(e.Why), states[0], states[1])
	if err != nil {
		return fmt.Errorf("audit %s of %s: %w", e.Action, e.Subject, err)
	}
	return nil
}

// Filter chooses entries. What is zero chooses any.
type Filter struct {
	Order  event.OrderNo
	Action string
	Since  time.Time
	Before int64 // only ids below it: where the last page ended
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List returns the entries that a filter chooses, the newest first, limit at most.
func List(ctx context.Context, db Querier, f Filter, limit int) ([]Entry, error) {
	sql := `SELECT id, at, who, action, subject, coalesce(order_no, 0), why, before, after FROM audit WHERE true`
	args := []any{limit}
	add := func(wanted bool, condition string, arg any) {
		if wanted {
			args = append(args, arg)
			sql += fmt.Sprintf(" AND "+condition, len(args))
		}
	}
	add(f.Order != 0, `order_no = $%d`, int64(f.Order))
	add(f.Action != "", `action = $%d`, f.Action)
	add(!f.Since.IsZero(), `at >= $%d`, f.Since)
	add(f.Before != 0, `id < $%d`, f.Before)
	rows, _ := db.Query(ctx, sql+` ORDER BY id DESC LIMIT $1`, args...)
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	return entries, nil
}

// clean makes a text that a column takes, of bounded length.
func clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
