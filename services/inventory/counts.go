package inventory

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/pg"
	"chorus/internal/web"
)

// Count is one product's stock as the API has it.
type Count struct {
	SKU       string `json:"sku"`
	OnHand    int64  `json:"on_hand"`
	Held      int64  `json:"held"`
	Available int64  `json:"available"`
}

// maxCounts bounds one PUT, and maxUnits one product's count, so that no sum of held units overflows.
const (
	maxCounts = 10_000
	maxUnits  = 1_000_000_000_000
	maxSKU    = 200 // bytes; an index takes no more than 2,700
)

// counts is the API of the counts.
type counts struct{ db *pgxpool.Pool }

func (c counts) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/stock", c.get)
	mux.HandleFunc("PUT /v1/stock", c.put)
}

// put sets what is on hand. Held units stay held: a count below them is refused.
func (c counts) put(w http.ResponseWriter, r *http.Request) {
	var body []struct {
		SKU    string `json:"sku"`
		OnHand int64  `json:"on_hand"`
	}
	if !web.Read(w, r, 4<<20, &body) {
		return
	}
	var faults []web.Fault
	if len(body) > maxCounts {
		faults = append(faults, web.Fault{Location: "body", Message: fmt.Sprintf("at most %d products at once", maxCounts)})
	}
	skus, onHand := make([]string, len(body)), make([]int64, len(body))
	seen := map[string]bool{}
	for i, p := range body {
		at := "body[" + strconv.Itoa(i) + "]"
		if p.SKU == "" || len(p.SKU) > maxSKU || seen[p.SKU] {
			faults = append(faults, web.Fault{Location: at + ".sku", Message: fmt.Sprintf("must be there, only once, and of %d bytes at most", maxSKU)})
		}
		if p.OnHand < 0 || p.OnHand > maxUnits {
			faults = append(faults, web.Fault{Location: at + ".on_hand", Message: fmt.Sprintf("must be 0 to %d", int64(maxUnits))})
		}
		seen[p.SKU] = true
		skus[i], onHand[i] = p.SKU, p.OnHand
	}
	if len(faults) > 0 {
		web.Fail(w, http.StatusUnprocessableEntity, "the counts are not valid", faults...)
		return
	}
	err := pg.InTx(r.Context(), c.db, "set stock", func(tx pgx.Tx) error {
		_, err := tx.Exec(r.Context(), `
			INSERT INTO stock (sku, on_hand)
			SELECT n.* FROM unnest($1::text[], $2::bigint[]) AS n(sku, on_hand) ORDER BY n.sku
			ON CONFLICT (sku) DO UPDATE SET on_hand = excluded.on_hand`, skus, onHand)
		return err
	})
	switch {
	case pg.Code(err) == "23514":
		web.Fail(w, http.StatusConflict, "a count is below what orders hold", c.below(r.Context(), skus, onHand)...)
	case err != nil:
		web.Fail(w, http.StatusServiceUnavailable, err.Error())
	default:
		web.JSON(w, http.StatusOK, map[string]int{"set": len(body)})
	}
}

// below names the counts that are less than what is held.
func (c counts) below(ctx context.Context, skus []string, onHand []int64) []web.Fault {
	rows, err := c.db.Query(ctx, `
		SELECT n.at - 1, stock.held FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS n(sku, on_hand, at)
		  JOIN stock ON stock.sku = n.sku WHERE stock.held > n.on_hand ORDER BY n.at`, skus, onHand)
	if err != nil {
		return nil // they would only have helped; that there are some is certain
	}
	faults, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (web.Fault, error) {
		var at, held int64
		err := row.Scan(&at, &held)
		return web.Fault{Location: fmt.Sprintf("body[%d].on_hand", at), Message: fmt.Sprintf("orders hold %d", held)}, err
	})
	if err != nil {
		return nil
	}
	return faults
}

func (c counts) get(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for _, name := range []string{"sku", "after"} {
		if s := q.Get(name); !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			web.Fail(w, http.StatusBadRequest, "the query cannot be read", web.Fault{Location: "query." + name, Message: "is not valid Unicode or holds NUL"})
			return
		}
	}
	list, err := c.list(r.Context(), q.Get("sku"), q.Get("after"))
	if err != nil {
		web.Fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	web.JSON(w, http.StatusOK, map[string]any{"stock": list})
}

// list returns one product, or a page of 10,000 by SKU.
func (c counts) list(ctx context.Context, sku, after string) ([]Count, error) {
	rows, err := c.db.Query(ctx, `
		SELECT sku, on_hand, held, on_hand - held FROM stock
		WHERE ($1 = '' OR sku = $1) AND sku > $2 ORDER BY sku LIMIT 10000`, sku, after)
	if err != nil {
		return nil, fmt.Errorf("read stock: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Count])
	if err != nil {
		return nil, fmt.Errorf("read stock: %w", err)
	}
	return list, nil
}
