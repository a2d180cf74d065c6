package intent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// Planned is an intent of an order with what caused it.
type Planned struct {
	Order       event.OrderNo
	Intent      decision.Intent
	Generation  int // rises only after a definite refusal (D7)
	CausationID event.ID
	Hop         int
	TraceParent string
	TraceState  string
}

// Key is the idempotency key of the intent's call: the same however often the decision is repeated.
func (p Planned) Key() string {
	key := string(p.Intent.Step) + "-" + p.Order.String() + "-" + strconv.Itoa(p.Generation)
	if p.Intent.Op == decision.Undo {
		key += undone
	}
	return key
}

// undone ends the key of an undo; the rest is the key of the call with the effect.
const undone = "-undo"

func effectKey(undo string) string { return strings.TrimSuffix(undo, undone) }

// Plan writes the intents in the door's transaction. An intent whose key is known is left as it is, so a repeated
// decision plans nothing twice; one with Again has its stuck call tried again. Call Workers.Wake after the commit.
func Plan(ctx context.Context, tx pgx.Tx, planned []Planned) error {
	return plan(ctx, tx, planned, nil)
}

// mostPlanned bounds the calls of one statement.
const mostPlanned = 256

// plan has b begin what it can; nil begins nothing.
func plan(ctx context.Context, tx pgx.Tx, planned []Planned, b *Begun) error {
	// Sorted, so that two transactions with the same keys wait for each other instead of deadlocking.
	planned = slices.SortedFunc(slices.Values(planned), func(a, b Planned) int { return cmp.Compare(a.Key(), b.Key()) })
	for some := range slices.Chunk(planned, mostPlanned) {
		if err := planSome(ctx, tx, some, b); err != nil {
			return err
		}
	}
	return nil
}

func planSome(ctx context.Context, tx pgx.Tx, planned []Planned, b *Begun) error {
	rows := planRows{begun: b}
	before := 0
	if b != nil {
		before = len(b.calls)
	}
	for _, p := range planned {
		call := decision.NewCall(p.Intent.Op)
		if p.Intent.Again {
			revived, err := revive(ctx, tx, p)
			if err != nil {
				return fmt.Errorf("try call %s again: %w", p.Key(), err)
			}
			if revived {
				rows.revived = true
				continue
			}
			call = call.Again() // its record was pruned
		}
		if err := rows.add(p, call); err != nil {
			return err
		}
	}
	if len(rows.keys) > 0 {
		if err := rows.insert(ctx, tx); err != nil {
			return fmt.Errorf("plan %d calls from %s on: %w", len(rows.keys), rows.keys[0], err)
		}
	}
	if b != nil {
		b.rest = b.rest || rows.revived || len(b.calls)-before < len(rows.keys)
	}
	return nil
}

// planRows are the columns of the calls to insert.
type planRows struct {
	orders                                             []int64
	steps, ops, keys, providers, references            []string
	reasons, states, phases, traceparents, tracestates []string
	generations, hops                                  []int32
	deadlines                                          []*time.Time
	causations                                         []*[16]byte
	bodies                                             [][]byte

	// Of calls that begin: how long they are leased, in seconds, and what is sent. Empty for the others.
	leases                 []float64
	methods, urls, headers []string

	begun   *Begun           // nil when none may begin
	begins  map[string]begun // by key: those to begin, each with a slot
	revived bool             // a call is due again
}

func (r *planRows) add(p Planned, call decision.Call) error {
	key := p.Key()
	if n := len(r.keys); n > 0 && r.keys[n-1] == key {
		return nil
	}
	body, state, err := encode(p.Intent.Body, call)
	if err != nil {
		return fmt.Errorf("plan call %s: %w", key, err)
	}
	var deadline *time.Time
	if !p.Intent.Deadline.IsZero() {
		deadline = &p.Intent.Deadline
	}
	r.orders = append(r.orders, int64(p.Order))
	r.steps = append(r.steps, string(p.Intent.Step))
	r.ops = append(r.ops, string(p.Intent.Op))
	r.generations = append(r.generations, int32(p.Generation))
	r.keys = append(r.keys, key)
	r.providers = append(r.providers, p.Intent.Provider)
	r.references = append(r.references, p.Intent.Reference)
	r.reasons = append(r.reasons, p.Intent.Reason)
	r.deadlines = append(r.deadlines, deadline)
	r.states = append(r.states, state)
	r.phases = append(r.phases, string(call.Phase))
	r.causations = append(r.causations, uuid(p.CausationID))
	r.hops = append(r.hops, int32(p.Hop))
	r.traceparents = append(r.traceparents, p.TraceParent)
	r.tracestates = append(r.tracestates, p.TraceState)
	r.bodies = append(r.bodies, body)
	r.begin(p, call, body)
	return nil
}

func (r *planRows) begin(p Planned, call decision.Call, body []byte) {
	var c begun
	ok := false
	if r.begun != nil {
		c, ok = r.begun.begin(p, call, body)
	}
	if !ok {
		r.leases = append(r.leases, 0)
		r.methods, r.urls, r.headers = append(r.methods, ""), append(r.urls, ""), append(r.headers, "")
		return
	}
	if r.begins == nil {
		r.begins = map[string]begun{}
	}
	r.begins[c.key] = c
	r.leases = append(r.leases, c.lane.lease.Seconds())
	r.methods, r.urls, r.headers = append(r.methods, c.request.Method), append(r.urls, c.request.URL), append(r.headers, sent(c.request.Header))
}

