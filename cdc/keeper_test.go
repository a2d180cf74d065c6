package cdc

import (
	"testing"
	"time"
)

// Rows are kept at once, a megabyte too; the small steps of an idle database, of
// which our own writing makes one each time, less and less often.
func TestKeeperIsDue(t *testing.T) {
	t.Parallel()
	k := newKeeper(nil, "s", position{at: 1000}, 1000, true, time.Second)
	now := k.next.Add(-k.wait)
	if k.due(1000, now) || k.due(1001, now) {
		t.Fatal("due at once without rows")
	}
	k.published(1100)
	if k.due(1000, now) || !k.due(1050, now) {
		t.Fatal("rows are on their way: their position is due as soon as it moves")
	}
	k.written.Store(1100)
	if !k.due(1100+quietStep, now) {
		t.Fatal("a megabyte is due")
	}
	k.written.Store(1100 + quietStep)
	var writes []time.Duration
	at := k.written.Load()
	for i := range 3600 {
		if k.due(2_000_000, now.Add(time.Duration(i)*time.Second)) {
			writes = append(writes, time.Duration(i)*time.Second)
			at += 10
			k.written.Store(at)
		}
	}
	if len(writes) < 5 || len(writes) > 20 || writes[0] != 10*time.Second {
		t.Fatalf("writes of an idle hour: %v", writes)
	}
}

// What this process knows and the server does not is written before the slot is
// told of it.
func TestKeeperOfAServerThatHasForgotten(t *testing.T) {
	t.Parallel()
	k := newKeeper(nil, "s", position{at: 2000}, 1000, true, time.Second)
	if at := k.limit(2000); at != 1000 {
		t.Errorf("the slot is told of %s, and 1000 is written", at)
	}
	if !k.due(2000, k.next.Add(-k.wait)) {
		t.Error("it is not due at once")
	}
}
