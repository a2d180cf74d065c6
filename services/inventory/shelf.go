package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/inventory/stock"
)

// count is one product's row, locked for the transaction.
type count struct{ onHand, held int64 }

// shelf holds the products that a batch may touch. Holds change it in memory; Flush writes what changed.
type shelf struct {
	tx      pgx.Tx
	counts  map[string]*count
	changed map[string]bool
	fault   error // of a hold, reported by Flush: the transaction must not commit
}

// openShelf locks every product of the batch in sorted order, so that two orders with the same products in
// opposite order cannot wait for each other (CON-21).
func openShelf(ctx context.Context, tx pgx.Tx, states map[event.OrderNo]stock.State, items []participant.Item) (participant.Shelf[stock.State], error) {
	need := map[string]bool{}
	for _, item := range items {
		if held := states[item.Order]; held.Held && mayGiveBack(item.Input) {
			note(need, held.Lines)
		}
		if d, ok := item.Input.(decision.Delivered); ok {
			if placed, ok := d.Fact.(event.OrderPlaced); ok {
				note(need, placed.Lines)
			}
		}
	}
	sh := &shelf{tx: tx, counts: make(map[string]*count, len(need)), changed: map[string]bool{}}
	if len(need) == 0 {
		return sh, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT sku, on_hand, held FROM stock WHERE sku = ANY($1) ORDER BY sku FOR UPDATE`,
		slices.Sorted(maps.Keys(need)))
	if err != nil {
		return nil, fmt.Errorf("lock stock: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var sku string
		c := &count{}
		if err := rows.Scan(&sku, &c.onHand, &c.held); err != nil {
			return nil, fmt.Errorf("read stock: %w", err)
		}
		sh.counts[sku] = c
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("lock stock: %w", err)
	}
	return sh, nil
}

// mayGiveBack reports whether the input can end a hold. The warehouse's confirmation, which comes for every order, cannot; without it
// each popular product would be locked twice as often.
func mayGiveBack(in decision.Input) bool {
	answered, ok := in.(decision.Answered)
	return !ok || answered.Op != decision.Do || answered.Outcome.Kind != decision.Succeeded
}

func note(need map[string]bool, lines []event.Line) {
	for _, l := range lines {
		need[l.SKU] = true
	}
}

// Hold takes all lines of the order or nothing; two lines may name the same product.
func (s *shelf) Hold(order event.OrderNo, state stock.State, op decision.HoldOp) (decision.Weighed, bool) {
	wanted := map[string]int64{}
	for _, l := range state.Lines {
		if l.Quantity < 0 || l.Quantity > maxUnits || wanted[l.SKU] > maxUnits {
			return decision.Weighed{Short: l.SKU}, op == decision.Take // no shelf holds that; nor may a sum overflow
		}
		wanted[l.SKU] += l.Quantity
	}
	if op == decision.GiveBack {
		s.giveBack(order, wanted)
		return decision.Weighed{}, false
	}
	for _, sku := range slices.Sorted(maps.Keys(wanted)) {
		c, known := s.counts[sku]
		if !known || wanted[sku] > c.onHand-c.held {
			return decision.Weighed{Short: sku}, true
		}
	}
	for sku, n := range wanted {
		s.counts[sku].held += n
		s.changed[sku] = true
	}
	return decision.Weighed{Held: true}, true
}

// giveBack ends a hold. A product that is not on the shelf was either not locked or deleted: then nothing of the batch is right.
func (s *shelf) giveBack(order event.OrderNo, wanted map[string]int64) {
	for sku, n := range wanted {
		c, known := s.counts[sku]
		if !known {
			s.fault = fmt.Errorf("give back %d of %s held for order %s: the product is not on the shelf", n, sku, order)
			return
		}
		c.held -= n
		s.changed[sku] = true
	}
}

// Flush writes the changed counts in one statement.
func (s *shelf) Flush(ctx context.Context) error {
	if s.fault != nil || len(s.changed) == 0 {
		return s.fault
	}
	skus := slices.Sorted(maps.Keys(s.changed))
	held := make([]int64, len(skus))
	for i, sku := range skus {
		held[i] = s.counts[sku].held
	}
	if _, err := s.tx.Exec(ctx, `
		UPDATE stock SET held = n.held
		FROM unnest($1::text[], $2::bigint[]) AS n(sku, held) WHERE stock.sku = n.sku`, skus, held); err != nil {
		return fmt.Errorf("write stock: %w", err)
	}
	return nil
}
