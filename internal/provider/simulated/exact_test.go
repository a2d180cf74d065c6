package simulated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"chorus/internal/pg"
	"chorus/internal/pgtest"
)

func openStore(t *testing.T, dsn string) *store {
	t.Helper()
	pool, err := pg.Open(t.Context(), dsn, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &store{pool}
}

// The same key from many callers at once, at two processes on one database, applies once (G4).
func TestOneKeyAppliesOnceEverywhere(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	both := []*instance{start(t, dsn), start(t, dsn)}
	var wg sync.WaitGroup
	ids := make([]map[string]bool, 20)
	var mu sync.Mutex
	for key := range ids {
		ids[key] = map[string]bool{}
		for n := range 10 {
			wg.Go(func() {
				r, err := both[n%2].send(t.Context(), "POST", charges, fmt.Sprint("k", key), chargeOf(int64(key+1), "guest", 10))
				if err != nil || r.Status != 201 {
					t.Errorf("key %d: %d %s, %v", key, r.Status, r.Raw, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[key][r.Body.ID] = true
			})
		}
	}
	wg.Wait()
	for key, got := range ids {
		if len(got) != 1 {
			t.Errorf("key %d got ids %v, want one", key, got)
		}
	}
	checkBooks(t, both[0], PayStandard, 20, 20*10)
}

// checkBooks compares what is active with the accounts.
func checkBooks(t *testing.T, i *instance, provider string, active, net int64) {
	t.Helper()
	sum, err := i.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tally := range sum.Totals {
		if tally.Provider == provider && (tally.Active != active || tally.ActiveKeys != active || tally.Net != net) {
			t.Errorf("ledger has %+v, want %d active and net %d", tally, active, net)
		}
	}
	for _, a := range sum.Accounts {
		if a.Provider == provider && a.Funded-a.Balance != net {
			t.Errorf("accounts are down by %d, the charges make %d", a.Funded-a.Balance, net)
		}
	}
}

// A cancel races its request, in one process and across two: whoever wins, nothing is held in the end and the
// request knows which of the two it was.
func TestCancelAgainstDo(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	a, b := start(t, dsn), start(t, dsn)
	var applied, refusedLate atomic.Int64
	var wg sync.WaitGroup
	for n := range 100 {
		key, other := fmt.Sprint("k", n), a
		if n%2 == 1 {
			other = b
		}
		wg.Go(func() {
			r, err := a.send(t.Context(), "POST", charges, key, chargeOf(int64(n+1), "guest", 10))
			switch {
			case err == nil && r.Status == 201:
				applied.Add(1)
			case err == nil && r.Status == 409 && r.Body.Code == "cancelled":
				refusedLate.Add(1)
			default:
				t.Errorf("request %s: %d %s, %v", key, r.Status, r.Raw, err)
			}
		})
		wg.Go(func() {
			r, err := other.send(t.Context(), "POST", charges+"/by-key/"+key+"/cancel", "", "")
			if err != nil || r.Status != 200 {
				t.Errorf("cancel %s: %d %s, %v", key, r.Status, r.Raw, err)
			}
		})
	}
	wg.Wait()
	sum, err := a.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tally := range sum.Totals {
		if tally.Active != 0 || tally.Net != 0 {
			t.Errorf("after all cancels %+v is left", tally)
		}
		if tally.Currency == "EUR" && tally.Undone != applied.Load() || tally.Currency == "" && tally.Cancelled != refusedLate.Load() {
			t.Errorf("callers saw %d applied and %d refused, the ledger has %+v", applied.Load(), refusedLate.Load(), tally)
		}
	}
	if applied.Load()+refusedLate.Load() != 100 {
		t.Errorf("%d applied and %d refused, want 100 in all", applied.Load(), refusedLate.Load())
	}
	checkBooks(t, a, PayStandard, 0, 0)
}

func TestUndoRacesItself(t *testing.T) {
	t.Parallel()
	i := start(t, pgtest.Database(t))
	r := i.want(201, "", "POST", charges, "k", chargeOf(1, "ann", 10))
	var ok, already atomic.Int64
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			r, err := i.send(t.Context(), "POST", charges+"/"+r.Body.ID+"/undo", fmt.Sprint("u", n), "")
			switch {
			case err == nil && r.Status == 200:
				ok.Add(1)
			case err == nil && r.Status == 409 && r.Body.Code == "already_undone":
				already.Add(1)
			default:
				t.Errorf("undo: %d %s, %v", r.Status, r.Raw, err)
			}
		})
	}
	wg.Wait()
	if ok.Load() != 1 || already.Load() != 19 {
		t.Errorf("%d undos succeeded and %d came late, want 1 and 19", ok.Load(), already.Load())
	}
	checkBooks(t, i, PayStandard, 0, 0)
}

