// Package participant is the one door through which every input enters a participant (D6): facts from
// topics, requests from the API, the ends of provider calls and timers. Each input is decided by the
// participant's pure function, and what it decides is written in one transaction: the state, the
// facts (outbox rows), the calls it owes (intents) and, for facts, the inbox row and the fence.
//
// A crash before the commit leaves nothing; a crash after it leaves everything, and whoever comes
// next reads the fence. Nothing in here talks to the broker or to a provider.
package participant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/inbox"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/outbox"
)

// MaxHop is how many facts may lie between a request and a fact. The longest way there is has 12; a longer one is a loop.
const MaxHop = 40

// mostBytes bounds a fact's value: a record of Kafka's usual limit, 1,048,588 bytes, has room for it, its key and its headers. A fact that no topic takes
// would stand in the way of all others of its service, because cdc passes none by (G11).
const mostBytes = 1_000_000

// ErrTooLarge says that an input asked for a fact that no topic takes.
var ErrTooLarge = errors.New("the fact is too large for a topic")

// Spec says who a participant is.
type Spec[S any] struct {
	Name   event.Participant
	Decide func(event.OrderNo, S, decision.Input) decision.Decision[S]
	Due    func(S) time.Time // when the state wants to be woken; nil for never
	Phase  func(S) string    // a word for people, stored beside the state
	Shelf  OpenShelf[S]      // inventory's counts; nil for everybody else
	Saved  Saved[S]          // further columns and tables of the same service; nil for none
}

// Saved is called with what was saved, in the same transaction.
type Saved[S any] func(ctx context.Context, tx pgx.Tx, changed []Change[S]) error

// Change is one order's state after a transaction.
type Change[S any] struct {
	Order event.OrderNo
	State S
	Input decision.Input // the last one that changed it
}

// Door is a participant's door. It is safe for concurrent use.
type Door[S any] struct {
	spec   Spec[S]
	db     *pgxpool.Pool
	codec  *codec.Codec
	reader *Reader
	heard  map[heard]bool // what the choreography's table has for this participant
	log    *slog.Logger
	calls  *intent.Workers // nil for a participant that calls nobody, and in tests
	page   int             // timers looked at in one go

	plain func() (*codec.Codec, error)   // for the log
	mu    sync.Mutex                     // guards lines and begun
	lines map[event.ID][]json.RawMessage // for the log: what was decided about facts whose transaction has not committed
	begun map[event.ID]*intent.Begun     // calls that begin with that commit, by the first of its facts
}

// heard is a type of fact in a topic.
type heard struct {
	topic string
	fact  event.Type
}

// New returns the door of a participant whose database is db. What it does in the background ends with ctx.
func New[S any](ctx context.Context, log *slog.Logger, db *pgxpool.Pool, c *codec.Codec, spec Spec[S]) *Door[S] {
	d := &Door[S]{
		spec: spec, db: db, codec: c, reader: NewReader(ctx, c), log: log, heard: map[heard]bool{}, page: timerPage,
		plain: sync.OnceValues(plain), lines: map[event.ID][]json.RawMessage{}, begun: map[event.ID]*intent.Begun{},
	}
	for _, reaction := range choreography.Table() {
		if reaction.Who != spec.Name || reaction.On == "" {
			continue
		}
		for _, owner := range choreography.StatedBy(reaction.On, spec.Name) {
			d.heard[heard{owner.Topic(), reaction.On}] = true
		}
	}
	return d
}

// CallBy names the workers who make the calls that are planned. It must be set before the first input.
func (d *Door[S]) CallBy(w *intent.Workers) { d.calls = w }

// Cause is what an input goes back to; derived facts carry it.
type Cause struct {
	ID          event.ID
	At          time.Time // the instant that goes into derived ids
	Hop         int
	TraceParent string
	TraceState  string
}

// Item is one input at the door.
type Item struct {
	Order event.OrderNo
	Input decision.Input
	Cause Cause
}

