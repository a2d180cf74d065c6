package orders

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"chorus/internal/event"
	"chorus/services/orders/order"
)

// Summary is an order in a list.
type Summary struct {
	Number         event.OrderNo      `json:"number"`
	Status         order.Status       `json:"status" enum:"PLACED,CONFIRMED,SHIPPED,DELIVERED,REJECTED,CANCELLING,CANCELLED,COMPENSATING,FAILED"`
	Customer       string             `json:"customer"`
	Total          int64              `json:"total" doc:"Minor units."`
	Currency       string             `json:"currency"`
	Shipping       event.ShippingType `json:"shipping" enum:"domestic,international"`
	NeedsAttention bool               `json:"needs_attention"`
	PlacedAt       time.Time          `json:"placed_at"`
	UpdatedAt      time.Time          `json:"updated_at" doc:"When the status last changed."`
}

// Order is all that the service knows of an order.
type Order struct {
	Summary
	StatusText  string    `json:"status_text" doc:"What the status means for the customer."`
	Reason      string    `json:"reason,omitempty" doc:"Why the order goes or went back, in full, for operators."`
	Stuck       []string  `json:"stuck" nullable:"false" doc:"Steps that wait for a person, the one to look at first in front."`
	Actions     []string  `json:"actions" nullable:"false" doc:"What may be asked of the order now: cancel, compensate (cancel by OPERATOR), ship, deliver, resolve:STEP, retry:STEP."`
	Lines       []row     `json:"lines" nullable:"false"`
	Goods       int64     `json:"goods" doc:"Minor units, as are the next four. goods - discount + tax + shipping_fee = total."`
	Discount    int64     `json:"discount"`
	Tax         int64     `json:"tax"`
	ShippingFee int64     `json:"shipping_fee"`
	Deadline    time.Time `json:"deadline" doc:"When a placed order gives up."`
	UndoBy      time.Time `json:"undo_by,omitzero" doc:"When an order on its way back needs attention."`
	EventID     string    `json:"event_id" format:"uuid"`
	Archived    bool      `json:"archived,omitempty" doc:"The order ended long ago and is in no list but the archive's."`
}

// List is a page of orders, the newest first.
type List struct {
	Orders []Summary `json:"orders" nullable:"false"`
	Next   string    `json:"next,omitempty" doc:"Goes into after for the next older page; absent at the end."`
	Prev   string    `json:"prev,omitempty" doc:"Goes into before for the next newer page; absent at the newest."`
}

func (a *api) registerRead(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "list-orders", Method: http.MethodGet, Path: "/v1/orders", Summary: "List orders, the newest first",
		Description: "Pages hold on to order numbers, so an order that is placed meanwhile neither repeats nor hides another.",
		Errors:      []int{400, 401, 422, 503},
	}, a.list)
	huma.Register(h, huma.Operation{
		OperationID: "get-order", Method: http.MethodGet, Path: "/v1/orders/{order}", Summary: "Get one order",
		Errors: []int{400, 401, 404, 503},
	}, a.get)
}

type listInput struct {
	After          string `query:"after" doc:"Orders older than this number."`
	Before         string `query:"before" doc:"Orders newer than this number; not together with after."`
	Limit          int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Status         string `query:"status" enum:"PLACED,CONFIRMED,SHIPPED,DELIVERED,REJECTED,CANCELLING,CANCELLED,COMPENSATING,FAILED"`
	Customer       string `query:"customer" maxLength:"16384"`
	NeedsAttention bool   `query:"needs_attention" doc:"Only those that need a person."`
	Archived       bool   `query:"archived" doc:"List the archive instead: orders that ended long ago."`
}

type listOutput struct{ Body List }

func (a *api) list(ctx context.Context, in *listInput) (*listOutput, error) {
	sql, args, err := in.query()
	if err != nil {
		return nil, err
	}
	rows, err := a.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, a.trouble(ctx, "list orders", err)
	}
	page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Summary])
	if err != nil {
		return nil, a.trouble(ctx, "list orders", err)
	}
	more := len(page) > in.Limit
	page = page[:min(len(page), in.Limit)]
	backwards := in.Before != ""
	if backwards {
		slices.Reverse(page)
	}
	out := &listOutput{List{Orders: page}}
	if len(page) == 0 {
		return out, nil
	}
	if more || backwards { // behind a page that was walked back to stands the page it was walked back from
		out.Body.Next = page[len(page)-1].Number.String()
	}
	if in.After != "" || backwards && more {
		out.Body.Prev = page[0].Number.String()
	}
	return out, nil
}

