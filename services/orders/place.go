package orders

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/services/orders/order"
)

// Cart is what a customer orders. Prices are the catalogue's and never the customer's (API-15).
type Cart struct {
	Customer string             `json:"customer" minLength:"1" maxLength:"16384" doc:"Who orders; kept as it is."`
	Items    []Item             `json:"items" minItems:"1" maxItems:"2000" nullable:"false"`
	Shipping event.ShippingType `json:"shipping,omitempty" enum:"domestic,international" default:"domestic"`
}

// Item is one line of a cart. Two lines may name the same product.
type Item struct {
	SKU      string `json:"sku" minLength:"1" maxLength:"512"`
	Quantity int64  `json:"quantity" minimum:"1" maximum:"1000000"`
}

// Accepted is the answer to a placed order, and what a repeated request gets again.
type Accepted struct {
	Number   event.OrderNo `json:"number"`
	Link     string        `json:"link"`
	EventID  string        `json:"event_id" format:"uuid" doc:"Of OrderPlaced; the tracker can wait for it."`
	Status   order.Status  `json:"status" enum:"PLACED"`
	Total    int64         `json:"total" doc:"Minor units."`
	Currency string        `json:"currency"`
}

// maxCart is the largest body: 2,000 lines of the longest codes in plain characters.
const maxCart = 2 << 20

func (a *api) registerPlace(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "place-order", Method: http.MethodPost, Path: "/v1/orders", Summary: "Place an order",
		Description: "The order is accepted and then makes its way; follow the link. With an Idempotency-Key the same request gets the same answer, " +
			"another request under the key is refused (422), and one that meets the first while it is still running gets 409 with Retry-After. " +
			"Without a key a request whose answer did not arrive must not be repeated blindly: the order may have been placed. A 503 with a Location says that the service itself " +
			"does not know; the order is there, or it never will be, a few seconds later.",
		DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxCart, SkipValidateBody: true, BodyReadTimeout: a.cfg.RequestTimeout,
		Errors:    []int{400, 401, 408, 409, 413, 415, 429, 503},
		Responses: map[string]*huma.Response{"202": {Description: "Accepted", Links: links("cancel-order", "deliver-order", "get-order", "resolve-step", "retry-step", "ship-order")}},
	}, a.place)
}

// links tell tools which operations the answer's number is for.
func links(operations ...string) map[string]*huma.Link {
	all := map[string]*huma.Link{}
	for _, op := range operations {
		all[op] = &huma.Link{OperationID: op, Parameters: map[string]any{"order": "$response.body#/number"}}
	}
	return all
}

type placeInput struct {
	Keyed
	Body Body[Cart]
}

type placeOutput struct {
	Location string `header:"Location"`
	Replayed string `header:"Idempotent-Replayed" doc:"\"true\" when the answer is that of an earlier request."`
	Body     Accepted
}

func answer(x Accepted, replayed string) *placeOutput {
	return &placeOutput{Location: x.Link, Replayed: replayed, Body: x}
}

func (a *api) place(ctx context.Context, in *placeInput) (*placeOutput, error) {
	cart := in.Body.Value
	return a.till.place(ctx, a, cart, in.claim("/v1/orders", cart.Customer, cart))
}

// placeOne places an order in a transaction of its own.
func (a *api) placeOne(ctx context.Context, cart Cart, claim claim) (*placeOutput, error) {
	draft, err := a.draft(ctx, cart, claim)
	if err != nil {
		return nil, a.trouble(ctx, "read the catalogue", err)
	}
	if draft.earlier != nil {
		return draft.earlier.replay(claim)
	}
	at := participant.Now()
	placed, err := a.price(draft.products, cart)
	if err != nil {
		return nil, err
	}
	placed.Deadline = at.Add(a.cfg.Deadline)

	accepted := accept(draft.number, placed)
	request := decision.Requested{ID: claim.requestID(at), At: at, Request: order.Place{OrderPlaced: placed}}
	written := false // all but the COMMIT was done
	said, err := a.door.Request(ctx, draft.number, request, func(tx pgx.Tx, said participant.Answer[order.State]) (err error) {
		defer func() { written = err == nil }()
		if said.Verdict != decision.Applied {
			return fmt.Errorf("place order %s: %s", draft.number, said.Why)
		}
		accepted.EventID = said.Facts[0].String()
		return a.record(ctx, tx, claim, accepted, placed, at)
	})
	switch {
	case errors.Is(err, errKeyTaken):
		return a.lost(ctx, claim)
	case errors.Is(err, participant.ErrTooLarge):
		return nil, huma.Error422UnprocessableEntity("the order cannot be placed", &huma.ErrorDetail{Location: "body.items", Message: "make an order that is too large; order them in parts"})
	case err != nil && written:
		return a.uncertain(ctx, accepted, err)
	case err != nil:
		return nil, a.trouble(ctx, "place the order", err)
	}
	a.log.Debug("order placed", "order", draft.number, "event", said.Facts[0])
	return answer(accepted, ""), nil
}

func accept(number event.OrderNo, placed event.OrderPlaced) Accepted {
	return Accepted{Number: number, Link: "/v1/orders/" + number.String(), Status: order.Placed, Total: placed.Total, Currency: placed.Currency}
}

// lookWithin bounds the look for an order whose COMMIT was not answered. The request's own time may be over.
const lookWithin = 2 * time.Second