func encode(content any, call decision.Call) (body []byte, state string, err error) {
	if content != nil {
		if body, err = json.Marshal(content); err != nil {
			return nil, "", fmt.Errorf("encode its body: %w", err)
		}
	}
	text, err := json.Marshal(call)
	return body, string(text), err
}

// uuid is nil for the zero id.
func uuid(id event.ID) *[16]byte {
	if id.IsZero() {
		return nil
	}
	return (*[16]byte)(&id)
}

// insertSQL returns the calls that begin. None does while its provider wants to be left alone, which another replica may know. Each has its id beforehand, so that
// what goes with the inserted ones is found in one table of them: a join by their keys would compare each with each.
const insertSQL = `
	WITH planned AS (
		SELECT *, nextval('calls_id_seq') AS id, lease > 0 AND NOT EXISTS (SELECT FROM call_pauses AS cp WHERE cp.provider = p.provider AND until > now()) AS begins
		  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::text[],
		              $9::timestamptz[], $10::text[], $11::text[], $12::uuid[], $13::integer[], $14::text[], $15::text[], $16::bytea[],
		              $17::float8[], $18::text[], $19::text[], $20::text[])
		    AS p (order_no, step, op, generation, key, provider, reference, reason,
		          deadline, state, phase, causation_id, hop, traceparent, tracestate, body, lease, method, url, headers)
	), inserted AS (
		INSERT INTO calls (id, order_no, step, op, generation, key, provider, reference, reason,
		                   deadline, state, phase, causation_id, hop, traceparent, tracestate,
		                   running, exchanges, lease_token, lease_owner, due_at)
		OVERRIDING SYSTEM VALUE
		SELECT id, order_no, step, op, generation, key, provider, reference, reason,
		       deadline, state::jsonb, phase, causation_id, hop, traceparent, tracestate,
		       begins, begins::integer, begins::integer, CASE WHEN begins THEN $21 END,
		       CASE WHEN begins THEN clock_timestamp() + lease * interval '1 second' ELSE now() END
		  FROM planned
		    ON CONFLICT (key) DO NOTHING
		RETURNING id, key, running
	), bodies AS (
		INSERT INTO call_bodies (call_id, body)
		SELECT id, body FROM planned WHERE body IS NOT NULL AND id IN (SELECT id FROM inserted)
	), starts AS (
		INSERT INTO call_attempts (call_id, n, part, kind, owner, method, url, headers)
		SELECT id, 1, 'start', phase, $21, method, url, headers::jsonb FROM planned WHERE begins AND id IN (SELECT id FROM inserted)
	)
	SELECT id, key FROM inserted WHERE running`

func (r *planRows) insert(ctx context.Context, tx pgx.Tx) error {
	owner := ""
	if r.begun != nil {
		owner = r.begun.workers.owner
	}
	defer func() {
		for _, c := range r.begins {
			<-c.lane.slots // it was there already, or nothing is
		}
	}()
	rows, err := tx.Query(ctx, insertSQL,
		r.orders, r.steps, r.ops, r.generations, r.keys, r.providers, r.references, r.reasons,
		r.deadlines, r.states, r.phases, r.causations, r.hops, r.traceparents, r.tracestates, r.bodies,
		r.leases, r.methods, r.urls, r.headers, owner)
	if err != nil {
		return err
	}
	var id int64
	var key string
	var made sentRows
	if _, err = pgx.ForEachRow(rows, []any{&id, &key}, func() error {
		c := r.begins[key]
		delete(r.begins, key)
		c.id = id
		made.add(&c.claimed)
		r.begun.add(c)
		return nil
	}); err != nil {
		return err
	}
	return made.insert(ctx, tx)
}

// revive gives a stuck call a fresh budget, under its old key. It reports false when there is no such call.
func revive(ctx context.Context, tx pgx.Tx, p Planned) (bool, error) {
	var id int64
	var call decision.Call
	var ended bool
	err := tx.QueryRow(ctx, `SELECT id, state, ended_at IS NOT NULL FROM calls WHERE key = $1 FOR UPDATE`, p.Key()).
		Scan(&id, &call, &ended)
	if err == pgx.ErrNoRows {
		return false, nil
	}
	if err != nil || !ended || call.Outcome.Kind != decision.Stuck {
		return true, err
	}
	call = call.Again()
	_, state, err := encode(nil, call)
	if err != nil {
		return true, err
	}
	_, err = tx.Exec(ctx, `
		UPDATE calls
		   SET state = $2::text::jsonb, phase = $3, due_at = now(), ended_at = NULL, outcome = NULL, problem = NULL,
		       causation_id = $4, hop = $5, traceparent = $6, tracestate = $7
		 WHERE id = $1`,
		id, state, string(call.Phase), uuid(p.CausationID), p.Hop, p.TraceParent, p.TraceState)
	return true, err
}
