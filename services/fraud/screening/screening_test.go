package screening_test

import (
	"testing"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/outside"
	"chorus/services/fraud/screening"
)

// TestNoRouteIsUnavailable: without a bureau the order is screened as UNAVAILABLE, with the reason, and billing declines (D7).
func TestNoRouteIsUnavailable(t *testing.T) {
	t.Parallel()
	r := screening.Defaults()
	r.Route = func(outside.Known) (string, bool) { return "", false }
	d := r.Decide(8842, screening.State{}, decision.Delivered{Envelope: event.Envelope{Owner: event.Orders, Fact: event.OrderPlaced{}}})
	want := event.OrderScreened{Verdict: event.Unavailable, Reason: outside.NoRoute}
	if len(d.Intents) != 0 || len(d.Facts) != 1 || d.Facts[0].Fact != want {
		t.Errorf("%+v", d)
	}
}
