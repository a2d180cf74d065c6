package cdc_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
)

// The watermark rises within a key, is the same when a row comes again, and stands behind the record's own headers.
func TestWatermark(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Watermark = true
	want := map[string][]int64{"1": r.insert(2, "1")} // older than the slot
	p := r.spawn()
	p.waitState(cdc.CaughtUp)
	began := time.Now()
	want["1"] = append(want["1"], r.insert(12, "1")...)
	want["1"] = append(want["1"], r.insert(1, "1")...)
	topic := r.read()
	topic.complete(want)
	resume := r.pause() // what comes now is sent and not confirmed
	want["1"] = append(want["1"], r.insert(3, "1")...)
	p.kill()
	resume()
	r.start()
	want["1"] = append(want["1"], r.insert(1, "1")...)
	topic.complete(want)
	mark := func(rec *kgo.Record) []byte {
		n := len(rec.Headers)
		if n < 4 || rec.Headers[0].Key != "id" || rec.Headers[n-3].Key != cdc.HeaderCommit || rec.Headers[n-2].Key != cdc.HeaderSequence || rec.Headers[n-1].Key != cdc.HeaderCommitted {
			t.Fatalf("headers %v", rec.Headers)
		}
		return append(bytes.Clone(rec.Headers[n-3].Value), rec.Headers[n-2].Value...)
	}
	marks := map[int64][]byte{}
	var last []byte
	for _, rec := range topic.all {
		m := mark(rec)
		if before, again := marks[number(rec)]; again {
			if !bytes.Equal(before, m) {
				t.Errorf("row %d has watermark %s, and %s before", number(rec), m, before)
			}
			continue
		}
		if bytes.Compare(last, m) >= 0 {
			t.Errorf("row %d has watermark %s behind %s", number(rec), m, last)
		}
		last, marks[number(rec)] = m, m
	}
	end := topic.all[len(topic.all)-1]
	at, err := time.Parse(time.RFC3339Nano, string(end.Headers[len(end.Headers)-1].Value))
	if err != nil || at.Before(began.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
		t.Errorf("committed at %s (%v)", at, err)
	}
}