// Answer is what the door says of an item.
type Answer[S any] struct {
	Before  S // the state that the item met
	State   S
	Verdict decision.Verdict
	Why     string
	Facts   []event.ID // the ids of the facts that were stated

	lines []json.RawMessage // the decisions, when the log wants them
}

// planner writes intents down: intent.Plan or something that begins them, too.
type planner func(ctx context.Context, tx pgx.Tx, planned []intent.Planned) error

// apply decides the items in their order and writes what follows. It is steps 2 to 4 of D6.
func (d *Door[S]) apply(ctx context.Context, tx pgx.Tx, items []Item, plan planner) ([]Answer[S], error) {
	states, err := d.load(ctx, tx, items)
	if err != nil {
		return nil, err
	}
	shelf, err := d.openShelf(ctx, tx, states, items)
	if err != nil {
		return nil, err
	}
	batch := &batch[S]{
		door: d, states: states, shelf: shelf, changed: map[event.OrderNo]decision.Input{},
		logs: d.log.Enabled(ctx, slog.LevelDebug),
	}
	answers := make([]Answer[S], len(items))
	for i, item := range items {
		if answers[i], err = batch.decide(item); err != nil {
			return nil, err
		}
	}
	return answers, batch.write(ctx, tx, plan)
}

// batch gathers what the decisions of one transaction ask for.
type batch[S any] struct {
	door    *Door[S]
	states  map[event.OrderNo]*loaded[S]
	shelf   Shelf[S]
	changed map[event.OrderNo]decision.Input
	rows    []outbox.Row
	intents []intent.Planned
	logs    bool // the log wants each decision in full
}

// decide takes one input to its end: a hold is carried out on the shelf and its outcome decided at once.
func (b *batch[S]) decide(item Item) (Answer[S], error) {
	held := b.states[item.Order]
	answer := Answer[S]{Before: held.state}
	for input := item.Input; input != nil; {
		before := held.state
		d, err := b.ask(item.Order, before, input)
		if err != nil {
			return answer, err
		}
		if b.logs {
			line, err := b.door.line(item.Order, before, input, d)
			if err != nil {
				return answer, fmt.Errorf("write down a decision about order %s: %w", item.Order, err)
			}
			answer.lines = append(answer.lines, line)
		}
		answer.State, answer.Why = d.State, d.Why
		answer.Verdict = weightier(answer.Verdict, d.Verdict)
		if d.Verdict == decision.Refused {
			answer.State = held.state
			return answer, nil
		}
		if d.Verdict != decision.Ignored {
			held.state = kept(before, item.Input, d)
			b.changed[item.Order] = item.Input
		}
		if err := b.owe(item, d, &answer); err != nil {
			return answer, err
		}
		input = nil
		if d.Hold != "" {
			if weighed, answers := b.shelf.Hold(item.Order, held.state, d.Hold); answers {
				input = weighed
			}
		}
	}
	return answer, nil
}

// ask has the participant decide. A rule that panics is at fault about this input alone, and must not take the process
// with it: it would meet the same input again after each restart.
func (b *batch[S]) ask(order event.OrderNo, s S, in decision.Input) (d decision.Decision[S], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = inbox.Permanent(fmt.Errorf("decide about order %s: panic: %v\n%s", order, p, debug.Stack()), inbox.ReasonPanic)
		}
	}()
	d = b.door.spec.Decide(order, s, in)
	if d.Hold != "" && b.shelf == nil {
		return d, fmt.Errorf("decide about order %s: %s has no shelf to hold anything in", order, b.door.spec.Name)
	}
	return d, nil
}

