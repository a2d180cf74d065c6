package retail

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Shop reads files one after another and remembers the orders in them, so that a cancellation finds the order of an earlier day.
// The zero value is ready.
type Shop struct {
	Refused map[Reason]int // lines, and whole invoices, refused so far

	seen map[string]bool     // invoices that are complete
	open map[string][]string // orders that have not been cancelled, by customer and lines; the latest last
}

// Read goes through a file's invoices in its order. It ends with the first error: the file cannot be read, or it is in another
// format. A line that makes no sense is no error; it is refused.
func (s *Shop) Read(file io.Reader) iter.Seq2[Invoice, error] {
	if s.Refused == nil {
		s.Refused, s.seen, s.open = map[Reason]int{}, map[string]bool{}, map[string][]string{}
	}
	return func(yield func(Invoice, error) bool) {
		lines := csv.NewReader(file)
		lines.FieldsPerRecord, lines.ReuseRecord, lines.LazyQuotes = -1, true, true
		names, err := lines.Read()
		if err != nil {
			yield(Invoice{}, fmt.Errorf("read the header: %w", err))
			return
		}
		cols, err := readHeader(names)
		if err != nil {
			yield(Invoice{}, err)
			return
		}
		current, err := s.read(lines, cols, func(inv Invoice) bool { return yield(inv, nil) })
		switch {
		case errors.Is(err, errStopped):
		case err != nil:
			yield(Invoice{}, fmt.Errorf("read invoices: %w", err))
		case current != nil:
			yield(s.finish(*current), nil)
		}
	}
}

var errStopped = errors.New("stopped")

// read yields every invoice but the last, which it returns.
func (s *Shop) read(lines *csv.Reader, cols columns, yield func(Invoice) bool) (*Invoice, error) {
	var current *Invoice
	for {
		fields, err := lines.Read()
		if err == io.EOF {
			return current, nil
		}
		var fault *csv.ParseError
		if err != nil && !errors.As(err, &fault) {
			return nil, err
		}
		r, whole := row{}, false
		if err == nil {
			r, whole = cols.read(fields)
		}
		if !whole {
			s.Refused[Malformed]++
			continue
		}
		if current != nil && current.No != r.invoice {
			if !yield(s.finish(*current)) {
				return nil, errStopped
			}
			current = nil
		}
		if current == nil && s.seen[r.invoice] {
			s.Refused[Scattered]++
			continue
		}
		if current == nil {
			current = &Invoice{No: r.invoice, Customer: r.customer, Shipping: r.shipping, Refused: map[Reason]int{}}
			s.seen[r.invoice] = true
		}
		s.add(current, r)
	}
}

// add judges one line of the invoice.
func (s *Shop) add(inv *Invoice, r row) {
	line, why := r.judge(inv.cancellation())
	at, err := r.when()
	if why == "" && err != nil {
		why = Malformed
	}
	if inv.At.IsZero() {
		inv.At = at
	}
	if why != "" {
		inv.Refused[why]++
		s.Refused[why]++
		return
	}
	inv.Lines = append(inv.Lines, line)
}

func (inv Invoice) cancellation() bool { return strings.HasPrefix(inv.No, "C") }

// finish says what the complete invoice is: an order, the cancellation of one, or refused.
func (s *Shop) finish(inv Invoice) Invoice {
	if len(inv.Lines) == 0 {
		inv.Why = Empty
		s.Refused[Empty]++
		return inv
	}
	key := inv.key()
	if !inv.cancellation() {
		s.open[key] = append(s.open[key], inv.No)
		return inv
	}
	orders := s.open[key]
	if len(orders) == 0 {
		inv.Why = Unmatched
		s.Refused[Unmatched]++
		return inv
	}
	inv.Cancels = orders[len(orders)-1]
	if s.open[key] = orders[:len(orders)-1]; len(orders) == 1 {
		delete(s.open, key)
	}
	return inv
}
