package intent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/pg"
	"chorus/internal/provider"
)

// claimed is a call under our lease.
type claimed struct {
	id        int64
	token     int64
	order     event.OrderNo
	step      event.Step
	key       string
	provider  string
	call      decision.Call
	n         int  // the number of the exchange that begins, or of the one that crashed
	begins    bool // an exchange begins now
	crashed   bool // an exchange began and nobody recorded its end
	expired   bool // the deadline has passed before an attempt; without any of the three the answer is brought to the door again
	request   provider.Request
	unknown   error // why no request can be made: such a call rests until the program or its configuration knows it
	cause     Cause
	at        time.Time // before the lease began
	reference string
	reason    string
	body      []byte
	rendered  []byte // as earlier attempts were sent, where the provider has a form of its own
	doBody    []byte // of an undo whose templates need it: the request of the call with the effect
	doAnswer  []byte
	ended     func(decision.ResultKind) // tells the provider's gate how the exchange went
}

// claim leases up to limit due calls and records which exchanges begin, in one transaction: at its commit every request that
// may go out is on record. resting leases only calls that need no exchange.
func (l *lane) claim(ctx context.Context, limit int, resting bool) ([]claimed, error) {
	at := time.Now()
	var ready []claimed
	err := pg.InTx(ctx, l.pool, "claim calls to "+l.provider, func(tx pgx.Tx) error {
		all, err := l.leaseDue(ctx, tx, limit, resting)
		if err != nil {
			return err
		}
		if err := l.gather(ctx, tx, all); err != nil {
			return err
		}
		ready = ready[:0]
		var starts startRows
		var made sentRows
		for _, c := range all {
			c.at = at
			if c.prepare(l.providers); c.unknown != nil {
				if err := l.rest(ctx, tx, c); err != nil {
					return err
				}
				continue
			}
			if c.begins {
				starts.add(&c)
				made.add(&c)
			}
			ready = append(ready, c)
		}
		if err := made.insert(ctx, tx); err != nil {
			return err
		}
		return starts.insert(ctx, tx, l.owner)
	})
	if err != nil {
		return nil, err
	}
	return ready, nil
}

// leaseSQL takes the calls that have been due for longest. Its cost does not depend on how many calls are stored: the
// index holds only those that have not ended, and those under a lease are due when it ends. The floor keeps it away from
// entries of the past that are dead and not vacuumed yet, which would be read first.
const leaseSQL = `
	WITH due AS (
		SELECT id, running AS crashed, NOT running AND phase <> 'OVER' AND NOT late AS begins, NOT running AND late AS expired
		  FROM calls, ` + lateSQL + `
		 WHERE provider = $1 AND ended_at IS NULL AND due_at >= $5 AND due_at <= now()
		 ORDER BY due_at
		 LIMIT $2
		   FOR UPDATE OF calls SKIP LOCKED
	)
` + leasedSQL

// lateSQL finds attempts that cannot matter any more.
const lateSQL = `LATERAL (SELECT phase = 'ATTEMPT' AND op IN ('do', 'look') AND COALESCE(deadline < now(), false)) AS l (late)`

// restingSQL takes only calls that need no exchange, while the provider is left alone: their deadline is over, their worker crashed,
// or their answer waits for the door. It looks through the calls that have been due for longest: their deadlines come first.
const restingSQL = `
	WITH longest AS (
		SELECT id FROM calls WHERE provider = $1 AND ended_at IS NULL AND due_at >= $5 AND due_at <= now() ORDER BY due_at LIMIT 1024
	), due AS (
		SELECT id, running AS crashed, false AS begins, NOT running AND late AS expired
		  FROM longest JOIN calls USING (id), ` + lateSQL + `
		 WHERE ended_at IS NULL AND due_at <= now() AND (running OR late OR phase = 'OVER')
		 LIMIT $2
		   FOR UPDATE OF calls SKIP LOCKED
	)
` + leasedSQL

const leasedSQL = `
	UPDATE calls AS c
	   SET lease_owner = $3, lease_token = c.lease_token + 1, due_at = now() + $4 * interval '1 second',
	       running = c.running OR due.begins, exchanges = c.exchanges + due.begins::integer
	  FROM due
	 WHERE c.id = due.id
	RETURNING c.id, c.lease_token, c.order_no, c.step, c.key, c.provider, c.state, c.exchanges, due.begins, due.crashed, due.expired,
	          c.reference, c.reason, (SELECT body FROM call_bodies WHERE call_id = c.id),
	          c.causation_id, c.hop, c.traceparent, c.tracestate`

