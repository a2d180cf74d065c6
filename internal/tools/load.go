package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// LoadCmd places many orders: made up, or real ones from files.
type LoadCmd struct {
	Front
	Output
	Count       int            `help:"Place so many made-up orders." placeholder:"N" xor:"source"`
	Rate        float64        `help:"With --count: orders a second; 0 for as fast as possible." default:"50"`
	Customers   map[string]int `help:"With --count: the mix of outcomes, as in ok=8,declined=1,cancel=1. Known: ok, review, fraud, declined, undeliverable, missing, sold-out, cancel." mapsep:"," default:"ok=1" placeholder:"OUTCOME=WEIGHT,..."`
	Replay      []string       `help:"Replay files of the Online Retail format; more may follow as arguments." type:"existingfile" placeholder:"FILE" sep:"none" xor:"source"`
	More        []string       `arg:"" optional:"" help:"More files to replay." type:"existingfile"`
	Speed       float64        `help:"With --replay: times as fast as it happened; 0 for as fast as possible." default:"0"`
	Concurrency int            `help:"Requests under way at the same time." default:"32"`
	Patience    time.Duration  `help:"How long a request is repeated while the cluster does not take it." default:"2m"`
	Timeout     time.Duration  `help:"How long to wait for the orders to end, once all are placed." default:"30m"`
}

// Help is shown by --help.
func (*LoadCmd) Help() string {
	return `Loads the catalogue and enough stock, places the orders, waits until each is confirmed, undone or in need of a person, and prints how they ended, what was refused and why, and how long it took from place to end (by the facts' own times).

  chorus load --count 1000 --rate 100 --customers ok=8,declined=1,sold-out=1
  chorus load --replay examples/data/2011-12-09.csv
  chorus load --replay day1.csv day2.csv --speed 600

Of a replay, an invoice is an order; an invoice whose number begins with C cancels the latest order of the same customer with the same lines, once that order is confirmed. A replay that is run again, also after it was interrupted, places nothing twice: each order's idempotency key is made of file and invoice.

Meanwhile kill what you like: requests that are not taken are repeated with the same key. Exit code 1 when an order could not be placed, or is still under way after --timeout.`
}

// Run loads.
func (c *LoadCmd) Run(ctx context.Context, log *slog.Logger) error {
	src, err := c.source()
	if err != nil {
		return err
	}
	front, err := c.client(ctx)
	if err != nil {
		return err
	}
	l := &loader{
		log: log, front: front, src: src, concurrency: max(1, c.Concurrency), patience: c.Patience, board: newBoard(),
	}
	if err := l.stockUp(ctx); err != nil {
		return fmt.Errorf("load the catalogue: %w", err)
	}
	began := time.Now()
	show := startProgress(c.stderr(), src.total(), l.board)
	err = l.run(ctx, c.Timeout)
	show.stop()
	if err != nil && ctx.Err() == nil {
		return err
	}
	s := l.board.summary(time.Since(began))
	s.Refused = src.refused()
	if c.JSON {
		err = c.printJSON(s)
	} else {
		c.summary(s)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ExitError{Code: 1, Err: errors.New("interrupted")}
	case len(s.NotPlaced) > 0 || s.UnderWay > 0:
		return ExitError{Code: 1, Err: fmt.Errorf("%d orders could not be placed, %d are still under way", sum(s.NotPlaced), s.UnderWay)}
	}
	return nil
}

func (c *LoadCmd) source() (source, error) {
	files := append(append([]string{}, c.Replay...), c.More...)
	switch {
	case c.Count > 0 && len(files) == 0:
		return newInvented(c.Count, c.Rate, c.Customers)
	case c.Count == 0 && len(c.Replay) > 0:
		return newReplay(files, c.Speed)
	}
	return nil, errors.New("load: want --count N or --replay FILE")
}
