package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/outside"
	"chorus/internal/pg"
)

// bare makes as many requests without any intent: what the machine, the client and the provider allow at most.
func (r *rig) bare(ctx context.Context, calls, concurrency int) (sample, error) {
	begun, used := time.Now(), cpu()
	work := make(chan int)
	failed := make(chan error, concurrency)
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for range work {
				if err := post(ctx, r.outside.url+"/charges"); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for n := range calls {
		select {
		case work <- n:
		case err := <-failed:
			return sample{}, err
		}
	}
	close(work)
	wg.Wait()
	return rated(calls, begun, used), nil
}

func rated(calls int, begun time.Time, used time.Duration) sample {
	return sample{rate: float64(calls) / time.Since(begun).Seconds(), cpu: (cpu() - used) / time.Duration(calls)}
}

func post(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(`{"order":8842,"customer":"ada","amount":2450,"currency":"GBP","lines":[{"name":"TEAPOT","quantity":1,"amount":2450}]}`)))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// sustained plans calls and waits until all have ended. The first are under way while the last are planned, as in a service.
func (r *rig) sustained(ctx context.Context, calls int) (sample, error) {
	first := r.next
	begun, used, database := time.Now(), cpu(), cpuOf(r.postgres)
	for planned := 0; planned < calls; planned += 500 {
		if err := r.plan(ctx, min(500, calls-planned)); err != nil {
			return sample{}, err
		}
	}
	for {
		var left int
		err := r.pool.QueryRow(ctx, "SELECT count(*) FROM calls WHERE provider = 'pay' AND ended_at IS NULL").Scan(&left)
		if err != nil {
			return sample{}, err
		}
		if left == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	s := rated(calls, begun, used)
	s.database = (cpuOf(r.postgres) - database) / time.Duration(calls)
	return s, r.verify(ctx, first, calls)
}

// verify makes a run count only when every call succeeded at its first attempt and has both rows of it.
func (r *rig) verify(ctx context.Context, first event.OrderNo, calls int) error {
	var succeeded, rows int
	err := r.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM calls WHERE order_no >= $1 AND outcome = 'SUCCEEDED' AND exchanges = 1),
		       (SELECT count(*) FROM call_attempts JOIN calls ON id = call_id WHERE order_no >= $1)`, int64(first)).Scan(&succeeded, &rows)
	if err == nil && (succeeded != calls || rows != 2*calls) {
		err = fmt.Errorf("of %d calls %d succeeded at once, with %d rows of attempts", calls, succeeded, rows)
	}
	return err
}

func (r *rig) plan(ctx context.Context, n int) error {
	some := make([]intent.Planned, n)
	for i := range some {
		order := r.next
		r.next++
		some[i] = intent.Planned{Order: order, Intent: decision.Intent{
			Step: event.PaymentStep, Op: decision.Do, Provider: "pay", Deadline: time.Now().Add(15 * time.Minute),
			Body: charge(order),
		}}
	}
	var begun *intent.Begun
	if err := pg.InTx(ctx, r.pool, "plan", func(tx pgx.Tx) (err error) {
		begun.Drop()
		begun, err = r.workers.Plan(ctx, tx, some)
		return err
	}); err != nil {
		begun.Drop()
		return err
	}
	begun.Go()
	return nil
}

func charge(order event.OrderNo) outside.Charge {
	return outside.Charge{Order: order, Customer: "ada", Amount: 2450, Currency: "GBP", Lines: []outside.Priced{{Name: "TEAPOT", Quantity: 1, Amount: 2450}}}
}

// wakeUps plans one call after the other and returns how long each took from the commit to the provider, sorted.
func (r *rig) wakeUps(ctx context.Context, n int) ([]time.Duration, error) {
	r.outside.note(true)
	defer r.outside.note(false)
	var waits []time.Duration
	for range n {
		if err := r.plan(ctx, 1); err != nil {
			return nil, err
		}
		committed := time.Now()
		select {
		case at := <-r.outside.arrived:
			waits = append(waits, max(0, at.Sub(committed)))
		case <-time.After(10 * time.Second):
			return nil, fmt.Errorf("a call did not arrive within 10 s of its commit")
		}
	}
	slices.Sort(waits)
	return waits, nil
}

// fill stores ended calls until there are n.
func (r *rig) fill(ctx context.Context, n int) error {
	if _, err := r.pool.Exec(ctx, "SET statement_timeout = 0"); err != nil {
		return err
	}
	for {
		var stored int
		if err := r.pool.QueryRow(ctx, "SELECT count(*) FROM calls").Scan(&stored); err != nil || stored >= n {
			return err
		}
		_, err := r.pool.Exec(ctx, `
			INSERT INTO calls (order_no, step, op, generation, key, provider, reference, reason, state, phase, hop, traceparent, tracestate, outcome, ended_at)
			SELECT 1e12 + n, 'payment', 'do', 0, 'filled-' || n, 'pay', '', '', '{"op":"do","phase":"OVER"}', 'OVER', 0, '', '', 'SUCCEEDED', now()
			  FROM generate_series($1::bigint + 1, LEAST($2::bigint, $1::bigint + 20000)) AS n`, stored, n)
		if err != nil {
			return err
		}
	}
}
