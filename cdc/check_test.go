package cdc_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
	"chorus/internal/pgtest"
	"chorus/outbox"
)

func (r *rig) check() cdc.Report {
	r.t.Helper()
	report, err := cdc.Check(r.t.Context(), slog.New(slog.DiscardHandler), r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// finds fails the test unless the report has a finding of that kind whose text,
// or cure, holds what is wanted.
func finds(t *testing.T, r cdc.Report, check string, v cdc.Verdict, text string) {
	t.Helper()
	for _, f := range r.Findings {
		if f.Check == check && f.Verdict == v && (strings.Contains(f.Says, text) || strings.Contains(f.Cure, text)) {
			return
		}
	}
	t.Errorf("no %s %q with %q in\n%s", v, check, text, printed(t, r))
}

func printed(t *testing.T, r cdc.Report) string {
	t.Helper()
	var text strings.Builder
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// An outbox that is as it should be passes, before the first start and beside a
// running publisher; and check leaves no slot, no publication and no record.
func TestCheckOfAHealthySource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := map[string][]int64{"1": r.insert(3, "1")}
	for _, when := range []string{"before the first start", "while it runs", "after its end"} {
		report := r.check()
		if n := report.Problems(); n > 0 {
			t.Errorf("%s: %d problems\n%s", when, n, printed(t, report))
		}
		switch when {
		case "before the first start":
			finds(t, report, "slot", cdc.OK, "is made at the first start")
			finds(t, report, "topic", cdc.OK, "orders.events has 3 partitions")
			if r.confirmed() != 0 {
				t.Error("check made a slot")
			}
			p := r.start()
			p.waitState(cdc.CaughtUp)
			defer p.stop()
		case "while it runs":
			finds(t, report, "start", cdc.OK, "a publisher is running")
			finds(t, report, "slot", cdc.OK, "chorus cdc")
			r.exec(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1`, r.slot())
		}
	}
	if n := r.read().complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
}

func TestCheckNamesEachProblemOfADatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken, check string
		verdict       cdc.Verdict
		text          string
	}{
		"no table":              {`ALTER TABLE outbox RENAME TO elsewhere`, "table", cdc.Problem, "public.outbox does not exist"},
		"unlogged":              {`ALTER PUBLICATION outbox DROP TABLE outbox; ALTER TABLE outbox SET UNLOGGED`, "table", cdc.Problem, "SET LOGGED"},
		"column missing":        {`ALTER TABLE outbox RENAME aggregateid TO aggregate_id`, "columns", cdc.Problem, "no column aggregateid"},
		"column not published":  {`ALTER PUBLICATION outbox SET TABLE outbox (id, aggregatetype, aggregateid, type)`, "columns", cdc.Problem, "leaves out column payload"},
		"rows not published":    {`ALTER PUBLICATION outbox SET TABLE outbox WHERE (hop < 3)`, "publication", cdc.Warning, "hop < 3"},
		"inserts not published": {`ALTER PUBLICATION outbox SET (publish = 'delete')`, "start", cdc.Problem, "publish = 'insert'"},
		"table not published":   {`ALTER PUBLICATION outbox DROP TABLE outbox`, "start", cdc.Problem, "ADD TABLE"},
		"no replica identity": {`ALTER PUBLICATION outbox SET (publish = 'insert, update'); ALTER TABLE outbox REPLICA IDENTITY NOTHING`,
			"replica identity", cdc.Problem, "PostgreSQL refuses them"},
		"topic that is no name": {`INSERT INTO outbox (id, aggregatetype, aggregateid, type, hop, correlationid, causationid) VALUES (gen_random_uuid(), 'Köln', '1', 'T', 0, '', '')`, "topic", cdc.Problem, "cannot be a topic's name"},
		"topic missing":         {`INSERT INTO outbox (id, aggregatetype, aggregateid, type, hop, correlationid, causationid) VALUES (gen_random_uuid(), 'nobody', '1', 'T', 0, '', '')`, "topic", cdc.Problem, "topic nobody.events does not exist"},
		"row too large": {`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, hop, correlationid, causationid)
			 VALUES (gen_random_uuid(), 'orders', '1', 'T', repeat('x', 2000000)::bytea, 0, '', '')`, "topic", cdc.Problem, "max.message.bytes"},
		"empty outbox": {`SELECT 1`, "topic", cdc.Unknown, "the outbox is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.exec(c.broken)
			report := r.check()
			finds(t, report, c.check, c.verdict, c.text)
			if (report.Problems() > 0) != (c.verdict == cdc.Problem) {
				t.Errorf("%d problems", report.Problems())
			}
		})
	}
}

// CDC-07, told without starting a publisher.
func TestCheckFindsAPublicationYoungerThanTheSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`DROP PUBLICATION outbox`)
	r.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, r.slot())
	finds(t, r.check(), "start", cdc.Problem, "pg_drop_replication_slot")
	r.insert(1, "1")
	before := r.confirmed()
	r.exec(outbox.Schema)
	finds(t, r.check(), "publication before slot", cdc.Problem, "pg_drop_replication_slot")
	if r.confirmed() != before {
		t.Error("check moved the slot")
	}
}

func TestCheckFindsASlotOfSomebodyElse(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), newRig(t)
	other.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, other.slot())
	r.cfg.Sources[0].Slot = other.slot()
	finds(t, r.check(), "start", cdc.Problem, "is of another database")
}

func TestCheckOfARoleWithTooFewRights(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.PruneAfter = 0 // the default, which deletes
	role := r.role("LOGIN")
	report := r.check()
	finds(t, report, "replication", cdc.Problem, "may not replicate")
	finds(t, report, "rights", cdc.Problem, "GRANT SELECT")
	r.exec(`ALTER ROLE ` + role + ` REPLICATION; GRANT SELECT ON outbox TO ` + role + `; DROP PUBLICATION outbox; ALTER TABLE outbox ENABLE ROW LEVEL SECURITY`)
	report = r.check()
	finds(t, report, "replication", cdc.OK, "replicates")
	finds(t, report, "rights", cdc.Warning, "GRANT DELETE")
	finds(t, report, "publication", cdc.Problem, "may not make it")
	finds(t, report, "row security", cdc.Warning, "BYPASSRLS")
}

func TestCheckOfADebeziumConnector(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Sources[0].Debezium = map[string]string{"transforms.outbox.table.fields.additional.placement": "shard:partition,tenant:header"}
	finds(t, r.check(), "columns", cdc.Problem, "no column shard, tenant")
	r.exec(`ALTER TABLE outbox ADD shard int DEFAULT 7, ADD tenant text`)
	r.insert(1, "1")
	r.broker.CreateTopic("outbox.event.orders", 3)
	report := r.check()
	finds(t, report, "columns", cdc.OK, "")
	finds(t, report, "topic", cdc.Problem, "asks for partition 7")
}

func TestCheckOfServersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.broker.Stop()
	finds(t, r.check(), "brokers", cdc.Problem, "answers")
	r.broker.Restart()
	r.cfg.Sources[0].DSN = "postgres://nobody@" + freeAddr(t) + "/x"
	finds(t, r.check(), "connection", cdc.Problem, "refused")
}

// What is in postgresql.conf, and what the log's limit does to a slot.
func TestCheckOfAServersSettings(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	r := newRigOn(t, server.DSN())
	set := func(settings ...string) {
		t.Helper()
		for _, s := range settings {
			if _, err := r.db.Exec(t.Context(), "ALTER SYSTEM SET "+s, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
		}
		if err := server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.db = r.connect()
	}
	finds(t, r.check(), "wal_level", cdc.OK, "logical")
	set("max_slot_wal_keep_size = -1", "wal_sender_timeout = 0", "max_replication_slots = 1", "max_wal_senders = 1")
	conn, err := pgx.Connect(t.Context(), r.dsn+"&replication=database")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().Exec(t.Context(), "CREATE_REPLICATION_SLOT other TEMPORARY LOGICAL pgoutput").ReadAll(); err != nil {
		t.Fatal(err)
	}
	report := r.check()
	finds(t, report, "max_slot_wal_keep_size", cdc.Warning, "until the disk is full")
	finds(t, report, "wal_sender_timeout", cdc.Warning, "there is none")
	finds(t, report, "max_replication_slots", cdc.Problem, "0 of 1 are left")
	finds(t, report, "max_wal_senders", cdc.Problem, "all 1 are in use")
	finds(t, report, "replication", cdc.Problem, "max_wal_senders")
	if err := conn.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	set("wal_level = 'replica'")
	finds(t, r.check(), "wal_level", cdc.Problem, "restart PostgreSQL")

	set("wal_level = 'logical'", "max_slot_wal_keep_size = '1MB'", "max_replication_slots = 10", "max_wal_senders = 10")
	r.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, r.slot())
	r.exec(`CREATE TABLE filler AS SELECT repeat('x', 500) AS x FROM generate_series(1, 100000)`)
	for range 3 {
		r.exec(`SELECT pg_switch_wal()`)
		r.exec(`INSERT INTO filler VALUES ('x')`)
	}
	r.exec(`CHECKPOINT`)
	finds(t, r.check(), "start", cdc.Problem, "is lost")
}

// A limit that was lowered on the topic is the one that counts.
func TestCheckReadsTheTopicsOwnLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(1, "1")
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	limit := "200000"
	if _, err := kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &limit}}, "orders.events"); err != nil {
		t.Fatal(err)
	}
	finds(t, r.check(), "topic", cdc.OK, "takes 195.3 kB")
}