// query builds the statement of a page and one more row. Each combination of filters is a statement of its own, so that each
// finds its index.
func (in *listInput) query() (sql string, args []any, err error) {
	var where []string
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(args))))
	}
	direction := "DESC"
	switch {
	case in.After != "" && in.Before != "":
		return "", nil, huma.Error422UnprocessableEntity("after and before exclude each other", &huma.ErrorDetail{Location: "query.before", Message: "not together with after"})
	case in.After != "":
		n, err := parseNumber("query.after", in.After)
		if err != nil {
			return "", nil, err
		}
		add("order_no < ?", int64(n))
	case in.Before != "":
		n, err := parseNumber("query.before", in.Before)
		if err != nil {
			return "", nil, err
		}
		add("order_no > ?", int64(n))
		direction = "ASC"
	}
	if in.Status != "" {
		add("status = ?", in.Status)
	}
	if in.Customer != "" {
		if !storable(in.Customer) {
			return "", nil, huma.Error400BadRequest("the customer cannot be read", &huma.ErrorDetail{Location: "query.customer", Message: "is not valid Unicode or holds NUL"})
		}
		add("hashtextextended(customer, 0) = hashtextextended(?, 0) AND customer = ?", in.Customer)
	}
	if in.NeedsAttention {
		where = append(where, "needs_attention")
	}
	if len(where) == 0 {
		where = []string{"true"}
	}
	table := "orders"
	if in.Archived {
		table = "archived_orders"
	}
	args = append(args, in.Limit+1)
	return `
		SELECT order_no, status, customer, total, currency, shipping, needs_attention, placed_at, updated_at
		FROM ` + table + ` WHERE ` + strings.Join(where, " AND ") + `
		ORDER BY order_no ` + direction + fmt.Sprintf(" LIMIT $%d", len(args)), args, nil
}

// Number is the order's number in a path.
type Number struct {
	Order string `path:"order" doc:"The order's number."`
}

type getOutput struct{ Body Order }

func (a *api) get(ctx context.Context, in *Number) (*getOutput, error) {
	number, err := parseNumber("path.order", in.Order)
	if err != nil {
		return nil, err
	}
	o, s, err := a.load(ctx, number)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, noOrder(number)
	case err != nil:
		return nil, a.trouble(ctx, "read the order", err)
	}
	o.Goods = o.Total - o.ShippingFee - o.Tax + o.Discount
	o.Reason, o.Deadline, o.UndoBy = s.Reason, s.Deadline, s.BackBy
	o.Status, o.NeedsAttention, o.Stuck = s.Status, s.NeedsAttention(), stuckSteps(s)
	o.StatusText = statusText(s)
	o.Actions = a.actions(number, s)
	return &getOutput{o}, nil
}

// load reads the order's row, wherever it is, and its state in one statement, so that they agree.
func (a *api) load(ctx context.Context, number event.OrderNo) (o Order, s order.State, err error) {
	const columns = `
		SELECT o.order_no, o.customer, o.currency, o.lines, o.discount, o.tax, o.shipping_fee, o.total, o.shipping,
		       o.event_id::text, o.placed_at, o.updated_at, s.state, `
	err = a.db.QueryRow(ctx,
		columns+`false FROM orders o JOIN order_states s USING (order_no) WHERE o.order_no = $1 UNION ALL`+
			columns+`true FROM archived_orders o JOIN order_states s USING (order_no) WHERE o.order_no = $1`, int64(number)).Scan(
		&o.Number, &o.Customer, &o.Currency, &o.Lines, &o.Discount, &o.Tax, &o.ShippingFee, &o.Total, &o.Shipping,
		&o.EventID, &o.PlacedAt, &o.UpdatedAt, &s, &o.Archived)
	return o, s, err
}
