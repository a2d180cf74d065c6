package retail

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"chorus/internal/event"
)

// columns are where the header puts each field.
type columns struct {
	invoice, code, name, quantity, date, price, customer, country, width int
}

func readHeader(names []string) (columns, error) {
	at := map[string]int{}
	for i, name := range names {
		at[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	c := columns{width: len(names)}
	var missing []string
	for name, field := range map[string]*int{
		"InvoiceNo": &c.invoice, "StockCode": &c.code, "Description": &c.name, "Quantity": &c.quantity,
		"InvoiceDate": &c.date, "UnitPrice": &c.price, "CustomerID": &c.customer, "Country": &c.country,
	} {
		i, there := at[name]
		if !there {
			missing = append(missing, name)
		}
		*field = i
	}
	if len(missing) > 0 {
		return c, fmt.Errorf("this is not the Online Retail format: no column %s", strings.Join(missing, ", "))
	}
	return c, nil
}

// row is a line of the file with its fields apart; the numbers are not read yet.
type row struct {
	invoice, customer string
	shipping          event.ShippingType
	fields            []string
	col               columns
}

// read takes a record apart. It is false for one whose invoice cannot be told.
func (c columns) read(fields []string) (row, bool) {
	if len(fields) != c.width {
		return row{}, false
	}
	r := row{invoice: strings.TrimSpace(fields[c.invoice]), fields: fields, col: c}
	r.customer = strings.TrimSuffix(text(fields[c.customer]), ".0") // the data set kept numbers as floating point
	if r.customer == "" {
		r.customer = Guest
	}
	r.shipping = event.International
	if strings.TrimSpace(fields[c.country]) == "United Kingdom" {
		r.shipping = event.Domestic
	}
	return r, r.invoice != ""
}

// judge returns the line, or why it is refused. Of a cancellation the quantity is turned round first.
func (r row) judge(cancellation bool) (Line, Reason) {
	code := text(r.fields[r.col.code])
	if code == "" {
		return Line{}, NoCode
	}
	quantity, err := strconv.ParseInt(strings.TrimSpace(r.fields[r.col.quantity]), 10, 64)
	price, negative, priceErr := decimal(r.fields[r.col.price])
	if err != nil || priceErr != nil {
		return Line{}, Malformed
	}
	if cancellation {
		quantity = -quantity
	}
	switch {
	case quantity < 0:
		return Line{}, NegativeQuantity
	case quantity == 0:
		return Line{}, ZeroQuantity
	case negative:
		return Line{}, NegativePrice
	}
	return Line{SKU: code + "@" + price, Name: text(r.fields[r.col.name]), Quantity: quantity, Price: price}, ""
}

// when reads the date in the set's own form or in the form in which it is often saved again.
func (r row) when() (time.Time, error) {
	s := strings.TrimSpace(r.fields[r.col.date])
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", "1/2/2006 15:04"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("date %q", s)
}

var errDecimal = errors.New("not a decimal number")

// decimal returns a plain decimal number in its shortest exact form, without its sign, and whether it is below zero.
// Nothing is rounded: a price of 0.001 stays.
func decimal(s string) (shortest string, negative bool, err error) {
	s = strings.TrimSpace(s)
	digits := strings.TrimPrefix(s, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(digits) > 40 || whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return "", false, errDecimal
	}
	value, ok := new(big.Rat).SetString(digits)
	if !ok {
		return "", false, errDecimal
	}
	shortest = value.FloatString(len(fraction))
	if strings.Contains(shortest, ".") {
		shortest = strings.TrimRight(strings.TrimRight(shortest, "0"), ".")
	}
	return shortest, digits != s && value.Sign() != 0, nil
}

// text is a field as people read it: UTF-8, or else Windows-1252, in which the set was once saved; without control
// characters, and without spaces around it.
func text(s string) string {
	if !utf8.ValidString(s) {
		s, _ = charmap.Windows1252.NewDecoder().String(s) // it has a character for every byte, if only U+FFFD
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}
