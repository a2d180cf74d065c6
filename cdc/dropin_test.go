package cdc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chorus/cdc"
	"chorus/internal/brokertest"
	"chorus/internal/pgtest"
)

// foreign is somebody else's outbox, of Debezium's documentation, and a publisher
// of it.
type foreign struct {
	rig
	options map[string]string
}

const documentedOutbox = `
CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,
  type varchar(255) NOT NULL, payload jsonb)`

func newForeign(t *testing.T, options map[string]string) *foreign {
	t.Helper()
	return newForeignOn(t, pgtest.Database(t), options)
}

func newForeignOn(t *testing.T, dsn string, options map[string]string) *foreign {
	t.Helper()
	f := &foreign{rig: rig{t: t, dsn: dsn, broker: brokertest.Start(t, map[string]int32{"outbox.event.order": 3})}}
	f.db = f.connect()
	f.exec(documentedOutbox)
	var name string
	if err := f.db.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	f.options = map[string]string{}
	for k, v := range options {
		f.options[k] = v
	}
	f.cfg = cdc.Config{
		Sources:        []cdc.Source{{Name: "shop", DSN: f.dsn, Slot: "chorus_" + name, Debezium: f.options}},
		Brokers:        []string{f.broker.Addr()},
		StatusInterval: 50 * time.Millisecond,
		SpillDir:       t.TempDir(),
	}
	return f
}

func (f *foreign) place(n int, payload string) {
	f.t.Helper()
	f.exec(fmt.Sprintf(`INSERT INTO outbox VALUES ('00000000-0000-4000-8000-%012d', 'order', 'o-1', 'Placed', '%s')`, n, payload))
}

// values waits for n records and returns their values.
func (f *foreign) values(n int) []string {
	f.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.broker.Addr()), kgo.ConsumeTopics("outbox.event.order"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	c := &topic{t: f.t, client: client}
	c.wait(n)
	var values []string
	for _, r := range c.all {
		values = append(values, string(r.Value))
	}
	return values
}

// A source of our own configuration needs no more than debezium: {}; rows that
// are older than the slot come first.
func TestDropInFromYAML(t *testing.T) {
	t.Parallel()
	f := newForeign(t, nil)
	f.place(1, `{"n":1}`)
	file := filepath.Join(t.TempDir(), "cdc.yaml")
	if err := os.WriteFile(file, []byte("sources:\n- name: shop\n  dsn: "+f.dsn+"\n  slot: "+f.slot()+"\n  debezium: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.cfg.Sources, f.cfg.File = nil, file
	p := f.start()
	p.waitState(cdc.CaughtUp)
	f.place(2, `{"n":2}`)
	if diff := cmp.Diff([]string{`{"n": 1}`, `{"n": 2}`}, f.values(2)); diff != "" {
		t.Error(diff)
	}
}

// initial_only publishes what is there, leaves no slot, and is done.
func TestSnapshotOnly(t *testing.T) {
	t.Parallel()
	f := newForeign(t, map[string]string{"snapshot.mode": "initial_only"})
	f.place(1, `1`)
	p := f.start()
	p.waitState(cdc.CaughtUp)
	f.place(2, `2`)
	if diff := cmp.Diff([]string{`1`}, f.values(1)); diff != "" {
		t.Error(diff)
	}
	if at := f.confirmed(); at != 0 {
		t.Errorf("a slot is left at %X", at)
	}
	p.stop()
}

// A slot that Debezium made is taken over at its confirmed position: nothing
// before it comes again, there is no second snapshot, and nothing after it is
// missing.
func TestSlotOfDebeziumIsTakenOver(t *testing.T) {
	t.Parallel()
	f := newForeign(t, map[string]string{"publication.name": "dbz_publication"})
	f.place(1, `"before the slot"`)
	f.exec(`CREATE PUBLICATION dbz_publication FOR TABLE outbox`)
	f.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, f.slot())
	f.place(2, `"confirmed"`)
	f.exec(`SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())`, f.slot())
	f.place(3, `"not confirmed"`)
	f.place(4, `"nor this"`)
	f.start().waitState(cdc.CaughtUp)
	f.place(5, `"new"`)
	if diff := cmp.Diff([]string{`"not confirmed"`, `"nor this"`, `"new"`}, f.values(3)); diff != "" {
		t.Error(diff)
	}
}

// Nothing overtakes a row that cannot be published, and the position stays
// before it; with errors.tolerance=all it is dropped.
func TestDropInHoldsAtARow(t *testing.T) {
	t.Parallel()
	for name, tolerance := range map[string]string{"held": "none", "dropped": "all"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForeign(t, map[string]string{"errors.tolerance": tolerance})
			p := f.start()
			p.waitState(cdc.CaughtUp)
			f.place(1, `1`)
			f.exec(`INSERT INTO outbox VALUES ('00000000-0000-4000-8000-000000000002', 'no topic', 'o-1', 'Placed', '2')`)
			refused := f.end()
			f.place(3, `3`)
			if tolerance == "all" {
				if diff := cmp.Diff([]string{`1`, `3`}, f.values(2)); diff != "" {
					t.Error(diff)
				}
				f.waitConfirmed(f.end())
				return
			}
			p.waitStalled("cannot be a topic's name")
			if diff := cmp.Diff([]string{`1`}, f.values(1)); diff != "" {
				t.Error(diff)
			}
			if at := f.confirmed(); at >= refused {
				t.Errorf("confirmed %X, beyond the refused row", at)
			}
		})
	}
}

