package experiment

import (
	"fmt"
	"net/http"

	"chorus/internal/provider/simulated"
	"chorus/services/orders/order"
)

// paths are the ways that an order takes when nothing is broken.
func paths() []Experiment {
	return []Experiment{
		{Name: "happy-path", Seed: "E1", Title: "an order inside the country goes through", run: happyPath,
			About: "Elsewhere the order stays PENDING for ever, whatever became of it. Here its status says how it ended, and each provider was called once."},
		{Name: "international", Seed: "E2", Title: "an order that goes abroad takes the other carrier", run: international,
			About: "The route is chosen by a condition of providers.yaml over the order, not by code."},
		{Name: "risk-routing", Seed: "E3", Title: "a risky order is charged by the processor for high values", run: riskRouting,
			About: "Elsewhere the score follows from the parity of the order's number. Here the bureau scores the customer, and the score travels in a fact to whoever routes by it."},
		{Name: "forced-outcomes", Seed: "E19", Title: "words in a name force an outcome", run: forcedOutcomes,
			About: "Elsewhere a route is pointed at another URL, and the process started again. Here the input says what shall go wrong, so that it can be shown at any time beside orders that go well."},
		{Name: "unknown-shipping", Seed: "E20", Title: "nobody ships by EXPRESS, so nobody is charged for it", run: unknownShipping,
			About: "Elsewhere no route matches, which counts as success: the customer is charged and nothing is shipped. Here the request is refused and names the field."},
	}
}

func happyPath(t *trial) {
	no := t.place("ada")
	t.ends(no, order.Confirmed)
	for _, provider := range []string{simulated.Warehouse, simulated.Bureau, simulated.CarrierDomestic, simulated.PayStandard} {
		t.expectCount("calls to "+provider, 1, t.calls(no, provider))
	}
	t.holds(no, []string{simulated.Warehouse, simulated.CarrierDomestic, simulated.PayStandard}, 7350)
}

func international(t *trial) {
	c := teapots("ada", 2)
	c.Shipping = "international"
	no := t.order(c)
	t.ends(no, order.Confirmed)
	t.holds(no, []string{simulated.Warehouse, simulated.CarrierInternational, simulated.PayStandard}, 4900)
}

func riskRouting(t *trial) {
	calm, risky := t.place("ada"), t.place("review-rita")
	t.ends(calm, order.Confirmed)
	t.ends(risky, order.Confirmed)
	t.holds(calm, []string{simulated.Warehouse, simulated.CarrierDomestic, simulated.PayStandard}, 7350)
	t.holds(risky, []string{simulated.Warehouse, simulated.CarrierDomestic, simulated.PayHighValue}, 7350)
}

func forcedOutcomes(t *trial) {
	broke, nowhere, fraud := t.place("declined-dan"), t.place("undeliverable-una"), t.place("fraud-fred")
	t.ends(broke, order.Failed)
	t.ends(nowhere, order.Failed)
	t.ends(fraud, order.Failed)
	t.undone(broke, simulated.CarrierDomestic, simulated.Warehouse)
	t.undone(nowhere, simulated.Warehouse)
	t.holds(broke, nil, 0)
	t.holds(nowhere, nil, 0)
	t.holds(fraud, nil, 0)
	t.expectCount("charges tried for the one without a carrier", 0, t.calls(nowhere, simulated.PayStandard))
	t.expectCount("charges tried for the fraud", 0, t.calls(fraud, simulated.PayStandard)+t.calls(fraud, simulated.PayHighValue))
}

func unknownShipping(t *trial) {
	c := teapots("ada", 1)
	c.Shipping = "express"
	t.step("An order is sent with shipping %q.", c.Shipping)
	t.try("send it", func() error {
		code, err := t.ask(http.MethodPost, "/v1/orders", c, nil)
		t.expectWord("it is", code == http.StatusUnprocessableEntity || code == http.StatusBadRequest, "refused", fmt.Sprint("answered ", code))
		return err
	})
	t.step("Words of another kind: a quantity of -1, and a product that the shop does not have.")
	for _, c := range []cart{{Customer: "ada", Items: []item{{"TEAPOT", -1}}}, {Customer: "ada", Items: []item{{"NOSUCH", 1}}}} {
		t.try("send it", func() error {
			code, err := t.ask(http.MethodPost, "/v1/orders", c, nil)
			t.expectWord(fmt.Sprintf("%d x %s is", c.Items[0].Quantity, c.Items[0].SKU), code/100 == 4, "refused", fmt.Sprint("answered ", code))
			return err
		})
	}
}
