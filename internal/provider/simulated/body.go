package simulated

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Limits of what a provider accepts.
const (
	maxAmount   = 1_000_000_000_000 // minor units: ten thousand million in most currencies
	maxLines    = 10_000
	maxQuantity = 10_000_000
	maxText     = 200 // characters
	maxReason   = 1_000
)

// A body is a request to a provider, decoded.
type body interface {
	// check names each field that is wrong.
	check(f *fieldErrors)
	// proposal says what applying the request would do. Of a body with faults it serves to know the order alone.
	proposal() proposal
}

// A proposal is what a request asks for, reduced to what the books need.
type proposal struct {
	Order    int64
	Customer string
	Currency string
	Amount   int64 // minor units
	Units    int64 // goods
	Score    int
	Refusal  refusal // set when the provider refuses this input for business reasons
}

// A refusal is a definite no. Status 0 means there is none.
type refusal struct {
	Status  int
	Code    string
	Message string
}

type line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

type reservation struct {
	Order int64  `json:"order"`
	Lines []line `json:"lines"`
}

func (b *reservation) check(f *fieldErrors) {
	f.order(b.Order)
	f.lines(b.Lines)
}

func (b *reservation) proposal() proposal {
	p := proposal{Order: b.Order, Units: units(b.Lines)}
	for _, l := range b.Lines {
		if says(l.SKU, "missing") {
			p.Refusal = refusal{http.StatusConflict, "out_of_stock", "the warehouse cannot find " + l.SKU}
			break
		}
	}
	return p
}

type shipment struct {
	Order    int64  `json:"order"`
	Customer string `json:"customer"`
	Units    int64  `json:"units"`
}

func (b *shipment) check(f *fieldErrors) {
	f.order(b.Order)
	f.text("customer", b.Customer)
	f.between("units", b.Units, 1, maxLines*maxQuantity)
}

func (b *shipment) proposal() proposal {
	p := proposal{Order: b.Order, Customer: b.Customer, Units: b.Units}
	if says(b.Customer, "undeliverable") {
		p.Refusal = refusal{http.StatusConflict, "undeliverable", "the carrier does not deliver to this customer"}
	}
	return p
}

type charge struct {
	Order    int64    `json:"order"`
	Customer string   `json:"customer"`
	Amount   int64    `json:"amount"`
	Currency string   `json:"currency"`
	Lines    []priced `json:"lines"` // optional; when they are there they sum to the amount
}

type priced struct {
	Name     string `json:"name"`
	Quantity int64  `json:"quantity"`
	Amount   int64  `json:"amount"`
}

func (b *charge) check(f *fieldErrors) {
	f.order(b.Order)
	f.text("customer", b.Customer)
	f.between("amount", b.Amount, 1, maxAmount)
	f.currency(b.Currency)
	f.sum(b.Lines, b.Amount)
}

func (b *charge) proposal() proposal {
	p := proposal{Order: b.Order, Customer: b.Customer, Amount: b.Amount, Currency: b.Currency}
	if says(b.Customer, "declined") {
		p.Refusal = insufficientFunds
	}
	return p
}

var insufficientFunds = refusal{http.StatusPaymentRequired, "insufficient_funds", "the customer's balance is too low"}

type message struct {
	Order  int64  `json:"order"`
	Status string `json:"status"`
	Text   string `json:"text"`
}

func (b *message) check(f *fieldErrors) {
	f.order(b.Order)
	f.text("status", b.Status)
	f.text("text", b.Text)
}

func (b *message) proposal() proposal { return proposal{Order: b.Order} }

type screening struct {
	Order    int64  `json:"order"`
	Customer string `json:"customer"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Country  string `json:"country"`
	Shipping string `json:"shipping"`
}

func (b *screening) check(f *fieldErrors) {
	f.order(b.Order)
	f.text("customer", b.Customer)
	f.between("amount", b.Amount, 0, maxAmount)
	f.currency(b.Currency)
	f.optionalText("country", b.Country, maxText)
	f.optionalText("shipping", b.Shipping, maxText)
}

func (b *screening) proposal() proposal {
	return proposal{Order: b.Order, Customer: b.Customer, Score: b.score()}
}

// score rates the risk of an order from 0 to 100. Words in the customer's name force it. Otherwise it follows from an
// FNV-1a hash of customer, amount, currency, country and shipping, not from the order's number, so that the same
// purchase scores the same in every run: seven in eight lie below 50, the rest between 50 and 89.
func (b *screening) score() int {
	switch {
	case says(b.Customer, "fraud"):
		return 95
	case says(b.Customer, "review"):
		return 70
	}
	h := fnv.New64a()
	for _, s := range []string{b.Customer, b.Currency, b.Country, b.Shipping} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(b.Amount)))
	n := h.Sum64()
	n ^= n >> 32 // the low bits of FNV depend on few bits of the last bytes
	if n%8 == 7 {
		return int(50 + n/8%40)
	}
	return int(n / 8 % 50)
}

func says(text, word string) bool { return strings.Contains(strings.ToLower(text), word) }

func units(lines []line) int64 {
	var n int64
	for _, l := range lines {
		n += l.Quantity
	}
	return n
}

// A FieldError is one fault in a request.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// fieldErrors collects every fault, so that the caller learns of all at once.
type fieldErrors []FieldError

func (f *fieldErrors) add(field, format string, args ...any) {
	*f = append(*f, FieldError{field, fmt.Sprintf(format, args...)})
}

func (f *fieldErrors) order(n int64) {
	if n < 1 {
		f.add("order", "must be an order number from 1")
	}
}

func (f *fieldErrors) between(field string, n, least, most int64) {
	if n < least || n > most {
		f.add(field, "must be between %d and %d", least, most)
	}
}

func (f *fieldErrors) text(field, s string) {
	if s == "" {
		f.add(field, "must not be empty")
		return
	}
	f.optionalText(field, s, maxText)
}

// optionalText refuses what the database cannot hold (a zero byte) before it spoils the transaction of others.
func (f *fieldErrors) optionalText(field, s string, most int) {
	if utf8.RuneCountInString(s) > most {
		f.add(field, "must not be longer than %d characters", most)
	}
	if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
		f.add(field, "must be text without zero bytes")
	}
}

func (f *fieldErrors) currency(s string) {
	if len(s) != 3 || strings.ToUpper(s) != s || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		f.add("currency", "must be a code of three capital letters")
	}
}

// sum holds the lines of a charge to its amount, as strict processors do.
func (f *fieldErrors) sum(lines []priced, amount int64) {
	if len(lines) > maxLines {
		f.add("lines", "must have at most %d lines", maxLines)
		return
	}
	left := amount
	for i, l := range lines {
		f.text(fmt.Sprintf("lines[%d].name", i), l.Name)
		left -= l.Amount
	}
	if len(lines) > 0 && left != 0 {
		f.add("lines", "must sum to the amount: %d are missing", left)
	}
}

func (f *fieldErrors) lines(lines []line) {
	if len(lines) == 0 || len(lines) > maxLines {
		f.add("lines", "must have between 1 and %d lines", maxLines)
		return
	}
	for i, l := range lines {
		f.text(fmt.Sprintf("lines[%d].sku", i), l.SKU)
		f.between(fmt.Sprintf("lines[%d].quantity", i), l.Quantity, 1, maxQuantity)
	}
}
