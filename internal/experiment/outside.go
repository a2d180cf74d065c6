package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chorus/internal/cluster"
	"chorus/internal/event"
	"chorus/internal/provider/simulated"
)

// The operations of a provider.
const (
	do     = "do"
	undo   = "undo"
	lookup = "lookup"
	cancel = "cancel"
	all    = "all"
)

// processors are those that take money.
var processors = []string{simulated.PayStandard, simulated.PayHighValue}

// set has providers misbehave.
func (t *trial) set(b simulated.Behaviour, providers ...string) {
	for _, name := range providers {
		t.try("set "+name, func() error {
			_, err := t.lab.Providers.SetBehaviour(t.ctx, name, b)
			return err
		})
	}
}

// clear has everybody behave again.
func (t *trial) clear() {
	for _, name := range simulated.Names() {
		t.try("clear "+name, func() error { return t.lab.Providers.ClearBehaviour(t.ctx, name) })
	}
	t.step("The providers behave again.")
}

// requests are the calls about an order, as the providers logged them.
func (t *trial) requests(no event.OrderNo, operations ...string) (found []simulated.Request) {
	t.try("read the providers' log", func() error {
		every, err := t.lab.Providers.Requests(t.ctx, simulated.RequestFilter{Order: int64(no)})
		for _, r := range every {
			if len(operations) == 0 || slices.Contains(operations, r.Operation) {
				found = append(found, r)
			}
		}
		return err
	})
	return found
}

// calls counts the calls of an order to a provider.
func (t *trial) calls(no event.OrderNo, provider string, operations ...string) (n int) {
	for _, r := range t.requests(no, operations...) {
		if r.Provider == provider {
			n++
		}
	}
	return n
}

// undone expects who took something back, in this order.
func (t *trial) undone(no event.OrderNo, want ...string) {
	var got []string
	for _, r := range t.requests(no, undo, cancel) {
		if r.Status == 200 {
			got = append(got, r.Provider)
		}
	}
	t.expect(fmt.Sprintf("undone for order %s, in this order", no), list(want), list(got))
}

// holds expects what providers still hold for an order, and what it has been charged.
func (t *trial) holds(no event.OrderNo, want []string, net int64) {
	var got []string
	var money int64
	t.try("read the providers' ledger", func() error {
		entries, err := t.lab.Providers.Order(t.ctx, int64(no))
		for _, e := range entries {
			if e.Active > 0 && simulated.Holds(e.Provider) {
				got = append(got, e.Provider)
			}
			money += e.Net
		}
		return err
	})
	slices.Sort(got)
	slices.Sort(want)
	t.expect(fmt.Sprintf("held for order %s at the end", no), list(want), list(got))
	t.expect(fmt.Sprintf("net charge of order %s, in pence", no), fmt.Sprint(net), fmt.Sprint(money))
}

// apart is the shortest time between two calls to a provider about an order.
func (t *trial) apart(no event.OrderNo, provider string) time.Duration {
	least := time.Hour
	var before time.Time
	for _, r := range t.requests(no) {
		if r.Provider != provider {
			continue
		}
		if !before.IsZero() {
			least = min(least, r.At.Sub(before))
		}
		before = r.At
	}
	return least
}

// keys are the different idempotency keys of an order's calls to a provider.
func (t *trial) keys(no event.OrderNo, provider string) int {
	seen := map[string]bool{}
	for _, r := range t.requests(no, do) {
		if r.Provider == provider {
			seen[r.Key] = true
		}
	}
	return len(seen)
}

// reaches waits until a provider has been asked about an order.
func (t *trial) reaches(no event.OrderNo, provider string, times int) {
	t.until(fmt.Sprintf("call %d of order %s to %s", times, no, provider), func(ctx context.Context) (bool, error) {
		found, err := t.lab.Providers.Requests(ctx, simulated.RequestFilter{Order: int64(no), Provider: provider})
		return len(found) >= times, err
	})
}

// process has the supervisor do something to a process.
func (t *trial) process(action, name string) {
	back := map[string]string{cluster.ActionFreeze: cluster.ActionThaw, cluster.ActionStop: cluster.ActionStart}[action]
	if t.err == nil && back != "" {
		t.touched[name] = back // before it happens: an interruption in between is mended as well
	}
	t.try(action+" "+name, func() error {
		_, err := t.lab.Supervisor.Do(t.ctx, name, action)
		return err
	})
	if t.err == nil && back == "" {
		delete(t.touched, name)
	}
}

// kill ends a process as a crash would.
func (t *trial) kill(names ...string) {
	for _, name := range names {
		t.process(cluster.ActionKill, name)
	}
	t.step("kill -9 %s.", strings.Join(names, ", "))
}

// back waits until everybody is ready again.
func (t *trial) back() {
	t.until("all processes to be ready", func(ctx context.Context) (bool, error) {
		states, err := t.lab.Supervisor.Processes(ctx)
		return err == nil && !slices.ContainsFunc(states, func(s cluster.Status) bool { return s.State != cluster.Ready }), err
	})
	t.step("The supervisor has started it again.")
}
