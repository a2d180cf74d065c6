package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// standbyPoll is how often a standby asks whether the slot is free. An owner
// that is killed frees it within moments.
const standbyPoll = 200 * time.Millisecond

// inspectFree inspects, and waits while another session streams from the slot:
// a second instance is a standby of the first. It waits on the ordinary
// connection: walsenders are few, and one that only waits would keep another
// program from its own.
func (s *source) inspectFree(ctx context.Context, db *pgx.Conn) (catalog, error) {
	for {
		c, err := s.inspect(ctx, db)
		if !errors.Is(err, errSlotBusy) {
			return c, err
		}
		s.standBy(err.Error())
		if err := s.waitForSlot(ctx, db); err != nil {
			return c, err
		}
	}
}

const readOwner = `SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 AND active_pid IS NOT NULL`

// waitForSlot returns when nobody streams from the slot.
func (s *source) waitForSlot(ctx context.Context, db *pgx.Conn) error {
	ticker := time.NewTicker(standbyPoll)
	defer ticker.Stop()
	for {
		var owners int
		ask, cancel := context.WithTimeout(ctx, answer)
		err := db.QueryRow(ask, readOwner, s.cfg.Slot).Scan(&owners)
		cancel()
		switch {
		case err != nil:
			return fmt.Errorf("ask for the owner of slot %s: %w", s.cfg.Slot, err)
		case owners == 0:
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
