package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"chorus/internal/gap"
)

func cmdGap(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: gap ORDER KIND WHO [TEXT]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var seen []gap.Gap
	c := of(ts)
	err := c.wait(fmt.Sprintf("order %s to wait for %s: %s", args[0], args[2], args[1]), func() (bool, error) {
		var trace struct {
			Waits []struct{ Gap gap.Gap }
		}
		if err := c.api(ctx, http.MethodGet, "/v1/orders/"+args[0]+"/trace", nil, &trace); err != nil {
			if away(err) {
				err = nil
			}
			return false, err
		}
		seen = nil
		for _, w := range trace.Waits {
			seen = append(seen, w.Gap)
			if string(w.Gap.Kind) == args[1] && string(w.Gap.Who) == args[2] && (len(args) < 4 || strings.Contains(w.Gap.Why, args[3])) {
				return true, nil
			}
		}
		return false, nil
	})
	for _, g := range seen {
		fmt.Fprintf(ts.Stdout(), "%s, %s: %s\n", g.Kind, g.Who, g.Why)
	}
	ts.Check(err)
}
