package notifications

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/outside"
	"chorus/internal/pg"
	"chorus/internal/provider"
)

// change is a new status that customers are sent a message about.
type change struct {
	status string
	number int // keeps the messages about an order apart; it is in their keys, so it never changes
}

// changes are by the fact that states them. The confirmation is not among them: whoever places an order is waiting for it and reads it from the shop.
var changes = map[event.Type]change{
	"OrderRejected": {"REJECTED", 0}, "OrderFailed": {"FAILED", 1}, "OrderCancelled": {"CANCELLED", 2},
	"OrderShipped": {"SHIPPED", 3}, "OrderDelivered": {"DELIVERED", 4},
}

// messenger says which message goes out about a fact.
type messenger struct {
	log   *slog.Logger
	route outside.Route // nil: nobody outside is told anything
}

func newMessenger(log *slog.Logger, file *provider.File) messenger {
	m := messenger{log: log}
	if len(file.Providers(event.NotificationStep)) > 0 {
		m.route = file.Route(event.NotificationStep)
	}
	return m
}

// message is the call that a fact leads to. Its key follows from order and status, so a fact that is handled again owes nothing new.
func (m messenger) message(env event.Envelope, text string) (intent.Planned, bool) {
	c, told := changes[env.Fact.Type()]
	if !told || m.route == nil {
		return intent.Planned{}, false
	}
	notice := outside.Notice{Order: env.Order, Status: c.status, Text: text}
	to, ok := m.route(outside.Known{Request: notice})
	if !ok { // the call is planned all the same, and stays open with its problem on it, so that somebody sees it (G10)
		m.log.Error("no configured route matches", "order", env.Order, "status", c.status)
		to = outside.NoRoute
	}
	return intent.Planned{
		Order: env.Order, Generation: c.number, CausationID: env.ID, Hop: env.Hop, TraceParent: env.TraceParent, TraceState: env.TraceState,
		Intent: decision.Intent{Step: event.NotificationStep, Op: decision.Tell, Provider: to, Body: notice},
	}, true
}

// messages takes the ends of the calls (intent.Door). Nothing follows from them.
type messages struct {
	log *slog.Logger
	db  *pgxpool.Pool
}

// Answer ends the calls.
func (m messages) Answer(ctx context.Context, ended []intent.Answer, fence func(context.Context, pgx.Tx) error) error {
	if err := pg.InTx(ctx, m.db, "end messages", func(tx pgx.Tx) error { return fence(ctx, tx) }); err != nil {
		return err
	}
	for _, a := range ended {
		if o := a.Answered.Outcome; o.Kind != decision.Succeeded {
			m.log.Warn("a message did not get through", "order", a.Order, "key", a.Cause.Key, "outcome", o.Kind, "reason", o.Reason)
		}
	}
	return nil
}
