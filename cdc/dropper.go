package cdc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"chorus/cdc/wal"
)

// dropper drops old partitions beside the running publisher, one after the other.
type dropper struct {
	*source
	on        bool
	forbidden atomic.Bool // this role does not own the table
	busy      atomic.Bool
	work      sync.WaitGroup
	next      time.Time // when it may begin again
}

// share is what part of the time may go into it: a partition that is in use is
// looked through again at each try.
const share = 20

// begin drops partitions all of whose rows are below the sample's xmin, when it
// has nothing to do. They are tried once: each try may hold writers up for
// dropPatience.
func (d *dropper) begin(ctx context.Context, old []wal.Table, safe sample) {
	if len(old) == 0 || d.busy.Load() || time.Now().Before(d.next) {
		return
	}
	d.busy.Store(true)
	d.work.Go(func() {
		began := time.Now()
		err := d.drop(ctx, old, safe)
		if ctx.Err() == nil && err != nil {
			d.forbidden.Store(sqlState(err) == noPrivilege)
			d.log.Warn("drop partitions", "for good", d.forbidden.Load(), "err", err)
		}
		d.next = time.Now().Add(share * time.Since(began))
		d.busy.Store(false)
	})
}

func (d *dropper) drop(ctx context.Context, old []wal.Table, safe sample) error {
	db, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	var server string
	if err := db.QueryRow(ctx, "SELECT "+serverRun).Scan(&server); err != nil || server != safe.server {
		return err // of another server the sample says nothing
	}
	h := housekeeper{source: d.source, tries: 1}
	err = h.dropPartitions(ctx, db, old, safe.xmin)
	for _, why := range h.done.Kept {
		d.log.Debug("old partition", "kept", why)
	}
	return err
}

// end waits until nothing is done any more; its context has ended.
func (d *dropper) end() { d.work.Wait() }
