package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"chorus/internal/event"
	"chorus/services/orders/order"
)

// CancelCmd cancels an order.
type CancelCmd struct {
	Front
	Output
	Order    Number `arg:"" help:"Number of the order."`
	Operator bool   `help:"Cancel as the shop's operator and not as the customer."`
	Reason   string `help:"Why, with --operator; it is kept with the order and in the audit." placeholder:"TEXT"`
}

// Help is shown by --help.
func (*CancelCmd) Help() string {
	return `Allowed until the order is shipped. What was done is then undone from the last step to the first: the charge refunded, the shipment cancelled, the stock released. That takes a moment; follow it with chorus trace ORDER --follow.`
}

// Run asks for it.
func (c *CancelCmd) Run(ctx context.Context, _ *slog.Logger) error {
	body := map[string]any{"by": event.ByCustomer}
	switch why := strings.TrimSpace(c.Reason); {
	case c.Operator && why == "":
		return errors.New("cancel: an operator must say why: --reason")
	case !c.Operator && why != "":
		return errors.New("cancel: --reason goes with --operator; a customer owes nobody a reason")
	case c.Operator:
		body = map[string]any{"by": event.ByOperator, "reason": why}
	}
	return move(ctx, c.Front, c.Output, c.Order, "cancel", body)
}

// ShipCmd hands an order over.
type ShipCmd struct {
	Front
	Output
	Order Number `arg:"" help:"Number of the order."`
}

// Help is shown by --help.
func (*ShipCmd) Help() string {
	return `Hands a confirmed order over to its carrier: the point of no return. Of a ship and a cancel that meet, one is told why not.`
}

// Run asks for it.
func (c *ShipCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return move(ctx, c.Front, c.Output, c.Order, "ship", struct{}{})
}

// DeliverCmd says that an order has arrived.
type DeliverCmd struct {
	Front
	Output
	Order Number `arg:"" help:"Number of the order."`
}

// Help is shown by --help.
func (*DeliverCmd) Help() string {
	return `Notes that a shipped order has arrived, which ends it.`
}

// Run asks for it.
func (c *DeliverCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return move(ctx, c.Front, c.Output, c.Order, "deliver", struct{}{})
}

// moved is the answer to a transition.
type moved struct {
	Number  event.OrderNo `json:"number"`
	Status  order.Status  `json:"status"`
	Changed bool          `json:"changed"`
	Why     string        `json:"why,omitempty"`
}

func move(ctx context.Context, f Front, o Output, no Number, what string, body any) error {
	var m moved
	front, err := f.client(ctx)
	if err != nil {
		return err
	}
	if err := front.do(ctx, http.MethodPost, orderPath(no.OrderNo)+"/"+what, body, &m); err != nil {
		return fmt.Errorf("%s order %s: %w", what, no, err)
	}
	switch {
	case o.JSON:
		return o.printJSON(m)
	case m.Changed:
		o.printf("order %s is %s\n", m.Number, m.Status)
	default:
		o.printf("order %s was %s already\n", m.Number, m.Status)
	}
	return nil
}

// ResolveCmd ends a stuck step.
type ResolveCmd struct {
	Front
	Output
	Order      Number `arg:"" help:"Number of the order."`
	Step       string `arg:"" help:"The stuck step: stock, shipment or payment." enum:"stock,shipment,payment"`
	Evidence   string `help:"How you know that nothing is held or charged any more. It is kept with the order." required:"" placeholder:"TEXT"`
	MoneyMoved bool   `help:"A stuck charge had been taken, and you have paid it back."`
}

// Help is shown by --help.
func (*ResolveCmd) Help() string {
	return `A step is stuck when nobody could learn what became of a call, or when an undo used up its attempts. The order then says NEEDS ATTENTION and waits for you. Look at the provider's own books, make sure that nothing is held or charged any more, and say so here; the step is then closed and the order goes on to its end.

Nothing is called and nothing is undone by this: what still stands at the provider stays there, charged or held, and verify will tell. Look at the look-ups in chorus trace ORDER first: a provider that answers them, or a charge that they show, is a case for chorus retry.

  chorus resolve 8842 payment --evidence "bank portal: no charge with this key, 2026-01-12 09:30"

Where the provider only was away, chorus retry ORDER STEP is the better way.`
}

// Run says so.
func (c *ResolveCmd) Run(ctx context.Context, _ *slog.Logger) error {
	if strings.TrimSpace(c.Evidence) == "" {
		return errors.New("resolve: --evidence is empty: say how you know that nothing is held or charged any more")
	}
	return passStep(ctx, c.Front, c.Output, c.Order, "resolve",
		map[string]any{"step": c.Step, "evidence": c.Evidence, "money_moved": c.MoneyMoved})
}

// RetryCmd has a stuck step tried again.
type RetryCmd struct {
	Front
	Output
	Order Number `arg:"" help:"Number of the order."`
	Step  string `arg:"" help:"The stuck step: stock, shipment or payment." enum:"stock,shipment,payment"`
	Note  string `help:"Why; it is kept in the audit." placeholder:"TEXT"`
}

// Help is shown by --help.
func (*RetryCmd) Help() string {
	return `Use it when the provider is back. A stuck forward call, of which nobody knows whether it took effect, is cancelled by its key: nothing is charged, held or booked again, and what had been is taken back. A stuck undo is sent again under its own key, so it takes effect once. The attempts are counted afresh. Of a step that is not stuck but waits for its next attempt, that attempt is made now.

See chorus resolve for a step that no call can end.`
}

// Run asks for it.
func (c *RetryCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return passStep(ctx, c.Front, c.Output, c.Order, "retry", map[string]any{"step": c.Step, "reason": c.Note})
}

func passStep(ctx context.Context, f Front, o Output, no Number, what string, body any) error {
	var said struct {
		Number event.OrderNo     `json:"number"`
		Step   event.Step        `json:"step"`
		Owner  event.Participant `json:"owner"`
		Why    string            `json:"why"`
	}
	front, err := f.client(ctx)
	if err != nil {
		return err
	}
	if err := front.do(ctx, http.MethodPost, orderPath(no.OrderNo)+"/"+what, body, &said); err != nil {
		return fmt.Errorf("%s order %s: %w", what, no, err)
	}
	if o.JSON {
		return o.printJSON(said)
	}
	o.printf("order %s, %s: %s\n", no, said.Step, clean(said.Why))
	return nil
}
