package cdc_test

import (
	"testing"

	"chorus/cdc"
)

// E19, told without starting a publisher: the slot is not the one that was left.
func TestCheckComparesSlotAndPosition(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	finds(t, r.check(), "position", cdc.OK, "is made at the first start")
	p := r.start()
	p.waitState(cdc.CaughtUp)
	r.read().complete(map[string][]int64{"1": r.insert(3, "1")})
	r.waitConfirmed(r.end())
	finds(t, r.check(), "position", cdc.OK, "is the one that was left at")
	p.stop()
	finds(t, r.check(), "position", cdc.OK, "is the one that was left at")
	eventually(t, "drop of the slot", func() bool {
		_, err := r.db.Exec(t.Context(), `SELECT pg_drop_replication_slot($1)`, r.slot())
		return err == nil
	})
	finds(t, r.check(), "position", cdc.Problem, "is missing")
	r.insert(1, "1")
	r.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, r.slot())
	finds(t, r.check(), "position", cdc.Problem, "chorus cdc recover")
	r.cfg.Sources[0].PositionTable = "none"
	finds(t, r.check(), "position", cdc.Warning, "will not be noticed")
}

func TestCheckOfDeliveryAndQuarantine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Delivery = cdc.ExactlyOnce
	finds(t, r.check(), "delivery", cdc.Problem, "embedded broker")
	r.cfg.Delivery, r.cfg.OnRefused = "", cdc.Quarantine
	finds(t, r.check(), "quarantine", cdc.OK, "is made at the first start")
	p := r.start()
	p.waitState(cdc.CaughtUp)
	finds(t, r.check(), "quarantine", cdc.OK, "is there")
	role := r.role("LOGIN REPLICATION")
	r.exec(`GRANT SELECT ON outbox TO ` + role)
	finds(t, r.check(), "quarantine", cdc.Problem, "GRANT")
}