// uncertain answers when the COMMIT was not answered: the order may have been placed, and a client that merely tries again would have two
// of them. The order is looked for by its number. If it is not to be seen, a commit that is still under way may yet bring it, so the answer
// says where to look.
func (a *api) uncertain(ctx context.Context, x Accepted, why error) (*placeOutput, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	var placed bool
	err := a.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM orders WHERE order_no = $1 AND event_id = $2::uuid)`, int64(x.Number), x.EventID).Scan(&placed)
	if err == nil && placed {
		a.log.Info("order placed, though its commit was not answered", "order", x.Number, "err", why)
		return answer(x, ""), nil
	}
	a.log.Warn("whether an order was placed is not known", "order", x.Number, "err", why, "look", err)
	return nil, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("whether order "+x.Number.String()+" was placed is not known: look at "+x.Link+
		" before you place it again, or place it again under the same Idempotency-Key"), http.Header{"Retry-After": {"1"}, "Location": {x.Link}})
}

// draft is what the database knows before the order is begun.
type draft struct {
	number   event.OrderNo
	products map[string]Product
	earlier  *stored
}

const catalogue = `SELECT sku, name, unit_price::text, currency FROM products WHERE sku = ANY($1)`

// draft asks in one round trip for a number, the prices and an earlier answer under the key. A number that is not used leaves a gap.
func (a *api) draft(ctx context.Context, cart Cart, c claim) (d draft, err error) {
	skus := make([]string, len(cart.Items))
	for i, item := range cart.Items {
		skus[i] = item.SKU
	}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT nextval('order_numbers')`).QueryRow(func(row pgx.Row) error { return row.Scan(&d.number) })
	batch.Queue(catalogue, skus).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Product])
		d.products = make(map[string]Product, len(found))
		for _, p := range found {
			d.products[p.SKU] = p
		}
		return err
	})
	if c.given() {
		batch.Queue(readStored, c.scope, a.cfg.KeyLifetime).QueryRow(func(row pgx.Row) error {
			d.earlier, err = scanStored(row)
			return err
		})
	}
	return d, a.db.SendBatch(ctx, batch).Close()
}

// price makes the fact of the cart. All faults are reported at once, each with its line.
func (a *api) price(products map[string]Product, cart Cart) (event.OrderPlaced, error) {
	placed := event.OrderPlaced{Customer: cart.Customer, Shipping: cart.Shipping, Lines: make([]event.Line, 0, len(cart.Items))}
	var faults []error
	for i, item := range cart.Items {
		p, known := products[item.SKU]
		switch at := fmt.Sprintf("body.items[%d].sku", i); {
		case !known:
			faults = append(faults, &huma.ErrorDetail{Location: at, Message: "is not in the catalogue"})
		case placed.Currency != "" && placed.Currency != p.Currency:
			faults = append(faults, &huma.ErrorDetail{Location: at, Message: "is priced in " + p.Currency + ", what stands before it in " + placed.Currency})
		default:
			placed.Currency = p.Currency
			placed.Lines = append(placed.Lines, event.Line{SKU: item.SKU, Quantity: item.Quantity, UnitPrice: p.Price})
		}
	}
	if len(faults) > maxFaults {
		faults = append(faults[:maxFaults], &huma.ErrorDetail{Location: "body.items", Message: "and more of the kind"})
	}
	if len(faults) > 0 {
		return placed, huma.Error422UnprocessableEntity("the order cannot be placed", faults...)
	}
	f, err := a.cfg.Shop.figure(placed.Currency, placed.Lines, placed.Shipping)
	if err != nil {
		return placed, huma.Error422UnprocessableEntity("the order cannot be placed", &huma.ErrorDetail{Location: "body.items", Message: err.Error()})
	}
	placed.Discount, placed.Tax, placed.ShippingFee, placed.Total = f.Discount, f.Tax, f.ShippingFee, f.Total
	return placed, nil
}

// row is an order's lines as the table holds them.
type row struct {
	SKU       string `json:"sku"`
	Quantity  int64  `json:"quantity"`
	UnitPrice string `json:"unit_price" doc:"Major units, exact; may have more digits than the currency."`
}

func rowsOf(placed event.OrderPlaced) []row {
	lines := make([]row, len(placed.Lines))
	for i, l := range placed.Lines {
		lines[i] = row(l)
	}
	return lines
}

// record writes the order's row and the answer under its key, last in the door's transaction and in one statement. Nothing waits
// here: who cannot have the key is told so and rolls back (errKeyTaken).
func (a *api) record(ctx context.Context, tx pgx.Tx, c claim, x Accepted, placed event.OrderPlaced, at time.Time) error {
	lines := rowsOf(placed)
	const insert = `
		INSERT INTO orders (order_no, customer, currency, lines, discount, tax, shipping_fee, total, shipping, event_id, status, placed_at, updated_at)
		SELECT $1, $2, $3, $4::jsonb, $5, $6, $7, $8, $9, $10::uuid, 'PLACED', $11, $11`
	args := []any{int64(x.Number), placed.Customer, placed.Currency, lines, placed.Discount, placed.Tax, placed.ShippingFee, placed.Total,
		string(placed.Shipping), x.EventID, at}
	sql := insert
	if c.given() {
		sql = claimKey + insert + ` WHERE EXISTS (SELECT FROM claimed)`
		args = append(args, c.scope, c.body, x, c.lock(), a.cfg.KeyLifetime)
	}
	tag, err := tx.Exec(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("insert order %s: %w", x.Number, err)
	}
	if tag.RowsAffected() == 0 {
		return errKeyTaken
	}
	return nil
}
