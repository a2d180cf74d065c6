package cdc

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"chorus/cdc/bookmark"
	"chorus/cdc/wal"
)

// firstRows is exactly-once delivery of the rows that are older than the slot.
// They, and the position at which the slot begins, are one Kafka transaction,
// and no transaction spans Kafka and PostgreSQL, so:
//
//  1. a position that says First is committed;
//  2. the rows are published in a second transaction, which stays open;
//  3. the slot is made;
//  4. the position of the slot is added, and the transaction committed.
//
// A crash before 4 leaves First, and none of the rows: the next start drops the
// slot, if there is one, and does all again. After 4 all is done.
type firstRows struct {
	exactly
	here bookmark.Position
	open *transaction
}

// beginFirst makes the producer for the rows that are older than the slot, and
// with exactly-once does step 1; without it first is nil. The caller owns the
// slot that is being made. A source that was published before has lost its
// slot, and with it perhaps rows: it is not begun anew in silence.
func (s *source) beginFirst(ctx context.Context, conn *pgconn.PgConn) (*producer, *firstRows, error) {
	system, err := pglogrepl.IdentifySystem(ctx, conn)
	if err != nil {
		return nil, nil, fmt.Errorf("identify system: %w", err)
	}
	out, err := s.newProducer(s.transactional(system.SystemID, firstRowsTimeout))
	if err != nil || !s.exactlyOnce() {
		return out, nil, err
	}
	f := &firstRows{exactly: exactly{publisher: &publisher{source: s, out: out}}}
	f.here = bookmark.Position{System: system.SystemID, Timeline: system.Timeline, Slot: s.cfg.Slot}
	if err := f.begin(ctx); err != nil {
		out.client.Close()
		return nil, nil, err
	}
	return out, f, nil
}

func (f *firstRows) begin(ctx context.Context) error {
	found, ok, err := f.claim(ctx)
	if err != nil {
		return err
	}
	if ok && !found.First {
		return problem{fmt.Sprintf("slot %s is gone, and the source is in Kafka up to %s", f.cfg.Slot, found.End),
			"publish what is missing (chorus cdc recover) and name a new slot; a new name alone publishes all rows that the table still holds"}
	}
	begun := f.here
	begun.First = true
	if err := f.transact(ctx, begun, nil); err != nil {
		return err
	}
	f.open, err = f.beginTransaction()
	return err
}

// commit does step 4: all rows are acknowledged and the slot is made at a
// position; 0 is a source that has none and begins anew at each start.
func (f *firstRows) commit(ctx context.Context, at wal.LSN, rows int) error {
	if f == nil {
		return nil
	}
	done := f.here.Through(at)
	done.Count, done.First = uint64(rows), at == 0
	f.open.produce(f.topic.record(done))
	return f.open.commit(ctx)
}
