package cdc

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"chorus/cdc/wal"
)

// PruneOptions say what is deleted from an outbox.
type PruneOptions struct {
	Source         string        // empty when there is only one
	After          time.Duration // rows this old; the process's prune_after by default
	TimeColumn     string        // occurredat, or what the router takes for it, by default
	DropPartitions bool          // drop partitions whose rows are all that old, before rows are deleted
	Pause          time.Duration // between two batches; 100 ms by default
	Wait           time.Duration // for the slot to be confirmed as far as the table is now; a minute by default
}

// Pruned is what Prune has deleted.
type Pruned struct {
	Source     string   `json:"source"`
	Rows       int64    `json:"rows"`       // deleted one by one
	Partitions []string `json:"partitions"` // dropped
	Kept       []string `json:"kept"`       // partitions that are old and could not be dropped, and why
}

// Print writes it for people.
func (p Pruned) Print(w io.Writer) error {
	fmt.Fprintf(w, "source %s: %d rows deleted\n", p.Source, p.Rows)
	for _, name := range p.Partitions {
		fmt.Fprintf(w, "partition %s dropped\n", name)
	}
	for _, why := range p.Kept {
		fmt.Fprintf(w, "partition %s\n", why)
	}
	return nil
}

// Prune deletes what is published and old enough, once, as the running
// publisher does all the time (see pruner for how published rows are told from
// others). It is for outboxes of somebody else, which the publisher leaves
// alone, and for partitioned ones.
//
// It deletes in batches, each a transaction of its own, with pauses in between.
// Killed in between it leaves some rows for the next run.
func Prune(ctx context.Context, log *slog.Logger, cfg Config, o PruneOptions) (Pruned, error) {
	cfg, sources, err := prepare(log, cfg, newMetrics(prometheus.NewRegistry()))
	if err != nil {
		return Pruned{}, err
	}
	s, err := pick(sources, o.Source)
	if err != nil {
		return Pruned{}, err
	}
	if o.After == 0 {
		o.After = cfg.PruneAfter
	}
	if o.After < 0 {
		return Pruned{}, fmt.Errorf("prune source %s: the age %s is negative", s.cfg.Name, o.After)
	}
	if o.Pause == 0 {
		o.Pause = 100 * time.Millisecond
	}
	if o.Wait == 0 {
		o.Wait = time.Minute
	}
	h := housekeeper{source: s, options: o, tries: lockTries, done: Pruned{Source: s.cfg.Name, Partitions: []string{}, Kept: []string{}}}
	if err := h.run(ctx); err != nil {
		return h.done, fmt.Errorf("prune source %s: %w", s.cfg.Name, err)
	}
	return h.done, nil
}

type housekeeper struct {
	*source
	options PruneOptions
	tries   int // for a partition
	done    Pruned
}

func (h *housekeeper) run(ctx context.Context) error {
	db, err := h.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	// With a bound it refuses a table that has no column of time.
	tables, err := h.narrow(ctx, db, Selection{TimeColumn: h.options.TimeColumn, To: time.Now()})
	if err != nil {
		return err
	}
	safe, err := h.safeXmin(ctx, db)
	if err != nil {
		return err
	}
	for _, t := range tables {
		p := prunable{table: t.table, column: t.column, after: h.options.After}
		if h.options.DropPartitions {
			all, err := p.partitions(ctx, db)
			if err != nil {
				return err
			}
			if err := h.dropPartitions(ctx, db, all.old, safe); err != nil {
				return err
			}
		}
		for {
			n, err := p.delete(ctx, db, safe)
			if err != nil {
				return fmt.Errorf("delete from table %s: %w", p.table, err)
			}
			h.done.Rows += n
			if n < pruneBatch {
				break
			}
			if err := h.pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *housekeeper) pause(ctx context.Context) error {
	select {
	case <-time.After(h.options.Pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const readConfirmed = `SELECT coalesce(confirmed_flush_lsn - '0/0', 0)::bigint FROM pg_replication_slots WHERE slot_name = $1`

// safeXmin waits until the slot has passed what is in the log now. Rows of a
// lower xid are then published. A commit of our own moves an idle log.
func (h *housekeeper) safeXmin(ctx context.Context, db *pgx.Conn) (string, error) {
	s, err := takeSample(ctx, db)
	if err != nil {
		return "", err
	}
	if _, err := db.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
		return "", fmt.Errorf("write to the log: %w", err)
	}
	deadline := time.Now().Add(h.options.Wait)
	for {
		var confirmed int64
		if err := db.QueryRow(ctx, readConfirmed, h.cfg.Slot).Scan(&confirmed); err != nil {
			if err == pgx.ErrNoRows {
				return "", fmt.Errorf("slot %s does not exist: it is not known what is published", h.cfg.Slot)
			}
			return "", fmt.Errorf("read slot %s: %w", h.cfg.Slot, err)
		}
		if wal.LSN(confirmed) >= s.at {
			return s.xmin, nil
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("slot %s is at %s and the log at %s; does a publisher run? Only what is confirmed is deleted", h.cfg.Slot, wal.LSN(confirmed), s.at)
		}
		if err := h.pause(ctx); err != nil {
			return "", err
		}
	}
}
