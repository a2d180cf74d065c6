package cdc

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/bookmark"
)

func client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(options, kgo.SeedBrokers(wire.addr()), kgo.ClientID("test"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func createTopic(t *testing.T, name string, partitions int32) {
	t.Helper()
	if _, err := kadm.NewClient(client(t)).CreateTopic(t.Context(), partitions, 1, nil, name); err != nil {
		t.Fatal(err)
	}
}

// read reads a topic from its beginning, read_committed, until done says so.
func read(t *testing.T, topic string, done func(*kgo.Record) bool) {
	t.Helper()
	c := client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("topic %s was not read to its end within %s", topic, within)
		}
		for records := fetches.RecordIter(); !records.Done(); {
			if done(records.Next()) {
				return
			}
		}
	}
}

// exactly reads the topic, and demands each committed row exactly once, those of a key in order (G2). A last row of each key is committed before:
// what is there twice lies before it.
func (r *rig) exactly() {
	r.t.Helper()
	r.insert(r.db, len(keys), keys...)
	got := map[string][]int{}
	left := len(keys)
	read(r.t, r.topic, func(rec *kgo.Record) bool {
		n, err := strconv.Atoi(strings.TrimSpace(string(rec.Value)))
		if err != nil {
			r.t.Fatalf("record %q was never committed", rec.Value)
		}
		key := string(rec.Key)
		got[key] = append(got[key], n)
		if want := r.want[key]; n == want[len(want)-1] {
			left--
		}
		return left == 0
	})
	for _, key := range keys {
		if !slices.Equal(got[key], r.want[key]) {
			r.t.Fatalf("key %s: %d records %v\nwant %d rows %v", key, len(got[key]), differ(got[key], r.want[key]), len(r.want[key]), differ(r.want[key], got[key]))
		}
	}
}

// differ is the part of a behind what it has in common with b.
func differ(a, b []int) []int {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return a[i:min(len(a), i+20)]
		}
	}
	return nil
}

// positions are those that were committed up to now, the last one behind all rows.
func (r *rig) positions() (all []bookmark.Position) {
	r.t.Helper()
	key := r.cfg.Sources[0].Name + "/" + r.cfg.Sources[0].Slot
	rows := uint64(r.next)
	read(r.t, r.cfg.PositionTopic, func(rec *kgo.Record) bool {
		if string(rec.Key) != key {
			return false
		}
		p, err := bookmark.Decode(rec.Value)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, p)
		return p.Count >= rows
	})
	return all
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
