package orders

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"chorus/internal/event"
	"chorus/internal/web"
)

// Resolution ends a stuck step: a person has evidence that nothing is held or charged any more.
type Resolution struct {
	Step       event.Step `json:"step" enum:"stock,shipment,payment"`
	Evidence   string     `json:"evidence" minLength:"1" maxLength:"2000" doc:"How it is known that nothing is held or charged any more."`
	MoneyMoved bool       `json:"money_moved,omitempty" doc:"A stuck charge had been taken, and was paid back by hand."`
}

// Retry has a stuck step tried again.
type Retry struct {
	Step   event.Step `json:"step" enum:"stock,shipment,payment"`
	Reason string     `json:"reason,omitempty" maxLength:"2000" doc:"Why; it is kept in the audit."`
}

// Passed is the answer of the step's owner. The order moves when its fact arrives.
type Passed struct {
	Number event.OrderNo     `json:"number"`
	Step   event.Step        `json:"step" enum:"stock,shipment,payment"`
	Owner  event.Participant `json:"owner"`
	Why    string            `json:"why"`
}

type resolveInput struct {
	Number
	Body Body[Resolution]
}

type retryInput struct {
	Number
	Body Body[Retry]
}

type passOutput struct{ Body Passed }

func (a *api) registerSteps(h huma.API) {
	pass := func(name, summary string) huma.Operation {
		return huma.Operation{
			OperationID: name + "-step", Method: http.MethodPost, Path: "/v1/orders/{order}/" + name, Summary: summary,
			Description:      "The request is passed to the service that owns the step.",
			SkipValidateBody: true, BodyReadTimeout: a.cfg.RequestTimeout, MaxBodyBytes: 64 << 10, Errors: []int{400, 401, 404, 408, 409, 413, 415, 429, 502, 503, 504},
		}
	}
	huma.Register(h, pass("resolve", "End a stuck step with evidence"), func(ctx context.Context, in *resolveInput) (*passOutput, error) {
		return a.pass(ctx, in.Number, in.Body.Value.Step, "resolve", in.Body.Value)
	})
	huma.Register(h, pass("retry", "Try a stuck step again"), func(ctx context.Context, in *retryInput) (*passOutput, error) {
		return a.pass(ctx, in.Number, in.Body.Value.Step, "retry", in.Body.Value)
	})
}

// pass asks the step's owner. It is outside any transaction; a timeout leaves it open whether the owner has heard, and asking again is safe,
// because the owner refuses when the step is not stuck any more.
func (a *api) pass(ctx context.Context, path Number, step event.Step, what string, body any) (*passOutput, error) {
	number, err := parseNumber("path.order", path.Order)
	if err != nil {
		return nil, err
	}
	if _, found, err := a.door.Get(ctx, number); err != nil {
		return nil, a.trouble(ctx, "read the order", err)
	} else if !found {
		return nil, noOrder(number)
	}
	owner := step.Owner()
	client := a.owners[step]
	if client.Base == "" {
		return nil, huma.Error503ServiceUnavailable("the address of " + string(owner) + " is not configured")
	}
	var said struct {
		Why string `json:"why"`
	}
	err = client.Do(ctx, http.MethodPost, "/v1/orders/"+number.String()+"/"+what, body, &said)
	if err != nil {
		return nil, a.refusal(ctx, owner, err)
	}
	return &passOutput{Passed{Number: number, Step: step, Owner: owner, Why: said.Why}}, nil
}

// refusal passes the owner's own refusal on; that it cannot be reached is not the caller's fault.
func (a *api) refusal(ctx context.Context, owner event.Participant, err error) error {
	var problem *web.Problem
	if errors.As(err, &problem) && (problem.Status == http.StatusConflict || problem.Status == http.StatusUnprocessableEntity) {
		details := make([]error, len(problem.Errors))
		for i, f := range problem.Errors {
			details[i] = &huma.ErrorDetail{Location: f.Location, Message: f.Message}
		}
		return huma.NewError(problem.Status, problem.Detail, details...)
	}
	a.log.Warn("pass a request to a step's owner", "owner", owner, "err", err)
	if ctx.Err() != nil {
		return huma.Error504GatewayTimeout(string(owner) + " did not answer in time; whether it has heard is not known, ask again")
	}
	return huma.Error502BadGateway(string(owner) + " did not take the request")
}
