package orders

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"chorus/internal/audit"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// Moved is the answer to a request that changes an order's course. Asking again for what is so already changes nothing.
type Moved struct {
	Number  event.OrderNo `json:"number"`
	Status  order.Status  `json:"status" enum:"PLACED,CONFIRMED,SHIPPED,DELIVERED,REJECTED,CANCELLING,CANCELLED,COMPENSATING,FAILED"`
	Changed bool          `json:"changed"`
	Why     string        `json:"why"`
}

// Cancellation is the optional body of a cancel request.
type Cancellation struct {
	By     event.CancelReason `json:"by,omitempty" enum:"CUSTOMER,OPERATOR" default:"CUSTOMER"`
	Reason string             `json:"reason,omitempty" maxLength:"2000" doc:"Why, for operators; an operator must say it. It is kept with the order and in the audit."`
}

// Nothing is the optional body of a request that needs none.
type Nothing struct{}

type cancelInput struct {
	Number
	Body *Body[Cancellation]
}

type moveInput struct {
	Number
	Body *Body[Nothing]
}

type moveOutput struct{ Body Moved }

func (a *api) registerMoves(h huma.API) {
	move := func(name, summary, description string) huma.Operation {
		return huma.Operation{
			OperationID: name + "-order", Method: http.MethodPost, Path: "/v1/orders/{order}/" + name, Summary: summary, Description: description,
			SkipValidateBody: true, BodyReadTimeout: a.cfg.RequestTimeout, MaxBodyBytes: 64 << 10, Errors: []int{400, 401, 404, 408, 409, 413, 415, 422, 429, 503},
		}
	}
	huma.Register(h, move("cancel", "Cancel an order", "Allowed until it is shipped. What was done is then undone, which takes its time: follow the order."),
		func(ctx context.Context, in *cancelInput) (*moveOutput, error) {
			return a.cancel(ctx, in)
		})
	huma.Register(h, move("ship", "Hand an order over to the carrier", "The point of no return. Of a ship and a cancel at the same time one gets 409."),
		func(ctx context.Context, in *moveInput) (*moveOutput, error) {
			return a.move(ctx, in.Number, decision.Ship{}, nil)
		})
	huma.Register(h, move("deliver", "Note that an order has arrived", ""),
		func(ctx context.Context, in *moveInput) (*moveOutput, error) {
			return a.move(ctx, in.Number, decision.Deliver{}, nil)
		})
}

// cancel takes a customer's cancellation or an operator's, which is recorded as what a person of the shop did.
func (a *api) cancel(ctx context.Context, in *cancelInput) (*moveOutput, error) {
	req := decision.Cancel{By: event.ByCustomer}
	if in.Body != nil {
		req.By, req.Why = cmp.Or(in.Body.Value.By, req.By), strings.TrimSpace(in.Body.Value.Reason)
	}
	switch {
	case req.By == event.ByCustomer:
		return a.move(ctx, in.Number, decision.Cancel{By: req.By}, nil) // a customer owes nobody a reason
	case req.Why == "":
		return nil, huma.Error422UnprocessableEntity("an operator must say why", &huma.ErrorDetail{Location: "body.reason", Message: "must not be empty"})
	}
	return a.move(ctx, in.Number, req, &audit.Entry{Who: audit.Of(ctx), Action: audit.Cancel, Subject: "order", Why: req.Why})
}

// move brings the request through the door, which decides it on the locked order. did is what goes into the audit with it; nil for nothing.
func (a *api) move(ctx context.Context, path Number, request decision.Request, did *audit.Entry) (*moveOutput, error) {
	number, err := parseNumber("path.order", path.Order)
	if err != nil {
		return nil, err
	}
	var with func(pgx.Tx, participant.Answer[order.State]) error
	if did != nil {
		did.Order = number
		with = a.door.Audited(ctx, *did)
	}
	said, err := a.door.Request(ctx, number, decision.Requested{ID: participant.NewID(), At: participant.Now(), Request: request}, with)
	switch {
	case err != nil:
		return nil, a.trouble(ctx, "change the order", err)
	case said.State.Status == order.Unplaced:
		return nil, noOrder(number)
	case said.Verdict == decision.Refused:
		return nil, huma.Error409Conflict(said.Why)
	}
	return &moveOutput{Moved{Number: number, Status: said.State.Status, Changed: said.Verdict == decision.Applied, Why: said.Why}}, nil
}