// leaseDue counts on the role's settings (deploy): the plan is made once, and goes by index while the table is small too.
func (l *lane) leaseDue(ctx context.Context, tx pgx.Tx, limit int, resting bool) ([]claimed, error) {
	sql := leaseSQL
	if resting {
		sql = restingSQL
	}
	rows, err := tx.Query(ctx, sql, l.provider, limit, l.owner, l.lease.Seconds(), l.floor)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c claimed, err error) {
		var causation *[16]byte
		err = row.Scan(&c.id, &c.token, &c.order, &c.step, &c.key, &c.provider, &c.call, &c.n, &c.begins, &c.crashed, &c.expired,
			&c.reference, &c.reason, &c.body, &causation, &c.cause.Hop, &c.cause.TraceParent, &c.cause.TraceState)
		if causation != nil {
			c.cause.CausationID = *causation
		}
		c.cause.Key = c.key
		return c, err
	})
}

// prepare makes the request. It does so for a crashed or expired call too: what is not understood is not judged either.
func (c *claimed) prepare(providers *provider.Set) {
	if c.call.Phase == decision.Over {
		return
	}
	reason := c.reason
	if c.call.Phase == decision.Ending {
		reason = c.call.Outcome.Reason
	}
	c.request, c.unknown = providers.Prepare(provider.Call{
		Provider: c.provider, Op: c.call.Op, Phase: c.call.Phase, Key: c.key, Order: c.order,
		Reference: c.reference, Reason: reason, Body: c.body, Rendered: c.rendered, DoBody: c.doBody, DoAnswer: c.doAnswer,
		TraceParent: c.cause.TraceParent, TraceState: c.cause.TraceState,
	})
}

// rest puts a call aside that nobody here can carry out. It stays open with its problem on it, and is
// looked at again: a program that knows it finishes it (CMP-03).
func (l *lane) rest(ctx context.Context, tx pgx.Tx, c claimed) error {
	l.log.Error("a call cannot be carried out", "order", c.order, "key", c.key, "err", c.unknown)
	_, err := tx.Exec(ctx, `
		UPDATE calls
		   SET running = running AND NOT $2, exchanges = exchanges - $2::boolean::integer,
		       lease_owner = NULL, problem = $3, due_at = now() + $4 * interval '1 second'
		 WHERE id = $1`, c.id, c.begins, c.unknown.Error(), l.cfg.Rest.Seconds())
	return err
}

// startRows are the exchanges that begin.
type startRows struct {
	ids, ns                       []int64
	kinds, methods, urls, headers []string
}

func (s *startRows) add(c *claimed) {
	s.ids = append(s.ids, c.id)
	s.ns = append(s.ns, int64(c.n))
	s.kinds = append(s.kinds, string(c.call.Phase))
	s.methods = append(s.methods, c.request.Method)
	s.urls = append(s.urls, c.request.URL)
	s.headers = append(s.headers, sent(c.request.Header))
}

func (s *startRows) insert(ctx context.Context, tx pgx.Tx, owner string) error {
	if len(s.ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO call_attempts (call_id, n, part, kind, owner, method, url, headers)
		SELECT call_id, n, 'start', kind, $7, method, url, headers::jsonb
		  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])
		    AS s (call_id, n, kind, method, url, headers)`,
		s.ids, s.ns, s.kinds, s.methods, s.urls, s.headers, owner)
	if err != nil {
		return fmt.Errorf("record the start of %d exchanges: %w", len(s.ids), err)
	}
	return nil
}

// sent are the headers of a request that tell one from another. Others may hold secrets.
func sent(h http.Header) string {
	keep := map[string]string{}
	for _, name := range []string{"Idempotency-Key", "X-Order", "Traceparent"} {
		if v := h.Get(name); v != "" {
			keep[name] = v
		}
	}
	return encodeHeaders(keep)
}

func encodeHeaders(h map[string]string) string {
	text, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("marshal strings: %v", err))
	}
	return string(text)
}