// Logical messages and rows of a table come in the order of commits; a message
// outside of transactions at once. After a restart none comes again.
func TestMessagesAndRowsInCommitOrder(t *testing.T) {
	t.Parallel()
	f := newForeign(t, map[string]string{
		"transforms":                  "decode,outbox",
		"transforms.decode.type":      "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent",
		"message.prefix.include.list": "outbox",
	})
	message := func(db *pgx.Conn, transactional bool, n int) {
		t.Helper()
		content, err := json.Marshal(map[string]string{"id": fmt.Sprint("m-", n), "aggregatetype": "order", "aggregateid": "o-1", "payload": fmt.Sprint(n)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), `SELECT pg_logical_emit_message($1::boolean, 'outbox', $2::text)`, transactional, string(content)); err != nil {
			t.Fatal(err)
		}
	}
	p := f.start()
	p.waitState(cdc.CaughtUp)
	open := f.connect()
	if _, err := open.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	message(open, true, 3)
	message(open, false, 1)
	f.place(2, `2`)
	if _, err := open.Exec(t.Context(), `INSERT INTO outbox VALUES ('00000000-0000-4000-8000-000000000004', 'order', 'o-1', 'Placed', '4')`); err != nil {
		t.Fatal(err)
	}
	message(open, true, 5)
	if _, err := open.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	message(f.db, false, 6)
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5", "6"}, f.values(6)); diff != "" {
		t.Error(diff)
	}
	f.exec(`SELECT pg_logical_emit_message(true, 'other', 'no JSON')`)
	f.waitConfirmed(f.end())
	p.stop()
	f.start().waitState(cdc.CaughtUp)
	f.place(7, `7`)
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5", "6", "7"}, f.values(7)); diff != "" {
		t.Error(diff)
	}
}

// A two-phase transaction is published when its second phase commits it, in that
// order, and never when it is rolled back.
func TestTwoPhaseCommit(t *testing.T) {
	t.Parallel()
	f := newForeignOn(t, twoPhaseDatabase(t), nil)
	f.start().waitState(cdc.CaughtUp)
	for _, two := range []struct {
		id          int
		name, value string
	}{{1, "later", `"later"`}, {2, "never", `"never"`}} {
		f.exec(`BEGIN`)
		f.place(two.id, two.value)
		f.exec(`PREPARE TRANSACTION '` + two.name + `'`)
	}
	f.place(3, `"meanwhile"`)
	f.exec(`ROLLBACK PREPARED 'never'`)
	f.exec(`COMMIT PREPARED 'later'`)
	f.place(4, `"last"`)
	if diff := cmp.Diff([]string{`"meanwhile"`, `"later"`, `"last"`}, f.values(3)); diff != "" {
		t.Error(diff)
	}
}

