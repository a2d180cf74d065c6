package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"chorus/internal/web"
	"chorus/services/orders/order"
)

// moved is the answer to a move.
type moved struct {
	Status  order.Status `json:"status"`
	Changed bool         `json:"changed"`
}

// move asks for a change of an order, and says what was answered: its status code, and what the order is.
func (c *system) move(ctx context.Context, what, number string) (code int, m moved, err error) {
	err = c.api(ctx, http.MethodPost, "/v1/orders/"+number+"/"+what, struct{}{}, &m)
	var p *web.Problem
	if errors.As(err, &p) {
		return p.Status, m, nil
	}
	return http.StatusOK, m, err
}

func cmdAtOnce(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: at-once N MOVE ORDER")
	}
	c := of(ts)
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lines, errs := make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var code int
			var m moved
			code, m, errs[i] = c.move(ctx, args[1], args[2])
			lines[i] = fmt.Sprintf("%d changed=%t", code, m.Changed)
		})
	}
	wg.Wait()
	ts.Check(errors.Join(errs...))
	fmt.Fprintln(ts.Stdout(), strings.Join(lines, "\n"))
}

func cmdRace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: race N")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	won := map[string]int{}
	for i := range n {
		number, err := c.place(ctx, fmt.Sprintf("racer %d", i))
		ts.Check(err)
		ts.Check(c.awaitOrder(ctx, number, "CONFIRMED", func(v orderView) bool { return v.Status == order.Confirmed }))
		winner, err := c.raceOne(ctx, number)
		if err != nil {
			ts.Fatalf("order %s: %v", number, err)
		}
		won[winner]++
	}
	ts.Logf("won: %v", won)
}

// raceOne has an order shipped and cancelled at the same time. One must be told yes, the other no, and the order must be what the
// winner was told.
func (c *system) raceOne(ctx context.Context, number string) (winner string, err error) {
	type reply struct {
		code int
		err  error
	}
	start, replies := make(chan struct{}), map[string]*reply{"ship": {}, "cancel": {}}
	var wg sync.WaitGroup
	for what, r := range replies {
		wg.Go(func() {
			<-start
			r.code, _, r.err = c.move(ctx, what, number)
		})
	}
	close(start)
	wg.Wait()
	ship, cancel := replies["ship"], replies["cancel"]
	end := map[string]order.Status{"ship": order.Shipped, "cancel": order.Cancelled}
	switch {
	case ship.err != nil || cancel.err != nil:
		return "", errors.Join(ship.err, cancel.err)
	case ship.code == http.StatusOK && cancel.code == http.StatusConflict:
		winner = "ship"
	case ship.code == http.StatusConflict && cancel.code == http.StatusOK:
		winner = "cancel"
	default:
		return "", fmt.Errorf("ship was answered %d and cancel %d: one must win", ship.code, cancel.code)
	}
	return winner, c.awaitOrder(ctx, number, string(end[winner]), func(v orderView) bool { return v.Status == end[winner] })
}
