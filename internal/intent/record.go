package intent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/pg"
	"chorus/internal/provider"
)

// finished is a claimed call with what has become of it.
type finished struct {
	claimed
	result   decision.Result
	exchange provider.Exchange
	next     decision.Call // the state after it
	asked    time.Duration // for how long the provider wants to be left alone
	wait     time.Duration // until the next exchange
	problem  string
	unsent   bool // its start is on record and nothing was sent
}

// ends reports whether the answer goes to the door and ends the call. One with a problem waits.
func (f *finished) ends() bool { return f.next.Phase == decision.Over && f.problem == "" }

// exchanged reports whether there is a start row that needs its end row.
func (f *finished) exchanged() bool { return f.begins || f.crashed }

// record takes what has finished, as much as there is at a time, until the channel is closed.
func (w *Workers) record(ctx context.Context) {
	records := &trouble{log: w.log, what: "recording calls"}
	for f := range w.done {
		batch := []finished{f}
		for more := true; more && len(batch) < maxBatch; {
			select {
			case f, open := <-w.done:
				if more = open; open {
					batch = append(batch, f)
				}
			default:
				more = false
			}
		}
		began := time.Now()
		w.recordBatch(ctx, batch, records)
		if slices.ContainsFunc(batch, func(f finished) bool { return !f.ends() }) {
			w.wakeLanes() // they know when the next exchange of each is due
		}
		breathe(ctx, time.Since(began), w.many)
	}
}

// recordBatch brings a batch into the database, one by one when it does not go together. It gives up
// only at the end of ctx: without the database no worker can do anything anyway.
func (w *Workers) recordBatch(ctx context.Context, batch []finished, records *trouble) {
	err := w.commit(ctx, batch)
	for pg.Transient(err) && ctx.Err() == nil {
		records.rest(ctx, err)
		err = w.commit(ctx, batch)
	}
	switch {
	case err == nil:
		records.over()
	case ctx.Err() != nil:
		w.log.Warn("calls are left to their next worker: the process ends", "calls", len(batch), "err", err)
	case len(batch) > 1:
		for i := range batch {
			w.recordBatch(ctx, batch[i:i+1], records)
		}
	case errors.Is(err, ErrLeaseLost):
		w.log.Warn("a call was taken over or is recorded already", "order", batch[0].order, "key", batch[0].key)
	case batch[0].ends():
		w.setAside(ctx, batch[0], err, records)
	default:
		w.log.Error("the end of an exchange cannot be recorded", "order", batch[0].order, "key", batch[0].key, "err", err)
	}
}

// setAside records the end of a call whose answer the door does not take, so that the provider's word is not
// lost; the answer is brought again later.
func (w *Workers) setAside(ctx context.Context, f finished, refused error, records *trouble) {
	w.log.Error("the answer of a call is not taken; it is brought again", "order", f.order, "key", f.key, "err", refused)
	f.problem, f.wait = refused.Error(), w.cfg.Rest
	w.recordBatch(ctx, []finished{f}, records)
}

// commit is one transaction: the end rows, the new states, and through the door all that follows from calls that end.
func (w *Workers) commit(ctx context.Context, batch []finished) error {
	var answers []Answer
	for _, f := range batch {
		if f.ends() {
			answers = append(answers, Answer{
				Order:    f.order,
				Answered: decision.Answered{Step: f.step, Op: f.next.Op, Outcome: f.next.Outcome},
				Cause:    f.cause,
			})
		}
	}
	rows, err := newEndRows(batch)
	if err != nil {
		return err
	}
	fence := func(ctx context.Context, tx pgx.Tx) error { return rows.write(ctx, tx, w.owner) }
	if len(answers) > 0 {
		return w.door.Answer(ctx, answers, fence)
	}
	return pg.InTx(ctx, w.pool, "record calls", func(tx pgx.Tx) error { return fence(ctx, tx) })
}

// endRows are the columns to write for a batch.
type endRows struct {
	ids, tokens                      []int64
	states, phases, outcomes, faults []string
	ended                            []bool
	waits                            []float64 // seconds

	attempted, ns                                  []int64
	kinds, headers, bodies, results, reasons, errs []string
	statuses                                       []*int32
	durations                                      []float64 // ms

	pauses map[string]float64 // seconds, by provider
}

