package orders

import (
	"context"
	"fmt"
	"net/http"

	"github.com/bojanz/currency"
	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"chorus/internal/pg"
)

// Product is an entry of the catalogue.
type Product struct {
	SKU      string `json:"sku" minLength:"1" maxLength:"512"`
	Name     string `json:"name" maxLength:"16384"`
	Price    string `json:"price" pattern:"^(0|[1-9][0-9]{0,15})(\\.[0-9]{1,8})?$" patternDescription:"a decimal number from 0 with at most 8 digits behind the point" doc:"Major units, exact; may have more digits than the currency."`
	Currency string `json:"currency" minLength:"3" maxLength:"3" doc:"ISO 4217."`
}

// Products is a bulk of them, within bounds.
type Products []Product

// TransformSchema sets the bounds.
func (Products) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	least, most := 1, 10_000
	s.MinItems, s.MaxItems, s.Nullable = &least, &most, false
	return s
}

// Catalogue is a page of the catalogue, by code.
type Catalogue struct {
	Products []Product `json:"products" nullable:"false"`
	Next     string    `json:"next,omitempty" doc:"Goes into after for the next page; absent at the end."`
}

// Stored counts what a bulk has set.
type Stored struct {
	Set int `json:"set"`
}

type productsInput struct {
	After string `query:"after" maxLength:"512" doc:"Products whose code comes after this one."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type productsOutput struct{ Body Catalogue }

type setInput struct{ Body Body[Products] }

type setOutput struct{ Body Stored }

func (a *api) registerProducts(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "list-products", Method: http.MethodGet, Path: "/v1/products", Summary: "List the catalogue",
		Errors: []int{400, 401, 422, 503},
	}, a.products)
	huma.Register(h, huma.Operation{
		OperationID: "set-products", Method: http.MethodPut, Path: "/v1/products", Summary: "Add or change up to 10,000 products",
		Description:  "All or none. Orders that were placed keep the prices of their time.",
		MaxBodyBytes: 8 << 20, SkipValidateBody: true, BodyReadTimeout: a.cfg.RequestTimeout, Errors: []int{400, 401, 408, 413, 415, 429, 503},
	}, a.setProducts)
}

func (a *api) products(ctx context.Context, in *productsInput) (*productsOutput, error) {
	if !storable(in.After) {
		return nil, huma.Error400BadRequest("the cursor cannot be read", &huma.ErrorDetail{Location: "query.after", Message: "is not valid Unicode or holds NUL"})
	}
	rows, err := a.db.Query(ctx, `
		SELECT sku, name, unit_price::text, currency FROM products WHERE sku > $1 ORDER BY sku LIMIT $2`, in.After, in.Limit+1)
	if err != nil {
		return nil, a.trouble(ctx, "list products", err)
	}
	page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Product])
	if err != nil {
		return nil, a.trouble(ctx, "list products", err)
	}
	out := &productsOutput{Catalogue{Products: page[:min(len(page), in.Limit)]}}
	if len(page) > in.Limit {
		out.Body.Next = page[in.Limit-1].SKU
	}
	return out, nil
}

func (a *api) setProducts(ctx context.Context, in *setInput) (*setOutput, error) {
	list := in.Body.Value
	var faults []error
	skus, names := make([]string, len(list)), make([]string, len(list))
	prices, currencies := make([]string, len(list)), make([]string, len(list))
	seen := make(map[string]bool, len(list))
	for i, p := range list {
		if seen[p.SKU] {
			faults = append(faults, &huma.ErrorDetail{Location: fmt.Sprintf("body[%d].sku", i), Message: "is there twice"})
		}
		if !currency.IsValid(p.Currency) {
			faults = append(faults, &huma.ErrorDetail{Location: fmt.Sprintf("body[%d].currency", i), Message: "is not a currency of ISO 4217"})
		}
		seen[p.SKU] = true
		skus[i], names[i], prices[i], currencies[i] = p.SKU, p.Name, p.Price, p.Currency
	}
	if len(faults) > maxFaults {
		faults = append(faults[:maxFaults], &huma.ErrorDetail{Location: "body", Message: "and more of the kind"})
	}
	if len(faults) > 0 {
		return nil, huma.Error422UnprocessableEntity("the products are not valid", faults...)
	}
	// Sorted, so that two bulks at once do not wait for each other in a ring.
	err := pg.InTx(ctx, a.db, "set products", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO products AS p (sku, name, unit_price, currency)
			SELECT n.* FROM unnest($1::text[], $2::text[], $3::numeric[], $4::text[]) AS n(sku, name, unit_price, currency) ORDER BY n.sku
			ON CONFLICT (sku) DO UPDATE SET name = excluded.name, unit_price = excluded.unit_price, currency = excluded.currency, updated_at = now()
			WHERE (p.name, p.unit_price::text, p.currency) IS DISTINCT FROM (excluded.name, excluded.unit_price::text, excluded.currency)`,
			skus, names, prices, currencies)
		return err
	})
	if err != nil {
		return nil, a.trouble(ctx, "set products", err)
	}
	return &setOutput{Stored{Set: len(list)}}, nil
}
