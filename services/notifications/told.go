package notifications

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/event"
	"chorus/internal/web"
)

// Told is how often a customer was told each thing about an order.
type Told struct {
	Order event.OrderNo        `json:"order"`
	Times map[event.Type]int64 `json:"times"`
}

// mostTold bounds a page.
const mostTold = 5000

// told answers GET /v1/inspect/told?after=ORDER&limit=N with the orders above a number, in ascending order.
func told(db *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		after, limit := int64(0), mostTold
		for name, set := range map[string]func(n int64){
			"after": func(n int64) { after = n }, "limit": func(n int64) { limit = int(min(n, mostTold)) },
		} {
			text := r.URL.Query().Get(name)
			if text == "" {
				continue
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 {
				web.Fail(w, http.StatusBadRequest, "the query cannot be read", web.Fault{Location: "query." + name, Message: "must be a whole number from 0"})
				return
			}
			set(n)
		}
		page, err := readTold(r.Context(), db, after, limit)
		if err != nil {
			web.Fail(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		web.JSON(w, http.StatusOK, map[string]any{"told": page})
	}
}

func readTold(ctx context.Context, db *pgxpool.Pool, after int64, limit int) ([]Told, error) {
	rows, _ := db.Query(ctx, `
		WITH page AS (SELECT DISTINCT order_no FROM notifications WHERE order_no > $1 ORDER BY order_no LIMIT $2)
		SELECT order_no, jsonb_object_agg(type, times)
		FROM (SELECT order_no, type, count(*) AS times FROM page JOIN notifications USING (order_no) GROUP BY order_no, type) AS t
		GROUP BY order_no ORDER BY order_no`, after, limit)
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Told, err error) {
		err = row.Scan(&t.Order, &t.Times)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what was told: %w", err)
	}
	return page, nil
}
