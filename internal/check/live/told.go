package live

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	"chorus/internal/check"
	"chorus/internal/event"
)

// toldRow is what one order's customer was told.
type toldRow struct {
	Order event.OrderNo `json:"order"`
	Times check.Times   `json:"times"`
}

// asksTold reports whether it is known where to ask.
func (v *verifier) asksTold() bool { return v.src.Notifications.Base != "" }

// toldPage is a page of orders above a number.
func (v *verifier) toldPage(ctx context.Context, after event.OrderNo, limit int) ([]toldRow, error) {
	var page struct {
		Told []toldRow `json:"told"`
	}
	path := fmt.Sprintf("/v1/inspect/told?after=%s&limit=%d", after, limit)
	if err := v.src.Notifications.Do(ctx, http.MethodGet, path, nil, &page); err != nil {
		return nil, fmt.Errorf("read what customers were told: %w", err)
	}
	return page.Told, nil
}

// told goes through what customers were told, by ascending number of their orders.
func (v *verifier) told(ctx context.Context) iter.Seq2[toldRow, error] {
	return func(yield func(toldRow, error) bool) {
		for after := event.OrderNo(0); v.asksTold(); {
			page, err := v.toldPage(ctx, after, v.cfg.Page)
			if err != nil {
				yield(toldRow{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			after = page[len(page)-1].Order
		}
	}
}

// untold is what of an order that nothing is known of yet: that nothing was told, or that nobody was asked.
func (v *verifier) untold() check.Times {
	if v.asksTold() {
		return check.Times{}
	}
	return nil
}

// toldLane is the lane of what customers were told.
func (v *verifier) toldLane(ctx context.Context) (l *lane, stop func()) {
	next, stop := iter.Pull2(v.told(ctx))
	var head toldRow
	return &lane{
		next: func() (event.OrderNo, error) {
			row, err, more := next()
			head = row
			if !more {
				return 0, nil
			}
			return row.Order, err
		},
		take: func(o *check.Order) error { o.Told = head.Times; return nil },
	}, stop
}

// readTold reads what one order's customer was told.
func (v *verifier) readTold(ctx context.Context, o *check.Order) error {
	o.Told = v.untold()
	if !v.asksTold() {
		return nil
	}
	page, err := v.toldPage(ctx, o.No-1, 1)
	if err == nil && len(page) == 1 && page[0].Order == o.No {
		o.Told = page[0].Times
	}
	return err
}