// One call that the database refuses does not spoil those that it was to be committed with (G11).
func TestOneBadCallDoesNotSpoilItsBatch(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	start(t, dsn)
	p := providers()[4]
	l := newLane(slog.New(slog.DiscardHandler), &p, openStore(t, dsn))
	var batch []submission
	for n, customer := range []string{"ann", "b\x00b", "cid"} {
		batch = append(batch, submission{done: make(chan outcome, 1), command: &command{
			op: do, key: fmt.Sprint("k", n), proposal: proposal{Order: 1, Customer: customer, Currency: "EUR", Amount: 1},
		}})
	}
	l.commit(t.Context(), batch)
	for n, s := range batch {
		o := <-s.done
		if bad := n == 1; bad != (o.err != nil) || !bad && o.answer.Status != 201 {
			t.Errorf("call %d: %+v, %v", n, o.answer, o.err)
		}
	}
}

func TestDatabaseKilledAndBack(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	i := start(t, server.DSN())
	i.want(201, "", "POST", charges, "k1", chargeOf(1, "ann", 10))
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	i.want(503, "internal", "POST", charges, "k2", chargeOf(2, "ann", 10))
	i.want(503, "internal", "GET", "/readyz", "", "")
	i.want(200, "", "GET", "/livez", "", "")
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitReady(t, i.base)
	until(t, "call served again", func() bool {
		r, err := i.send(t.Context(), "POST", charges, "k2", chargeOf(2, "ann", 10))
		return err == nil && r.Status == 201
	})
	checkBooks(t, i, PayStandard, 2, 20)
}

// The process is killed under load and started again, several times. Callers repeat what got no answer under the same key.
// Each key is applied once, whatever was answered is still true, and the accounts agree.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := ln.Addr().String()
	ln.Close()
	i := &instance{Client: NewClient("http://" + listen), t: t}
	child := spawn(t, dsn, listen)
	waitReady(t, i.base)

	const callers, each = 8, 60
	var answered atomic.Int64
	ids := make([]string, callers*each)
	ctx, giveUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := c * each; n < (c+1)*each && ctx.Err() == nil; {
				r, err := i.send(ctx, "POST", charges, fmt.Sprint("k", n), chargeOf(int64(n+1), "guest", 3))
				if err != nil || r.Status == 503 {
					continue // no answer: once more
				}
				if r.Status != 201 {
					t.Errorf("key %d: %d %s", n, r.Status, r.Raw)
				}
				ids[n] = r.Body.ID
				answered.Add(1)
				n++
			}
		})
	}
	defer wg.Wait()
	defer giveUp()
	for kill := int64(1); kill <= 3; kill++ {
		until(t, "load goes on", func() bool { return answered.Load() >= kill*callers*each/4 })
		child.Process.Kill()
		child.Wait()
		child = spawn(t, dsn, listen)
	}
	wg.Wait()
	waitReady(t, i.base)
	checkBooks(t, i, PayStandard, callers*each, callers*each*3)
	for n, id := range ids {
		r := i.want(200, "", "GET", charges+"/by-key/"+fmt.Sprint("k", n), "", "")
		if r.Body.ID != id || r.Body.State != "active" {
			t.Errorf("key %d was answered with %q and is found as %s", n, id, r.Raw)
		}
	}
}

func spawn(t *testing.T, dsn, listen string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CHORUS_SIMULATED_CHILD="+dsn, "CHORUS_SIMULATED_LISTEN="+listen)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// Calls in hand are finished when the process is told to end; one that hangs, or waits, is let go at once.
func TestStopFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	i := start(t, dsn)
	i.set(PayStandard, Behaviour{Operation: "do", TimeoutAfterSuccess: 1})
	i.set(PayHighValue, Behaviour{Operation: "do", LatencyMinMs: 100_000, LatencyMaxMs: 100_000})
	ended := make(chan error, 2)
	for _, path := range []string{charges, "/pay-highvalue/charges"} {
		go func() {
			_, err := i.send(t.Context(), "POST", path, "k", chargeOf(1, "ann", 5))
			ended <- err
		}()
	}
	until(t, "charge applied", func() bool { return i.entry(PayStandard, 1).Active == 1 })
	i.stop()
	for range 2 {
		if err := <-ended; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call without an answer ended with %v, want a closed connection", err)
		}
	}
	i = start(t, dsn)
	if e := i.entry(PayStandard, 1); e.Active != 1 {
		t.Errorf("ledger has %+v, want the charge that was applied", e)
	}
}
