package cdc_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
)

func (r *rig) recover(o cdc.RecoverOptions) cdc.Recovery {
	r.t.Helper()
	done, err := cdc.Recover(r.t.Context(), slog.New(slog.DiscardHandler), r.cfg, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return done
}

// content is all of a record but for its place and its time.
type content struct {
	Topic, Key, Value string
	Partition         int32
	Headers           []kgo.RecordHeader
}

func contentOf(r *kgo.Record) content {
	return content{r.Topic, string(r.Key), string(r.Value), r.Partition, r.Headers}
}

// E19: somebody made the slot anew, and what was committed in between is in no
// log. Recovered records are those of the stream: a consumer that had some of
// them sees the same bytes and the same ids.
func TestRecoverPublishesWhatTheTableHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(5, "1"), "2": r.insert(3, "2")}
	topic := r.read()
	topic.complete(want)
	p.stop()
	eventually(t, "drop of the slot", func() bool {
		_, err := r.db.Exec(t.Context(), `SELECT pg_drop_replication_slot($1)`, r.slot())
		return err == nil
	})
	want["1"] = append(want["1"], r.insert(4, "1")...)
	r.exec(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, r.slot())

	dry := r.recover(cdc.RecoverOptions{})
	if diff := cmp.Diff(cdc.Recovery{Source: "orders", Rows: 12, Topics: map[string]int{"orders.events": 12}, Oldest: dry.Oldest, Newest: dry.Newest, Notes: dry.Notes}, dry); diff != "" || dry.Oldest.IsZero() {
		t.Errorf("dry run (-want +got):\n%s", diff)
	}
	if len(dry.Notes) != 1 || !strings.Contains(dry.Notes[0], "everything before") {
		t.Errorf("notes %q, want what the position table knows", dry.Notes)
	}
	if done := r.recover(cdc.RecoverOptions{Apply: true}); !done.Applied || done.Rows != 12 {
		t.Errorf("recovered: %+v", done)
	}
	if repeats := topic.complete(want); repeats != 8 {
		t.Errorf("%d rows twice, want the 8 that had been published: the dry run must publish nothing", repeats)
	}
	streamed := map[int64]content{}
	for _, rec := range topic.all {
		n := number(rec)
		if before, ok := streamed[n]; ok {
			if diff := cmp.Diff(before, contentOf(rec)); diff != "" {
				t.Errorf("row %d (-streamed +recovered):\n%s", n, diff)
			}
		}
		streamed[n] = contentOf(rec)
	}
}

func TestRecoverTakesRowsOfATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old, young := r.insert(2, "1"), r.insert(3, "1")
	r.exec(`UPDATE outbox SET occurredat = now() - interval '2 hours' WHERE id = ANY ($1)`, [][16]byte{row(old[0], "").ID, row(old[1], "").ID})
	done := r.recover(cdc.RecoverOptions{Selection: cdc.Selection{From: time.Now().Add(-time.Hour)}, Apply: true})
	if done.Rows != 3 {
		t.Errorf("%d rows, want 3", done.Rows)
	}
	topic := r.read()
	topic.complete(map[string][]int64{"1": young})
}

// Where rows are deleted at once there is nothing, and that must be said.
func TestRecoverSaysThatDeletedRowsAreGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(3, "1")
	r.exec(`DELETE FROM outbox`)
	r.exec(`SELECT pg_stat_force_next_flush()`)
	var done cdc.Recovery
	eventually(t, "statistics of the table", func() bool {
		done = r.recover(cdc.RecoverOptions{Apply: true})
		return len(done.Notes) > 0
	})
	if done.Rows != 0 || !strings.Contains(done.Notes[0], "nothing can be recovered") {
		t.Errorf("%+v", done)
	}
}

// An old row behind newer ones of its key is no recovery.
func TestRecoverWaitsForNoPublisher(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(2, "1")}
	topic := r.read()
	topic.complete(want)
	_, err := cdc.Recover(t.Context(), slog.New(slog.DiscardHandler), r.cfg, cdc.RecoverOptions{Apply: true})
	if err == nil || !strings.Contains(err.Error(), "stop the publisher") {
		t.Errorf("beside a publisher: %v", err)
	}
	if done := r.recover(cdc.RecoverOptions{}); len(done.Notes) == 0 || !strings.Contains(done.Notes[0], "stop the publisher") {
		t.Errorf("dry run beside a publisher: %+v", done)
	}
	r.recover(cdc.RecoverOptions{Apply: true, Beside: true})
	topic.wait(4)
}

func TestRecoverOfADebeziumOutbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.broker.CreateTopic("outbox.event.orders", 3)
	r.cfg.Sources[0].Debezium = map[string]string{"transforms.outbox.table.fields.additional.placement": "type:header:eventType"}
	r.insert(2, "1")
	if _, err := cdc.Recover(t.Context(), slog.New(slog.DiscardHandler), r.cfg, cdc.RecoverOptions{Selection: cdc.Selection{From: time.Now()}}); err == nil || !strings.Contains(err.Error(), "--time-column") {
		t.Errorf("bounded by time without a column of it: %v", err)
	}
	done := r.recover(cdc.RecoverOptions{Selection: cdc.Selection{From: time.Now().Add(-time.Hour), TimeColumn: "occurredat"}, Apply: true})
	if done.Topics["outbox.event.orders"] != 2 {
		t.Errorf("%+v", done)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()), kgo.ConsumeTopics("outbox.event.orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic := &topic{t: t, client: client}
	topic.wait(2)
	if h := topic.all[0].Headers; len(h) != 2 || !slices.Contains([]string{h[0].Key, h[1].Key}, "eventType") {
		t.Errorf("headers %v", h)
	}
}

// Rows without a time come last, however many rows there are, and one of no finite time spoils nothing.
func TestRecoverTakesRowsWithoutATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(1500, "1")
	r.exec(`ALTER TABLE outbox ALTER COLUMN occurredat DROP NOT NULL`)
	r.exec(`UPDATE outbox SET occurredat = NULL WHERE ctid IN (SELECT ctid FROM outbox LIMIT 1100)`)
	r.exec(`UPDATE outbox SET occurredat = 'infinity' WHERE ctid = (SELECT max(ctid) FROM outbox WHERE occurredat IS NOT NULL)`)
	if done := r.recover(cdc.RecoverOptions{}); done.Rows != 1500 {
		t.Errorf("%d rows of 1500", done.Rows)
	}
	done := r.recover(cdc.RecoverOptions{Selection: ever})
	if done.Rows != 400 || !strings.Contains(strings.Join(done.Notes, " "), "1100 rows of table public.outbox have no occurredat") {
		t.Errorf("%d rows of the 400 with a time, notes %q", done.Rows, done.Notes)
	}
}
