package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"chorus/internal/retail"
)

// loader places the orders of a source and watches how they end.
type loader struct {
	log         *slog.Logger
	front       *client
	src         source
	concurrency int
	patience    time.Duration
	board       *board
}

// product and count are rows of the catalogue's and the stock's bulk requests.
type product struct {
	SKU      string `json:"sku"`
	Name     string `json:"name"`
	Price    string `json:"price"`
	Currency string `json:"currency"`
}

type count struct {
	SKU    string `json:"sku"`
	OnHand int64  `json:"on_hand"`
}

// bulk is how many products go into one request.
const bulk = 2000

// stockUp loads the catalogue, and adds what the orders will want to what is held already. It may be run again: stock is never lowered.
func (l *loader) stockUp(ctx context.Context) error {
	have, err := l.stock(ctx)
	if err != nil {
		return err
	}
	var products []product
	var counts []count
	for _, g := range l.src.goods() {
		products = append(products, product{g.sku, g.name, g.price, retail.Currency})
		now := have[g.sku]
		counts = append(counts, count{g.sku, max(now.OnHand, now.Held+g.units)})
	}
	for chunk := range slices.Chunk(products, bulk) {
		if err := l.patiently(ctx, func() error { return l.front.do(ctx, http.MethodPut, "/v1/products", chunk, nil) }); err != nil {
			return fmt.Errorf("set %d products: %w", len(chunk), err)
		}
	}
	for chunk := range slices.Chunk(counts, bulk) {
		if err := l.patiently(ctx, func() error { return l.front.do(ctx, http.MethodPut, "/v1/stock", chunk, nil) }); err != nil {
			return fmt.Errorf("set the stock of %d products: %w", len(chunk), err)
		}
	}
	return nil
}

// onShelf is what inventory has of a product.
type onShelf struct {
	SKU    string `json:"sku"`
	OnHand int64  `json:"on_hand"`
	Held   int64  `json:"held"`
}

func (l *loader) stock(ctx context.Context) (map[string]onShelf, error) {
	have := map[string]onShelf{}
	for after := ""; ; {
		var page struct {
			Stock []onShelf `json:"stock"`
		}
		err := l.patiently(ctx, func() error {
			return l.front.do(ctx, http.MethodGet, "/v1/stock?after="+url.QueryEscape(after), nil, &page)
		})
		if err != nil {
			return nil, fmt.Errorf("read the stock: %w", err)
		}
		if len(page.Stock) == 0 {
			return have, nil
		}
		for _, s := range page.Stock {
			have[s.SKU] = s
			after = s.SKU
		}
	}
}

// patiently repeats a request that may be repeated until it is taken, refused for good, or the patience is at an end. A
// cluster that has never answered is not waited for: it is not there.
func (l *loader) patiently(ctx context.Context, ask func() error) error {
	until := time.Now().Add(l.patience)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := ask()
		if err == nil {
			l.board.answered.Store(true)
			return nil
		}
		if ctx.Err() != nil || !passing(err) || time.Now().After(until) || status(err) == 0 && !l.board.answered.Load() {
			return err
		}
		var r *refused
		if errors.As(err, &r) {
			pause = max(pause, r.after)
		}
		if sleep(ctx, pause) != nil {
			return err
		}
	}
}

// run places everything while it watches, and then waits for the rest to end.
func (l *loader) run(ctx context.Context, timeout time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.watch(ctx) })
	group.Go(func() error {
		defer stop() // ends the watch
		if err := l.placeAll(ctx); err != nil {
			return err
		}
		l.board.allPlaced()
		late := time.NewTimer(timeout)
		defer late.Stop()
		select {
		case <-l.board.rest:
		case <-late.C:
		case <-ctx.Done():
		}
		return nil
	})
	return group.Wait()
}

// placeAll places the orders at their times, a bounded number at once.
func (l *loader) placeAll(ctx context.Context) error {
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(l.concurrency)
	for j, err := range l.src.jobs() {
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		if wait := j.after - time.Since(began); wait > 0 && sleep(groupCtx, wait) != nil || groupCtx.Err() != nil {
			break
		}
		if j.cancel {
			l.board.wantCancelled(j.name)
			continue
		}
		group.Go(func() error {
			l.place(groupCtx, j)
			return nil
		})
	}
	return group.Wait()
}

// place places one order. What it comes to is on the board.
func (l *loader) place(ctx context.Context, j job) {
	var got accepted
	err := l.patiently(ctx, func() error { return l.front.place(ctx, j.cart, j.key, &got) })
	switch {
	case err == nil:
		l.board.placed(j.name, got.Number)
	case ctx.Err() != nil:
	case status(err) != 0 && !passing(err):
		l.board.refused(j.name, err)
	default:
		l.board.failed(j.name, err)
	}
}