// What would change the records ends the start, with the way to go on.
func TestDropInRefusesOptions(t *testing.T) {
	t.Parallel()
	connector := map[string]any{"name": "shop", "config": map[string]any{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "shop", "database.hostname": "h", "database.dbname": "d",
		"database.user": "u", "database.password": "hidden", "tasks.max": 1, "column.mask.with.3.chars": "public.outbox.payload",
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter"}}
	text, err := json.Marshal(connector)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "connector.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	err = cdc.Run(context.Background(), slog.New(slog.DiscardHandler), cdc.Config{File: file, Brokers: []string{"127.0.0.1:1"}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"--ignore-option=column.mask.with.3.chars", "value.converter"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not speak of %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hidden") {
		t.Errorf("shows the password: %v", err)
	}
}

// A captured table that the router is not for is named, not passed over.
func TestDropInNamesATableThatIsNotRouted(t *testing.T) {
	t.Parallel()
	f := newForeign(t, map[string]string{
		"table.include.list":               "public.outbox,public.customer",
		"transforms.outbox.predicate":      "isOutbox",
		"predicates":                       "isOutbox",
		"predicates.isOutbox.type":         "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
		"predicates.isOutbox.pattern":      `shop\.public\.outbox`,
		"publication.autocreate.mode":      "filtered",
		"transforms.outbox.route.by.field": "aggregatetype",
	})
	f.exec(`CREATE TABLE customer (id int PRIMARY KEY)`)
	p := f.start()
	p.waitStalled("--ignore-option=transforms.outbox.predicate")
	f.exec(`DROP TABLE customer`)
	p.waitState(cdc.CaughtUp)
}

// A table that is renamed while the publisher runs, or was for a while, is the same table: no row of it is passed over in silence. Renamed away it is missing at a start.
func TestDropInKeepsToARenamedTable(t *testing.T) {
	t.Parallel()
	f := newForeign(t, map[string]string{"table.include.list": "public.outbox", "publication.autocreate.mode": "filtered"})
	p := f.start()
	p.waitState(cdc.CaughtUp)
	f.place(1, `1`)
	f.values(1) // it has been announced under its name
	f.exec(`ALTER TABLE outbox RENAME TO elsewhere`)
	under := func(n int) {
		f.exec(fmt.Sprintf(`INSERT INTO elsewhere VALUES ('00000000-0000-4000-8000-%012d', 'order', 'o-1', 'Placed', '%[1]d')`, n))
	}
	under(2)
	f.values(2)
	p.stop()
	under(3)
	p = f.start()
	p.waitStalled("no table of the database is captured")
	f.exec(`ALTER TABLE elsewhere RENAME TO outbox`)
	p.waitState(cdc.CaughtUp)
	f.place(4, `4`)
	if diff := cmp.Diff([]string{`1`, `2`, `3`, `4`}, f.values(4)); diff != "" {
		t.Error(diff)
	}
}

// A topic that is not there is made by the broker, as a producer's first use
// makes it, or by topic.creation.default.*.
func TestDropInTopicsAreMade(t *testing.T) {
	t.Parallel()
	f := newForeign(t, map[string]string{"transforms.outbox.route.topic.replacement": "made.${routedByValue}"})
	var once sync.Once
	made := make(chan struct{})
	f.broker.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if r.(*kmsg.MetadataRequest).AllowAutoTopicCreation {
			once.Do(func() {
				go func() {
					defer close(made)
					f.broker.CreateTopic("made.order", 2)
				}()
			})
		}
		return nil, nil, false
	})
	p := f.start()
	p.waitState(cdc.CaughtUp)
	f.place(1, `1`)
	f.waitConfirmed(f.end())
	<-made
	p.stop()
	f.options["topic.creation.default.partitions"] = "4"
	f.options["transforms.outbox.route.topic.replacement"] = "new.${routedByValue}"
	f.start().waitState(cdc.CaughtUp)
	f.place(2, `2`)
	f.waitConfirmed(f.end())
	client, err := kgo.NewClient(kgo.SeedBrokers(f.broker.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(t.Context(), "made.order", "new.order")
	if err != nil || len(topics["made.order"].Partitions) != 2 || len(topics["new.order"].Partitions) != 4 {
		t.Errorf("%v, %v", topics, err)
	}
}