// owe notes the facts and calls that a decision asks for.
func (b *batch[S]) owe(item Item, d decision.Decision[S], answer *Answer[S]) error {
	for _, emission := range d.Facts {
		id, err := b.emit(item, emission)
		if err != nil {
			return err
		}
		answer.Facts = append(answer.Facts, id)
	}
	if hop := item.Cause.Hop + 1; hop > MaxHop && len(d.Intents) > 0 {
		// The call would be made, and what it comes to could never be stated.
		return inbox.Permanent(fmt.Errorf("order %s: a call after %d hops: the facts go in a circle", item.Order, hop), "hop_limit")
	}
	for _, in := range d.Intents {
		b.intents = append(b.intents, intent.Planned{
			Order: item.Order, Intent: in, CausationID: item.Cause.ID, Hop: item.Cause.Hop,
			TraceParent: item.Cause.TraceParent, TraceState: item.Cause.TraceState,
		})
	}
	return nil
}

func (b *batch[S]) emit(item Item, e decision.Emission) (event.ID, error) {
	name := b.door.spec.Name
	env := event.Envelope{
		ID:    event.Derive(item.Cause.At, name, item.Order, string(e.Fact.Type()), e.Generation),
		Order: item.Order, Owner: name, OccurredAt: time.Now().UTC(),
		CausationID: item.Cause.ID, Hop: item.Cause.Hop + 1,
		TraceParent: item.Cause.TraceParent, TraceState: item.Cause.TraceState,
		Fact: e.Fact,
	}
	if env.Hop > MaxHop {
		return env.ID, inbox.Permanent(
			fmt.Errorf("order %s: %s after %d hops: the facts go in a circle", item.Order, e.Fact.Type(), env.Hop), "hop_limit")
	}
	row, err := b.door.codec.Row(env)
	if err != nil {
		return env.ID, inbox.Permanent(fmt.Errorf("encode %s of order %s: %w", e.Fact.Type(), item.Order, err), "unencodable")
	}
	if n := len(row.Payload); n > mostBytes {
		return env.ID, inbox.Permanent(fmt.Errorf("encode %s of order %s: %d bytes: %w", e.Fact.Type(), item.Order, n, ErrTooLarge), "too_large")
	}
	b.rows = append(b.rows, row)
	return env.ID, nil
}

func (b *batch[S]) write(ctx context.Context, tx pgx.Tx, plan planner) error {
	orders := make([]event.OrderNo, 0, len(b.changed))
	for order := range b.changed {
		orders = append(orders, order)
	}
	slices.Sort(orders)
	if err := b.door.save(ctx, tx, orders, b.states); err != nil {
		return err
	}
	if b.shelf != nil {
		if err := b.shelf.Flush(ctx); err != nil {
			return err
		}
	}
	if b.door.spec.Saved != nil && len(orders) > 0 {
		changes := make([]Change[S], len(orders))
		for i, order := range orders {
			changes[i] = Change[S]{Order: order, State: b.states[order].state, Input: b.changed[order]}
		}
		if err := b.door.spec.Saved(ctx, tx, changes); err != nil {
			return err
		}
	}
	if err := b.door.state(ctx, tx, b.rows); err != nil {
		return err
	}
	if len(b.intents) == 0 {
		return nil
	}
	return plan(ctx, tx, b.intents)
}

// weightier keeps the strongest verdict of an input that was decided in several steps (hold, then go on).
func weightier(a, b decision.Verdict) decision.Verdict {
	rank := []decision.Verdict{"", decision.Ignored, decision.Remembered, decision.Refused, decision.Applied}
	if slices.Index(rank, b) > slices.Index(rank, a) {
		return b
	}
	return a
}

// enter runs inputs that are not facts through the door in a transaction of their own. after runs last in it and may fail it.
func (d *Door[S]) enter(ctx context.Context, what string, items []Item, after func(pgx.Tx, []Answer[S]) error) (answers []Answer[S], err error) {
	var begun *intent.Begun
	err = pg.InTx(ctx, d.db, what, func(tx pgx.Tx) error {
		begun.Drop() // of a run that was rolled back
		begun = nil
		var err error
		if answers, err = d.apply(ctx, tx, items, d.begins(&begun)); err != nil || after == nil {
			return err
		}
		return after(tx, answers)
	})
	if err != nil {
		begun.Drop()
		return nil, err
	}
	begun.Go()
	return answers, nil
}
