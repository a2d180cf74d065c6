package cdc

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"chorus/cdc/wal"
)

// RecoverOptions say what is published again after a slot was lost.
type RecoverOptions struct {
	Selection
	Apply  bool // publish; without it nothing is
	Beside bool // also while a publisher streams
}

// Recovery is what Recover has found and done.
type Recovery struct {
	Source  string         `json:"source"`
	Applied bool           `json:"applied"`
	Rows    int            `json:"rows"` // that can be, or were, published again
	Topics  map[string]int `json:"topics"`
	Oldest  time.Time      `json:"oldest,omitzero"`
	Newest  time.Time      `json:"newest,omitzero"`
	Notes   []string       `json:"notes,omitempty"` // what a person has to know
}

// Print writes it for people.
func (r Recovery) Print(w io.Writer) error {
	verb := "would be published again; --apply does it"
	if r.Applied {
		verb = "published again"
	}
	fmt.Fprintf(w, "source %s: %d rows %s\n", r.Source, r.Rows, verb)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(r.Topics)) {
		fmt.Fprintf(t, "  %s\t%d\n", name, r.Topics[name])
	}
	if !r.Oldest.IsZero() {
		fmt.Fprintf(t, "  oldest\t%s\n  newest\t%s\n", r.Oldest.UTC().Format(time.RFC3339Nano), r.Newest.UTC().Format(time.RFC3339Nano))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	return nil
}

// Recover publishes what the table still holds once more, for a slot that was
// lost, dropped or made anew by somebody: what was committed in between is in no
// log any more. The records are those of the stream, with the same ids, so
// consumers that recognise ids absorb what they have had. It reads and does
// nothing else unless Apply is set.
//
// What is not in the table any more cannot be recovered, and it says so.
//
// A run that ends in between has published a part, oldest rows first; the next
// one publishes all again.
func Recover(ctx context.Context, log *slog.Logger, cfg Config, o RecoverOptions) (Recovery, error) {
	_, sources, err := prepare(log, cfg, newMetrics(prometheus.NewRegistry()))
	if err != nil {
		return Recovery{}, err
	}
	s, err := pick(sources, o.Source)
	if err != nil {
		return Recovery{}, err
	}
	r, err := s.recover(ctx, o)
	if err != nil {
		err = fmt.Errorf("recover source %s: %w", s.cfg.Name, err)
	}
	return r, err
}

func (s *source) recover(ctx context.Context, o RecoverOptions) (r Recovery, err error) {
	r = Recovery{Source: s.cfg.Name, Topics: map[string]int{}}
	db, err := s.connect(ctx)
	if err != nil {
		return r, err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	tables, err := s.narrow(ctx, db, o.Selection)
	if err != nil {
		return r, err
	}
	if err := s.mayRecover(ctx, db, o, &r); err != nil {
		return r, err
	}
	if o.From.IsZero() {
		if err := s.notePosition(ctx, db, &r); err != nil {
			return r, err
		}
	}
	reader, err := s.openTables(ctx, db, 0)
	if err != nil {
		return r, err
	}
	defer reader.close(ctx)
	var send *resender
	if o.Apply {
		out, err := newProducer(s.config, s.cfg.Name+"-recover", s.dropin, nil)
		if err != nil {
			return r, err
		}
		defer out.client.Close()
		send = &resender{out: out}
	}
	for _, t := range tables {
		if err := reader.pages(ctx, t, nil, func(row reread) error {
			r.take(row)
			if send == nil {
				return nil
			}
			return send.add(ctx, row.record)
		}); err != nil {
			return r, err
		}
		if err := s.noteLoss(ctx, db, t.table, &r); err != nil {
			return r, err
		}
		if err := t.noteUntimed(ctx, db, &r); err != nil {
			return r, err
		}
	}
	if send != nil {
		if err := send.flush(ctx); err != nil {
			return r, err
		}
		r.Applied = true
		s.log.Info("rows are published again", "rows", r.Rows)
	}
	r.noteBounds(o)
	return r, nil
}

// take counts a row.
func (r *Recovery) take(row reread) {
	r.Rows++
	r.Topics[row.record.Topic]++
	at := row.record.Timestamp
	if r.Oldest.IsZero() || at.Before(r.Oldest) {
		r.Oldest = at
	}
	if at.After(r.Newest) {
		r.Newest = at
	}
}

// mayRecover looks at the slot. Beside a publisher an old row would come behind
// new ones of its key.
func (s *source) mayRecover(ctx context.Context, db *pgx.Conn, o RecoverOptions, r *Recovery) error {
	c, err := s.cfg.catalog(ctx, db)
	switch {
	case err != nil:
		return err
	case c.ActivePID == 0 || o.Beside:
	case o.Apply:
		return fmt.Errorf("session %d streams from slot %s: rows that come behind newer ones of their key would be no recovery; stop the publisher, or say --beside", c.ActivePID, s.cfg.Slot)
	default:
		r.Notes = append(r.Notes, fmt.Sprintf("session %d streams from slot %s; stop the publisher before --apply, so that no old row comes behind newer ones of its key", c.ActivePID, s.cfg.Slot))
	}
	return nil
}

// notePosition tells from when on rows may be missing, as far as the position
// table knows.
func (s *source) notePosition(ctx context.Context, db *pgx.Conn, r *Recovery) error {
	t, _, usable, err := s.findPositionTable(ctx, db)
	if err != nil || t == nil || !usable {
		return err
	}
	left, err := t.read(ctx, db, s.cfg.Slot)
	if err == nil && left != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("at %s everything before %s was in Kafka: a --from somewhat before that time takes all that may be missing, but for rows of transactions that began earlier",
			left.updated.UTC().Format(time.RFC3339), left.at))
	}
	return err
}