func newEndRows(batch []finished) (*endRows, error) {
	r := &endRows{pauses: map[string]float64{}}
	for i := range batch {
		f := &batch[i]
		state, err := json.Marshal(f.next)
		if err != nil {
			return nil, fmt.Errorf("encode the state of call %s: %w", f.key, err)
		}
		r.ids = append(r.ids, f.id)
		r.tokens = append(r.tokens, f.token)
		r.states = append(r.states, string(state))
		r.phases = append(r.phases, string(f.next.Phase))
		r.outcomes = append(r.outcomes, string(f.next.Outcome.Kind))
		r.faults = append(r.faults, storable([]byte(f.problem)))
		r.ended = append(r.ended, f.ends())
		r.waits = append(r.waits, f.wait.Seconds())
		if f.exchanged() {
			r.attempt(f)
		}
		if d := f.asked.Seconds(); d > 0 {
			r.pauses[f.provider] = max(r.pauses[f.provider], d)
		}
	}
	return r, nil
}

func (r *endRows) attempt(f *finished) {
	r.attempted = append(r.attempted, f.id)
	r.ns = append(r.ns, int64(f.n))
	r.kinds = append(r.kinds, string(f.call.Phase))
	r.headers = append(r.headers, encodeHeaders(f.exchange.Header))
	r.bodies = append(r.bodies, storable(f.exchange.Body))
	r.results = append(r.results, string(f.result.Kind))
	r.reasons = append(r.reasons, storable([]byte(f.result.Reason)))
	r.errs = append(r.errs, storable([]byte(f.exchange.Err)))
	var status *int32
	if f.exchange.Status != 0 {
		s := int32(f.exchange.Status)
		status = &s
	}
	r.statuses = append(r.statuses, status)
	r.durations = append(r.durations, float64(f.exchange.Duration.Microseconds())/1000)
}

// recordSQL finds nothing where the lease is another's, or where this very record was made already: that raised the token. It does not ask for ended_at, although a call that has
// ended must not be recorded again, because the planner would then take the index of open calls, and compare each of them with each of the batch. A call that waits for its next
// attempt is due with its deadline at the latest, to be ended.
const recordSQL = `
	UPDATE calls AS c
	   SET state = v.state::jsonb, phase = v.phase, running = false,
	       lease_owner = NULL, lease_token = c.lease_token + 1,
	       due_at = LEAST(now() + v.wait * interval '1 second',
	                      CASE WHEN v.phase = 'ATTEMPT' AND c.op IN ('do', 'look') AND c.deadline IS NOT NULL THEN GREATEST(c.deadline, now()) END),
	       outcome = NULLIF(v.outcome, ''), problem = NULLIF(v.problem, ''),
	       ended_at = CASE WHEN v.ended THEN clock_timestamp() END
	  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::float8[])
	    AS v (id, token, state, phase, outcome, problem, ended, wait)
	 WHERE c.id = v.id AND c.lease_token = v.token`

// write is the fence: it writes only if every lease of the batch is still ours, and gives the leases up.
func (r *endRows) write(ctx context.Context, tx pgx.Tx, owner string) error {
	tag, err := tx.Exec(ctx, recordSQL, r.ids, r.tokens, r.states, r.phases, r.outcomes, r.faults, r.ended, r.waits)
	if err != nil {
		return fmt.Errorf("record the state of %d calls: %w", len(r.ids), err)
	}
	if tag.RowsAffected() != int64(len(r.ids)) {
		return fmt.Errorf("record %d calls, %d of them ours: %w", len(r.ids), tag.RowsAffected(), ErrLeaseLost)
	}
	if len(r.attempted) > 0 {
		if err := r.insertEnds(ctx, tx, owner); err != nil {
			return fmt.Errorf("record the end of %d exchanges: %w", len(r.attempted), err)
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(r.pauses)) { // sorted, so that two workers who pause the same providers do not wait for each other in a ring
		seconds := r.pauses[provider]
		if err := extendPause(ctx, tx, provider, seconds); err != nil {
			return fmt.Errorf("record the pause of %s: %w", provider, err)
		}
	}
	return nil
}

func (r *endRows) insertEnds(ctx context.Context, tx pgx.Tx, owner string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO call_attempts (call_id, n, part, kind, owner, headers, status, body, result, reason, error, duration_ms)
		SELECT call_id, n, 'end', kind, $11, headers::jsonb, status, NULLIF(body, ''), result, NULLIF(reason, ''), NULLIF(error, ''), duration
		  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::text[], $9::text[], $10::float8[])
		    AS e (call_id, n, kind, headers, status, body, result, reason, error, duration)`,
		r.attempted, r.ns, r.kinds, r.headers, r.statuses, r.bodies, r.results, r.reasons, r.errs, r.durations, owner)
	return err
}

// extendPause makes every worker leave the provider alone for so long; it never shortens a pause.
func extendPause(ctx context.Context, tx pgx.Tx, provider string, seconds float64) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO call_pauses AS p (provider, until) VALUES ($1, now() + $2 * interval '1 second')
		    ON CONFLICT (provider) DO UPDATE SET until = GREATEST(p.until, EXCLUDED.until)`, provider, seconds)
	return err
}
