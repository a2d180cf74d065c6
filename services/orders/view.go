package orders

import (
	"strings"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// statusText says honestly what a status means: what is known, and no more.
func statusText(s order.State) string {
	text := plainText(s)
	if !s.NeedsAttention() {
		return text
	}
	if steps := s.StuckSteps(); len(steps) > 0 {
		return text + "; a person must see to the " + string(steps[0])
	}
	return text + "; it takes too long: the " + string(s.OpenStep()) + " is still open, " + string(s.OpenStep().Owner()) + " must see to it"
}

func plainText(s order.State) string {
	switch s.Status {
	case order.Placed:
		return "accepted; stock, shipment and payment are being arranged"
	case order.Confirmed:
		return "reserved, booked and paid"
	case order.Shipped:
		return "handed over to the carrier; it can no longer be cancelled"
	case order.Delivered:
		return "delivered"
	case order.Rejected:
		return "the stock could not be reserved, no money was taken"
	case order.Cancelling, order.Compensating:
		return cause(s) + "; what was done is being undone"
	case order.Cancelled, order.Failed:
		return cause(s) + "; nothing is held and nothing is charged"
	}
	return string(s.Status)
}

// cause is what stands before the colon in the order's reason. It is the rules' own; what follows is a provider's or an operator's text,
// which is not for customers: the status of a look-up, the evidence of a resolution.
func cause(s order.State) string {
	ours, _, _ := strings.Cut(s.Reason, ":")
	if ours == "needs attention" {
		return "a step got stuck"
	}
	return ours
}

// actions asks the rules themselves what they would allow.
func (a *api) actions(number event.OrderNo, s order.State) []string {
	allowed := []string{}
	for _, x := range []struct {
		name    string
		request decision.Request
	}{
		{"cancel", decision.Cancel{By: event.ByCustomer}}, {"compensate", decision.Cancel{By: event.ByOperator}}, {"ship", decision.Ship{}}, {"deliver", decision.Deliver{}},
	} {
		said := a.cfg.Rules.Decide(number, s, decision.Requested{At: participant.Now(), Request: x.request})
		if said.Verdict == decision.Applied {
			allowed = append(allowed, x.name)
		}
	}
	for _, step := range s.StuckSteps() {
		allowed = append(allowed, "resolve:"+string(step), "retry:"+string(step))
	}
	return allowed
}
