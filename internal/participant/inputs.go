package participant

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
)

// Asked is a request on an order. The trace is that of Context (Traced).
type Asked struct {
	Context context.Context
	Order   event.OrderNo
	Request decision.Requested
}

// Request brings a person's or a program's request through the door. with runs last in the same transaction (the
// API stores its answer there, under the request's idempotency key). The trace is that of ctx (Traced).
func (d *Door[S]) Request(ctx context.Context, order event.OrderNo, req decision.Requested, with func(pgx.Tx, Answer[S]) error) (Answer[S], error) {
	answers, err := d.Requests(ctx, []Asked{{ctx, order, req}}, func(tx pgx.Tx, answers []Answer[S]) error {
		if with == nil {
			return nil
		}
		return with(tx, answers[0])
	})
	if err != nil {
		return Answer[S]{}, err
	}
	return answers[0], nil
}

// Requests brings several requests through the door in one transaction: all of them, or none.
func (d *Door[S]) Requests(ctx context.Context, asked []Asked, with func(pgx.Tx, []Answer[S]) error) ([]Answer[S], error) {
	what := fmt.Sprintf("request on order %s", asked[0].Order)
	if n := len(asked); n > 1 {
		what = fmt.Sprintf("requests on %d orders from %s on", n, asked[0].Order)
	}
	items := make([]Item, len(asked))
	for i, x := range asked {
		parent, state := traceOf(x.Context)
		items[i] = Item{Order: x.Order, Input: x.Request, Cause: Cause{ID: x.Request.ID, At: x.Request.At, TraceParent: parent, TraceState: state}}
	}
	answers, err := d.enter(ctx, what, items, with)
	if err != nil {
		return nil, err
	}
	for i, x := range asked {
		d.tellAnswer(slog.LevelInfo, x.Order, fmt.Sprintf("%T", x.Request.Request), answers[i])
	}
	return answers, nil
}

// Answer brings the ends of provider calls through the door (intent.Door). fence runs last in the same transaction; it fails when
// the caller's lease is lost, and then nothing is written.
func (d *Door[S]) Answer(ctx context.Context, ended []intent.Answer, fence func(context.Context, pgx.Tx) error) error {
	items := make([]Item, len(ended))
	for i, a := range ended {
		items[i] = Item{Order: a.Order, Input: a.Answered, Cause: Cause{
			ID: a.Cause.CausationID, At: a.Cause.CausationID.Time(), Hop: a.Cause.Hop,
			TraceParent: a.Cause.TraceParent, TraceState: a.Cause.TraceState,
		}}
	}
	answers, err := d.enter(ctx, fmt.Sprintf("answer %d calls", len(ended)), items,
		func(tx pgx.Tx, _ []Answer[S]) error { return fence(ctx, tx) })
	if err != nil {
		return err
	}
	if d.log.Enabled(ctx, slog.LevelDebug) {
		for i, a := range answers {
			in := ended[i].Answered
			d.tellAnswer(slog.LevelDebug, ended[i].Order, string(in.Op)+" "+string(in.Outcome.Kind), a)
		}
	}
	return nil
}

// Due is an order whose state asked to be woken.
type Due struct {
	Order event.OrderNo
	At    time.Time
}

// Elapsed lists the orders whose instant has come, the oldest first, behind the one given (the zero Due for the first), at most limit.
func (d *Door[S]) Elapsed(ctx context.Context, after Due, limit int) ([]Due, error) {
	rows, err := d.db.Query(ctx, `
		SELECT order_no, due_at FROM order_states
		 WHERE due_at <= now() AND due_at >= $1 AND (due_at, order_no) > ($1, $2) ORDER BY due_at, order_no LIMIT $3`, after.At, int64(after.Order), limit)
	if err != nil {
		return nil, fmt.Errorf("read due orders: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Due, error) {
		var x Due
		err := row.Scan(&x.Order, &x.At)
		return x, err
	})
	if err != nil {
		return nil, fmt.Errorf("read due orders: %w", err)
	}
	return due, nil
}

// Elapse tells the orders that their instants have come. Two replicas may tell the same order: the
// second finds a state that no longer waits.
func (d *Door[S]) Elapse(ctx context.Context, due []Due) error {
	if len(due) == 0 {
		return nil
	}
	items := make([]Item, len(due))
	for i, x := range due {
		items[i] = Item{Order: x.Order, Input: decision.Elapsed{At: x.At}, Cause: Cause{
			ID: event.Derive(x.At, d.spec.Name, x.Order, "elapsed", 0), At: x.At,
		}}
	}
	answers, err := d.enter(ctx, "timers", items, nil)
	if err != nil {
		return err
	}
	for i, a := range answers {
		d.tellAnswer(slog.LevelInfo, due[i].Order, "elapsed", a)
	}
	return nil
}
