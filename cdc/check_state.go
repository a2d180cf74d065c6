package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kadm"

	"chorus/cdc/quarantine"
	"chorus/cdc/wal"
)

// checkPosition looks whether the slot is the one that was left. It reads the
// position table and, unlike a start, does not make it.
func (c *checker) checkPosition(ctx context.Context, db *pgx.Conn, conn *pgconn.PgConn, system pglogrepl.IdentifySystemResult, cat catalog) {
	const check = "position"
	if c.exactlyOnce() {
		return // it is in Kafka: checkDelivery
	}
	t, name, usable, err := c.findPositionTable(ctx, db)
	switch {
	case name == "":
		c.warn(check, "position_table: schema.name", "none is kept beside the slot: one that somebody makes anew will not be noticed")
		return
	case err != nil:
		c.unknown(check, "", "%v", err)
		return
	case t == nil:
		c.ok(check, "table %s is made at the first start, where the role may", name)
		return
	case !usable:
		c.warn(check, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s TO …", quoteTable(t.name)), "the role may not use table %s: a slot that somebody makes anew will not be noticed", t.name)
		return
	}
	left, err := t.read(ctx, db, c.cfg.Slot)
	if err == nil && left != nil && !cat.Slot {
		err = t.missing(c.cfg, left, system.SystemID)
	}
	if err == nil && left != nil && cat.Slot {
		here := position{system: system.SystemID, timeline: system.Timeline, at: cat.Confirmed}
		err = t.judge(c.cfg, left, here, func() (wal.LSN, bool, error) { return timelineEnd(ctx, conn, here.timeline, left.timeline) })
	}
	var p problem
	switch {
	case errors.As(err, &p):
		c.problem(check, p.cure, "%s", p.what)
	case err != nil:
		c.unknown(check, "", "%v", err)
	case left == nil:
		c.ok(check, "table %s says nothing of slot %s yet", t.name, c.cfg.Slot)
	default:
		c.ok(check, "slot %s is the one that was left at %s, %s", c.cfg.Slot, left.at, left.updated.UTC().Format(time.RFC3339))
	}
}

// findPositionTable finds the table without making it. name is empty for a source
// that keeps none in the database, t is nil when it is not there.
func (s *source) findPositionTable(ctx context.Context, db *pgx.Conn) (t *positionTable, name string, usable bool, err error) {
	switch name = s.cfg.PositionTable; {
	case s.exactlyOnce(), name == noPositionTable, name == "" && s.dropin != nil:
		return nil, "", false, nil
	case name == "":
		name = quoteIdentifier(defaultPositionTable)
	default:
		name = quoteTable(Source{Table: name}.table())
	}
	t = &positionTable{}
	switch err = db.QueryRow(ctx, findTable, name).Scan(&t.name.Schema, &t.name.Name, &usable); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, name, false, nil
	case err != nil:
		return nil, name, false, fmt.Errorf("find table %s: %w", name, err)
	}
	return t, name, usable, nil
}

// checkQuarantine looks for the table of records that Kafka refuses.
func (c *checker) checkQuarantine(ctx context.Context, db *pgx.Conn) {
	const check = "quarantine"
	if c.cfg.OnRefused != Quarantine {
		return
	}
	there, mayWrite, err := quarantine.Found(ctx, db)
	switch {
	case err != nil:
		c.unknown(check, "", "find its table: %v", err)
	case !there:
		c.ok(check, "table %s is made at the first start, where the role may", quarantine.Table)
	case !mayWrite:
		c.problem(check, "GRANT "+quarantine.Rights+" ON "+quarantine.Table+" TO …", "the role may not write table %s", quarantine.Table)
	default:
		c.ok(check, "table %s is there", quarantine.Table)
	}
}

// checkDelivery looks whether Kafka can do what delivery asks of it. It takes no
// transactional id: that would fence a publisher that runs.
func (c *checker) checkDelivery(ctx context.Context) {
	const check = "delivery"
	if !c.exactlyOnce() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	e := exactly{publisher: &publisher{source: c.source, out: c.out}}
	var p problem
	switch err := e.refuseEmbedded(ctx); {
	case errors.As(err, &p):
		c.problem(check, p.cure, "%s", p.what)
		return
	case err != nil:
		c.unknown(check, "", "%v", err)
		return
	}
	name := c.config.PositionTopic
	configs, err := kadm.NewClient(c.out.client).DescribeTopicConfigs(ctx, name)
	if err == nil && len(configs) > 0 {
		err = configs[0].Err
	}
	if err != nil {
		c.ok(check, "exactly-once; topic %s is made at the first start, where the publisher may", name)
		return
	}
	for _, kv := range configs[0].Configs {
		if kv.Key == "cleanup.policy" && kv.MaybeValue() != "compact" {
			c.problem(check, "set cleanup.policy=compact", "topic %s, which keeps positions, has cleanup.policy %s and would forget them", name, kv.MaybeValue())
			return
		}
	}
	c.ok(check, "exactly-once; topic %s keeps the position", name)
}