const readStatistics = `
SELECT coalesce(sum(n_tup_ins), 0)::bigint, coalesce(sum(n_tup_del), 0)::bigint
  FROM pg_stat_user_tables
 WHERE relid IN (SELECT $1::regclass UNION SELECT relid FROM pg_partition_tree($1::regclass))`

// noteLoss tells of rows that were there and are not any more.
func (s *source) noteLoss(ctx context.Context, db *pgx.Conn, t wal.Table, r *Recovery) error {
	var inserted, deleted int64
	if err := db.QueryRow(ctx, readStatistics, quoteTable(t)).Scan(&inserted, &deleted); err != nil {
		return fmt.Errorf("read the statistics of table %s: %w", t, err)
	}
	if r.Rows == 0 && deleted > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("table %s holds no such row and %d of %d were deleted: where rows are deleted at once, nothing can be recovered from the outbox; "+
			"state the facts anew from the service's own tables", t, deleted, inserted))
	} else if deleted > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("of table %s %d rows were deleted since its statistics began; they cannot be recovered", t, deleted))
	}
	return nil
}

// noteUntimed tells of rows that no bound takes.
func (s selected) noteUntimed(ctx context.Context, db *pgx.Conn, r *Recovery) error {
	if s.column == "" || s.From.IsZero() && s.To.IsZero() {
		return nil
	}
	var n int64
	if err := db.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE %s IS NULL", quoteTable(s.table), quoteIdentifier(s.column))).Scan(&n); err != nil {
		return fmt.Errorf("count the rows of table %s without a time: %w", s.table, err)
	}
	if n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d rows of table %s have no %s, and a bound leaves them out; without --from and --to they come last", n, s.table, s.column))
	}
	return nil
}

// noteBounds tells when the table begins later than what was asked for.
func (r *Recovery) noteBounds(o RecoverOptions) {
	if !o.From.IsZero() && r.Rows > 0 && r.Oldest.After(o.From.Add(time.Minute)) {
		r.Notes = append(r.Notes, fmt.Sprintf("nothing is there from %s to %s: it was quiet, or the rows were deleted",
			o.From.UTC().Format(time.RFC3339), r.Oldest.UTC().Format(time.RFC3339)))
	}
}

// pages goes through the selected rows, from a place on.
func (r *tableReader) pages(ctx context.Context, s selected, after *place, do func(reread) error) error {
	rest, some := s.untimed()
	if some && after != nil && after.Time == "" {
		return r.part(ctx, rest, after, do)
	}
	if err := r.part(ctx, s, after, do); err != nil || !some {
		return err
	}
	return r.part(ctx, rest, nil, do)
}

// part goes through them in short statements: a long one would keep vacuum from
// the whole database.
func (r *tableReader) part(ctx context.Context, s selected, after *place, do func(reread) error) error {
	const limit = 1000
	idColumn := r.idColumn()
	for {
		n := 0
		if err := r.each(ctx, s.table, placeColumns, s.page(idColumn, after, limit), func(row reread) error {
			n++
			at := placeOf(row)
			after = &at
			if row.record == nil {
				return nil
			}
			return do(row)
		}); err != nil {
			return err
		}
		if err := cmp.Or(context.Cause(ctx), ctx.Err()); err != nil {
			return err
		}
		if n < limit {
			return nil
		}
	}
}
