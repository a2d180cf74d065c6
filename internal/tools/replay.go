package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"chorus/internal/retail"
)

// replay makes orders of files.
type replay struct {
	files    []string
	speed    float64
	products []goods
	orders   int
	shop     *retail.Shop // of the reading that places the orders
}

// newReplay reads the files once, for the catalogue and the stock.
func newReplay(files []string, speed float64) (*replay, error) {
	if speed < 0 {
		return nil, fmt.Errorf("--speed %g: want 0 or more", speed)
	}
	r := &replay{files: files, speed: speed}
	at := map[string]int{}
	for inv, err := range r.invoices() {
		if err != nil {
			return nil, err
		}
		if inv.Why != "" || inv.Cancels != "" {
			continue
		}
		r.orders++
		for _, l := range inv.Lines {
			i, known := at[l.SKU]
			if !known {
				i = len(r.products)
				at[l.SKU] = i
				r.products = append(r.products, goods{sku: l.SKU, name: l.SKU, price: l.Price})
			}
			if l.Name != "" {
				r.products[i].name = l.Name
			}
			r.products[i].units += l.Quantity
		}
	}
	if r.orders == 0 {
		return nil, fmt.Errorf("there is no order in %s", strings.Join(files, ", "))
	}
	return r, nil
}

// invoice is one with its file.
type invoice struct {
	retail.Invoice
	file string
}

// invoices reads the files one after another, from the beginning.
func (r *replay) invoices() iter.Seq2[invoice, error] {
	r.shop = &retail.Shop{}
	shop := r.shop
	return func(yield func(invoice, error) bool) {
		for _, path := range r.files {
			if !readFile(shop, path, yield) {
				return
			}
		}
	}
}

// readFile is false when nothing more is wanted.
func readFile(shop *retail.Shop, path string, yield func(invoice, error) bool) bool {
	file, err := os.Open(path)
	if err != nil {
		yield(invoice{}, err)
		return false
	}
	defer file.Close()
	for inv, err := range shop.Read(file) {
		if err != nil {
			yield(invoice{}, fmt.Errorf("%s: %w", path, err))
			return false
		}
		if !yield(invoice{inv, filepath.Base(path)}, nil) {
			return false
		}
	}
	return true
}

func (r *replay) goods() []goods                 { return r.products }
func (r *replay) total() int                     { return r.orders }
func (r *replay) refused() map[retail.Reason]int { return r.shop.Refused }

// jobs are in the files' order. At a speed, each file begins where the one before ends: the nights and weeks between two days are left out.
func (r *replay) jobs() iter.Seq2[job, error] {
	return func(yield func(job, error) bool) {
		var begin time.Duration // of the present file, in the files' own time
		var last time.Duration
		var first time.Time
		file := ""
		for inv, err := range r.invoices() {
			if err != nil {
				yield(job{}, err)
				return
			}
			if inv.file != file {
				file, first, begin = inv.file, inv.At, last
			}
			last = max(last, begin+inv.At.Sub(first))
			if inv.Why != "" {
				continue
			}
			j := job{name: inv.No, key: key(inv.file, inv.No), cancel: inv.Cancels != ""}
			if j.cancel {
				j.name = inv.Cancels
			}
			if r.speed > 0 {
				j.after = time.Duration(float64(last) / r.speed)
			}
			j.cart = cart{Customer: inv.Customer, Shipping: string(inv.Shipping)}
			for _, l := range inv.Lines {
				j.cart.Items = append(j.cart.Items, cartItem{l.SKU, l.Quantity})
			}
			if !yield(j, nil) {
				return
			}
		}
	}
}

// key names an invoice for ever. A key has 255 visible ASCII characters at most, so an odd name is hashed.
func key(file, invoice string) string {
	name := "retail:" + file + ":" + invoice
	if len(name) <= 200 && strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) < 0 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "retail:" + hex.EncodeToString(sum[:])
}
