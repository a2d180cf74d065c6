package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// placeAll places the orders and finishes each request, all in one transaction if that works.
func (a *api) placeAll(some []*placing) {
	alone := func(p *placing) (*placeOutput, error) { return a.placeOne(p.ctx, p.cart, p.claim) }
	if len(some) == 1 {
		some[0].finish(alone(some[0]))
		return
	}
	// None of the requests may end the others by going away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(some[0].ctx), a.cfg.RequestTimeout)
	defer cancel()
	drafts, err := a.drafts(ctx, some)
	if err != nil {
		a.each(some, alone)
		return
	}
	all := a.begin(some, drafts)
	if len(all) == 0 {
		return
	}
	left := make([]*placing, len(all))
	for i, b := range all {
		left[i] = b.placing
	}
	written, err := a.placeTogether(ctx, all)
	switch {
	case err == nil:
		for _, b := range all {
			b.finish(answer(b.accepted, ""), nil)
		}
	case written:
		at := map[*placing]Accepted{}
		for _, b := range all {
			at[b.placing] = b.accepted
		}
		a.each(left, func(p *placing) (*placeOutput, error) { return a.uncertain(p.ctx, at[p], err) })
	default:
		a.each(left, alone)
	}
}

// begun is a request whose order has its number and its price.
type begun struct {
	*placing
	accepted Accepted
	placed   event.OrderPlaced
	request  decision.Requested
}

// begin finishes the requests that were answered before or cannot be priced, and returns the rest.
func (a *api) begin(some []*placing, drafts []draft) (all []begun) {
	for i, p := range some {
		d := drafts[i]
		if d.earlier != nil {
			p.finish(d.earlier.replay(p.claim))
			continue
		}
		at := participant.Now()
		placed, err := a.price(d.products, p.cart)
		if err != nil {
			p.finish(nil, err)
			continue
		}
		placed.Deadline = at.Add(a.cfg.Deadline)
		all = append(all, begun{
			placing: p, placed: placed,
			accepted: accept(d.number, placed),
			request:  decision.Requested{ID: p.claim.requestID(at), At: at, Request: order.Place{OrderPlaced: placed}},
		})
	}
	return all
}

// drafts is draft for several requests, with one round trip. The products are those of all of them.
func (a *api) drafts(ctx context.Context, some []*placing) ([]draft, error) {
	drafts := make([]draft, len(some))
	products := map[string]Product{}
	at := map[string]*draft{}
	var skus []string
	var scopes [][]byte
	for i, p := range some {
		drafts[i].products = products
		for _, item := range p.cart.Items {
			skus = append(skus, item.SKU)
		}
		if p.claim.given() {
			scopes = append(scopes, p.claim.scope)
			at[string(p.claim.scope)] = &drafts[i]
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT nextval('order_numbers') FROM generate_series(1, $1)`, len(some)).Query(func(rows pgx.Rows) error {
		numbers, err := pgx.CollectRows(rows, pgx.RowTo[event.OrderNo])
		for i, n := range numbers {
			drafts[i].number = n
		}
		return err
	})
	batch.Queue(catalogue, skus).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Product])
		for _, p := range found {
			products[p.SKU] = p
		}
		return err
	})
	if len(scopes) > 0 {
		batch.Queue(`SELECT scope, body, response FROM idempotency WHERE scope = ANY($1) AND created_at > now() - $2::interval`,
			scopes, a.cfg.KeyLifetime).Query(func(rows pgx.Rows) error {
			_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s stored, err error) {
				var scope []byte
				if err = row.Scan(&scope, &s.body, &s.response); err == nil {
					at[string(scope)].earlier = &s
				}
				return s, err
			})
			return err
		})
	}
	return drafts, a.db.SendBatch(ctx, batch).Close()
}

// placeTogether takes all requests through the door, or none. written tells that all but the COMMIT was done.
func (a *api) placeTogether(ctx context.Context, all []begun) (written bool, err error) {
	asked := make([]participant.Asked, len(all))
	for i, b := range all {
		asked[i] = participant.Asked{Context: b.ctx, Order: b.accepted.Number, Request: b.request}
	}
	_, err = a.door.Requests(ctx, asked, func(tx pgx.Tx, said []participant.Answer[order.State]) (err error) {
		defer func() { written = err == nil }()
		for i := range all {
			if said[i].Verdict != decision.Applied {
				return fmt.Errorf("place order %s: %s", all[i].accepted.Number, said[i].Why)
			}
			all[i].accepted.EventID = said[i].Facts[0].String()
		}
		return a.recordAll(ctx, tx, all)
	})
	return written, err
}

// recordSQL is what record does for one request: the answers under their keys, and the rows of the orders whose key, if they have one, was free.
const recordSQL = `
	WITH asked AS (
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
		                     $9::text[], $10::text[], $11::timestamptz[], $12::bytea[], $13::bytea[], $14::text[], $15::bigint[])
		    AS a (order_no, customer, currency, lines, discount, tax, shipping_fee, total, shipping, event_id, at, scope, body, response, lock)
	), claimed AS (
		INSERT INTO idempotency AS i (scope, body, response, created_at)
		SELECT scope, body, response::jsonb, now() FROM asked WHERE scope IS NOT NULL AND pg_try_advisory_xact_lock(lock)
		ON CONFLICT (scope) DO UPDATE SET body = excluded.body, response = excluded.response, created_at = excluded.created_at
		WHERE i.created_at <= now() - $16::interval
		RETURNING scope
	)
	INSERT INTO orders (order_no, customer, currency, lines, discount, tax, shipping_fee, total, shipping, event_id, status, placed_at, updated_at)
	SELECT order_no, customer, currency, lines::jsonb, discount, tax, shipping_fee, total, shipping, event_id::uuid, 'PLACED', at, at
	  FROM asked WHERE scope IS NULL OR scope IN (SELECT scope FROM claimed)`

func jsonText(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(b), nil
}

// recordAll is record for several requests. If one of them cannot have its key, none is recorded.
func (a *api) recordAll(ctx context.Context, tx pgx.Tx, all []begun) error {
	n := len(all)
	var (
		numbers, locks                 = make([]int64, n), make([]int64, n)
		discounts, taxes, fees, totals = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		customers, currencies, lines   = make([]string, n), make([]string, n), make([]string, n)
		shippings, events, responses   = make([]string, n), make([]string, n), make([]string, n)
		scopes, bodies                 = make([][]byte, n), make([][]byte, n)
		at                             = make([]time.Time, n)
	)
	for i, b := range all {
		var err error
		if lines[i], err = jsonText(rowsOf(b.placed)); err != nil {
			return err
		}
		if responses[i], err = jsonText(b.accepted); err != nil {
			return err
		}
		numbers[i], customers[i], currencies[i] = int64(b.accepted.Number), b.placed.Customer, b.placed.Currency
		discounts[i], taxes[i], fees[i], totals[i] = b.placed.Discount, b.placed.Tax, b.placed.ShippingFee, b.placed.Total
		shippings[i], events[i], at[i] = string(b.placed.Shipping), b.accepted.EventID, b.request.At
		if b.claim.given() {
			scopes[i], bodies[i], locks[i] = b.claim.scope, b.claim.body, b.claim.lock()
		}
	}
	tag, err := tx.Exec(ctx, recordSQL, numbers, customers, currencies, lines, discounts, taxes, fees, totals, shippings, events, at,
		scopes, bodies, responses, locks, a.cfg.KeyLifetime)
	if err != nil {
		return fmt.Errorf("insert %d orders: %w", n, err)
	}
	if tag.RowsAffected() < int64(n) {
		return errKeyTaken
	}
	return nil
}
