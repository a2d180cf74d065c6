package deploy

import (
	"context"
	"fmt"
	"net/http"

	"chorus/internal/inspect"
)

// goods is the shop's catalogue at the first start, so that there is something to order.
var goods = []struct {
	SKU, Name, Price string
	OnHand           int64
}{
	{"TEAPOT", "Stoneware teapot", "24.50", 1_000_000},
	{"CUP", "Stoneware cup", "8.90", 1_000_000},
	{"KETTLE", "Whistling kettle", "39.00", 1_000_000},
	{"LANTERN", "White metal lantern", "3.39", 1_000_000},
	{"LUNCHBAG", "Lunch bag, vintage doily", "1.65", 1_000_000},
	{"CLOCK", "Station clock", "129.00", 100_000},
	{"LAMP", "Desk lamp, brass", "74.95", 100_000},
	{"CHAIR", "Bentwood chair", "219.00", 100_000},
	{"BUTTON", "Brass button, sold by the gross", "0.035", 10_000_000},
	{"POSTCARD", "Postcard, a gift", "0", 1_000_000},
	{"LASTONE", "The last one in the shop", "12.00", 1},
	{"SOLDOUT", "Sold out since spring", "5.00", 0},
}

// Seed fills an empty shop, by the addresses of orders and inventory. A shop that has products is left alone.
func Seed(ctx context.Context, orders, inventory string) error {
	client, shelves := inspect.Client{Base: orders}, inspect.Client{Base: inventory}
	var there struct {
		Products []struct {
			SKU string `json:"sku"`
		} `json:"products"`
	}
	if err := client.Do(ctx, http.MethodGet, "/v1/products?limit=1", nil, &there); err != nil {
		return fmt.Errorf("read the catalogue: %w", err)
	}
	if len(there.Products) > 0 {
		return nil
	}
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
	var products []product
	var counts []count
	for _, g := range goods {
		products = append(products, product{g.SKU, g.Name, g.Price, "GBP"})
		counts = append(counts, count{g.SKU, g.OnHand})
	}
	// The counts first: goods that can be ordered are in stock.
	if err := shelves.Do(ctx, http.MethodPut, "/v1/stock", counts, nil); err != nil {
		return fmt.Errorf("load the stock: %w", err)
	}
	if err := client.Do(ctx, http.MethodPut, "/v1/products", products, nil); err != nil {
		return fmt.Errorf("load the catalogue: %w", err)
	}
	return nil
}
