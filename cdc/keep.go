package cdc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/quarantine"
	"chorus/cdc/wal"
)

// Values of OnRefused: what becomes of a record that Kafka refuses for good.
const (
	Stop       = "stop"       // the source stands still
	Quarantine = "quarantine" // it and the later ones of its key are kept in a table
)

// kept is a session's view of the quarantine. The reader uses it; the last
// field is for others too.
type kept struct {
	source  *source
	db      *pgx.Conn
	takes   bool // records that are refused are put into it; else only those of keys that are held
	known   quarantine.Known
	pending []quarantine.Row // of the open transaction, not yet written
	bytes   int

	due atomic.Bool // somebody has asked for rows
}

// What of one transaction is written together.
const (
	pendingRows  = 500
	pendingBytes = 4 << 20
)

// openKept reads the quarantine for a session that goes on at from. Keys that
// are held stay held when on_refused is changed back: later records would
// overtake those that are kept.
func (s *source) openKept(ctx context.Context, from wal.LSN) error {
	s.kept = nil
	k := &kept{source: s, takes: s.cfg.OnRefused == Quarantine}
	if err := k.connect(ctx); err != nil {
		return err
	}
	there, err := k.table(ctx)
	if err != nil || !there {
		k.close(ctx)
		return err
	}
	if k.known, err = quarantine.Read(ctx, k.db, s.cfg.Name, from); err != nil {
		k.close(ctx)
		return err
	}
	if err := k.count(ctx); err != nil {
		k.close(ctx)
		return err
	}
	if !k.takes && k.source.quarantined.Load() == 0 {
		k.close(ctx)
		return nil
	}
	k.due.Store(true)
	s.kept = k
	return nil
}

// table makes the table when it is needed and not there.
func (k *kept) table(ctx context.Context) (there bool, err error) {
	there, mayWrite, err := quarantine.Found(ctx, k.db)
	if err == nil && !there && k.takes {
		err = quarantine.Make(ctx, k.db)
		there, mayWrite = err == nil, err == nil
	}
	switch {
	case err != nil && sqlState(err) != noPrivilege:
		return false, err
	case err != nil:
		return false, problem{fmt.Sprintf("on_refused is quarantine, and this role may not make its table (%v)", err),
			"have somebody run what chorus cdc quarantine schema prints, and GRANT " + quarantine.Rights + " ON " + quarantine.Table + " TO this role; or set on_refused: stop"}
	case there && !mayWrite && k.takes:
		return false, problem{"on_refused is quarantine, and this role may not write its table",
			"GRANT " + quarantine.Rights + " ON " + quarantine.Table + " TO this role; or set on_refused: stop"}
	}
	return there && mayWrite, nil
}

func (k *kept) connect(ctx context.Context) (err error) {
	if k.db != nil && !k.db.IsClosed() {
		return nil
	}
	k.db, err = k.source.connect(ctx)
	return err
}

func (k *kept) close(ctx context.Context) {
	if k != nil && k.db != nil {
		_ = k.db.Close(context.WithoutCancel(ctx))
	}
}

func (k *kept) count(ctx context.Context) error {
	c, err := quarantine.Counted(ctx, k.db, k.source.cfg.Name)
	k.source.quarantined.Store(c.Open)
	return err
}

// concerns tells whether a record goes to the quarantine, or is done with there,
// whatever Kafka would say of it now.
func (k *kept) concerns(at quarantine.Place, r *kgo.Record) bool {
	if len(k.known.Places) > 0 {
		if _, ok := k.known.Places[at]; ok {
			return true
		}
	}
	return len(k.known.Held) > 0 && r.Key != nil && k.known.Held[quarantine.Held{Topic: r.Topic, Key: string(r.Key)}] > 0
}

// keep puts a record of the open transaction into the quarantine, with the
// reason or, when it is behind another of its key, none. One whose place in the
// log is there already, from before a crash, is done with.
func (p *publisher) keep(ctx context.Context, r *kgo.Record, why string) error {
	k, at := p.kept, quarantine.Place{Commit: p.start, Sequence: p.sequence}
	if _, ok := k.known.Places[at]; ok {
		return nil
	}
	row := quarantine.Row{Place: at, Reason: why, Record: quarantine.Record{Topic: r.Topic, Partition: r.Partition,
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Timestamp: r.Timestamp}}
	for _, h := range r.Headers {
		row.Headers = append(row.Headers, quarantine.Header{Key: h.Key, Value: h.Value})
	}
	k.pending, k.bytes = append(k.pending, row), k.bytes+row.Bytes()
	if r.Key != nil {
		k.known.Held[quarantine.Held{Topic: r.Topic, Key: string(r.Key)}]++
	}
	p.metrics.quarantined.Inc()
	if why != "" {
		p.log.Warn("record goes to the quarantine, and the later ones of its key", "topic", r.Topic, "key", string(r.Key), "reason", why)
	}
	if len(k.pending) >= pendingRows || k.bytes >= pendingBytes {
		return p.keepPending(ctx)
	}
	return nil
}

// keepPending writes what is to be kept. It is called before anything behind it
// is sent, and before the position passes it.
func (p *publisher) keepPending(ctx context.Context) error {
	k := p.kept
	if len(k.pending) == 0 {
		return nil
	}
	err := p.insist(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, answer)
		defer cancel()
		if err := k.connect(ctx); err != nil {
			return err
		}
		return quarantine.Keep(ctx, k.db, p.cfg.Name, k.pending)
	})
	if err != nil {
		return err
	}
	p.quarantined.Add(int64(len(k.pending)))
	clear(k.pending)
	k.pending, k.bytes = k.pending[:0], 0
	return nil
}

// watchKept looks, over the connection that watches the slot, whether somebody
// has asked for rows or skipped some.
func (s *source) watchKept(ctx context.Context, db *pgx.Conn) error {
	if s.kept == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	c, err := quarantine.Counted(ctx, db, s.cfg.Name)
	if errors.Is(err, quarantine.ErrNoTable) {
		return nil // somebody has dropped it; the next session says so
	}
	if err == nil && (c.Asked > 0 || c.Open < s.quarantined.Load()) {
		s.kept.due.Store(true)
	}
	return err
}

// messageOf is the record of a row that was kept.
func messageOf(row quarantine.Row) *kgo.Record {
	r := &kgo.Record{Topic: row.Topic, Partition: row.Partition, Key: row.Key, Value: row.Value, Timestamp: row.Timestamp}
	for _, h := range row.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r
}
