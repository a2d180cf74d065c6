package tools

import (
	"iter"
	"time"

	"chorus/internal/retail"
)

// source is where the orders of a load come from.
type source interface {
	goods() []goods
	jobs() iter.Seq2[job, error]
	total() int // orders
	refused() map[retail.Reason]int
}

// goods is a product to be loaded, and how many units the orders will want.
type goods struct {
	sku, name, price string
	units            int64
}

// job is one order to place, or the cancellation of one.
type job struct {
	name   string        // of the order: an invoice, or a running number
	key    string        // idempotency key
	after  time.Duration // since the start; 0 for at once
	cart   cart
	cancel bool // cancel the order of this name
}
