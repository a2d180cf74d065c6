package cdc_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chorus/cdc"
)

func (r *rig) replay(ctx context.Context, o cdc.ReplayOptions) (cdc.Replayed, error) {
	return cdc.Replay(ctx, slog.New(slog.DiscardHandler), r.cfg, o)
}

var ever = cdc.Selection{From: time.Unix(0, 0)}

// E41: rows are published again beside the publisher, marked, and the slot is
// where it was.
func TestReplayIsMarkedAndLeavesTheSlotAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(30, "1"), "2": r.insert(20, "2")}
	topic := r.read()
	topic.complete(want)
	r.waitConfirmed(r.end())
	p.stop()
	r.waitFree()
	before := r.confirmed()
	done, err := r.replay(t.Context(), cdc.ReplayOptions{Selection: ever, Name: "audit"})
	if err != nil || done.Sent != 50 || done.Total != 50 || !done.Done {
		t.Fatalf("%+v: %v", done, err)
	}
	if r.confirmed() != before {
		t.Error("the slot has moved")
	}
	topic.wait(100)
	last := map[string]int64{}
	for i, rec := range topic.all {
		mark := rec.Headers[len(rec.Headers)-1]
		if marked := mark.Key == cdc.ReplayHeader && string(mark.Value) == "audit"; marked != (i >= 50) {
			t.Fatalf("record %d has header %s: %s", i, mark.Key, mark.Value)
		}
		if i == 50 {
			clear(last)
		}
		if n := number(rec); n <= last[string(rec.Key)] {
			t.Fatalf("row %d of key %s comes behind row %d", n, rec.Key, last[string(rec.Key)])
		} else {
			last[string(rec.Key)] = n
		}
	}
}

func TestReplayByID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	numbers := r.insert(10, "1")
	id := func(n int64) string { return uuid.UUID(row(n, "").ID).String() }
	done, err := r.replay(t.Context(), cdc.ReplayOptions{Selection: cdc.Selection{IDs: []string{id(numbers[7]), id(numbers[2]), uuid.NewString()}}})
	if err != nil || done.Sent != 2 {
		t.Fatalf("%+v: %v", done, err)
	}
	topic := r.read()
	topic.wait(2)
	if a, b := number(topic.all[0]), number(topic.all[1]); a != numbers[2] || b != numbers[7] {
		t.Errorf("rows %d and %d", a, b)
	}
	if _, err := r.replay(t.Context(), cdc.ReplayOptions{}); err == nil {
		t.Error("a replay of everything, because nobody said what, is no wish")
	}
}

// A replay that was interrupted goes on where it was, also when the table was
// rewritten meanwhile, and is not begun by accident with another selection.
func TestReplayGoesOn(t *testing.T) {
	t.Parallel()
	for name, rewrite := range map[string]bool{"as it was": false, "table rewritten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var want []int64
			for range 20 {
				want = append(want, r.insert(10, "1")...)
			}
			o := cdc.ReplayOptions{Selection: ever, Name: "again", Rate: 250, State: filepath.Join(t.TempDir(), "state")}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o.Progress = func(done cdc.Replayed) {
				if done.Sent >= 60 {
					cancel()
				}
			}
			done, err := r.replay(ctx, o)
			if !errors.Is(err, context.Canceled) || done.Sent < 60 || done.Sent > 150 {
				t.Fatalf("%+v: %v", done, err)
			}
			if rewrite {
				r.exec(`VACUUM FULL outbox`)
			}
			o.Progress, o.Rate = nil, 0
			other := o
			other.To = time.Now()
			if _, err := r.replay(t.Context(), other); err == nil || !strings.Contains(err.Error(), "another replay") {
				t.Errorf("with another selection: %v", err)
			}
			if done, err = r.replay(t.Context(), o); err != nil || !done.Done {
				t.Fatalf("%+v: %v", done, err)
			}
			repeats := r.read().complete(map[string][]int64{"1": want})
			if most := map[bool]int{false: 0, true: 10}[rewrite]; repeats > most || done.Sent != 200+repeats {
				t.Errorf("%d rows twice, at most %d may be; %+v", repeats, most, done)
			}
			if _, err := r.replay(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is done") {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// Killed between an acknowledgement and its note, the batch comes again.
func TestReplayRepeatsWhatWasNotNoted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := r.insert(100, "1")
	o := cdc.ReplayOptions{Selection: ever, Rate: 100, State: filepath.Join(t.TempDir(), "state")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var noted []byte
	o.Progress = func(done cdc.Replayed) { // told before it is noted
		if done.Sent > 20 {
			noted, _ = os.ReadFile(o.State)
			cancel()
		}
	}
	if _, err := r.replay(ctx, o); err == nil {
		t.Fatal("it has come to its end")
	}
	if err := os.WriteFile(o.State, noted, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Progress, o.Rate = nil, 0
	if _, err := r.replay(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if n := r.read().complete(map[string][]int64{"1": want}); n != 20 {
		t.Errorf("%d rows twice, want the batch of 20", n)
	}
}

// The limiter's first tenth of a second is free.
func TestReplayIsSlowedDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(60, "1")
	began := time.Now()
	if _, err := r.replay(t.Context(), cdc.ReplayOptions{Selection: ever, Rate: 100}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("60 records at 100 a second took %s", took)
	}
}
