package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bojanz/currency"

	"chorus/internal/event"
)

// money shows an amount in minor units with the digits of its currency (UI-06).
func money(minor int64, code string) string {
	amount, err := currency.NewAmountFromInt64(minor, code)
	if err != nil {
		return fmt.Sprintf("%d minor units of %q", minor, code) // no guess about the digits of a currency that nobody knows
	}
	return format(amount)
}

// price shows a decimal in major units with all of its digits: a catalogue price may have more than its currency.
func price(decimal, code string) string {
	amount, err := currency.NewAmount(decimal, code)
	if err != nil {
		return decimal + " " + code
	}
	return format(amount)
}

func format(amount currency.Amount) string {
	f := currency.NewFormatter(currency.NewLocale("en"))
	f.MaxDigits = 6
	return f.Format(amount)
}

// iso writes an instant in UTC to the millisecond.
func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// age says how far an instant is from now, either way.
func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := now.Sub(t)
	switch {
	case d < -time.Second:
		return "in " + coarse(-d)
	case d < time.Second:
		return "now"
	}
	return coarse(d) + " ago"
}

// coarse writes a duration in its largest unit; static/app.js does the same.
func coarse(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s < 100:
		return strconv.FormatInt(s, 10) + " s"
	case s < 100*60:
		return strconv.FormatInt(s/60, 10) + " min"
	case s < 48*3600:
		return strconv.FormatInt(s/3600, 10) + " h"
	}
	return strconv.FormatInt(s/86400, 10) + " days"
}

// short writes a small duration: how long an exchange took, how far behind a view is.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	case d < 10*time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return coarse(d)
}

// took is the time from a to b; empty while b is not there.
func took(a time.Time, b *time.Time) string {
	if b == nil {
		return ""
	}
	return short(b.Sub(a))
}

// tell says in one sentence what a fact states.
func tell(f event.Fact) string {
	switch f := f.(type) {
	case event.OrderPlaced:
		var units int64
		for _, l := range f.Lines {
			units += l.Quantity
		}
		return fmt.Sprintf("%s ordered %s for %s, %s", f.Customer, plural(units, "item"), money(f.Total, f.Currency), f.Shipping)
	case event.OrderCancellationRequested:
		return map[event.CancelReason]string{
			event.ByCustomer: "the customer wants it cancelled", event.ByOperator: "an operator wants it cancelled", event.TimedOut: "its deadline has passed",
		}[f.Reason]
	case event.OrderConfirmed:
		return "reserved, booked and paid"
	case event.OrderRejected:
		return "there was no stock" + because(f.Reason)
	case event.OrderFailed:
		return "everything is undone" + because(f.Reason)
	case event.OrderCancelled:
		return "everything is undone" + because(strings.ToLower(string(f.Reason)))
	case event.OrderShipped:
		return "handed over; there is no way back"
	case event.OrderDelivered:
		return "arrived"
	case event.StockReserved:
		return "the goods are held" + because(f.Reservation)
	case event.StockRejected:
		return "the order gets no stock" + because(f.Reason)
	case event.StockReleased:
		if f.Reservation == "" {
			return "nothing was held"
		}
		return "the goods are free again" + because(f.Reservation)
	case event.OrderScreened:
		return fmt.Sprintf("risk %d of 100: %s", f.Score, strings.ToLower(string(f.Verdict))) + because(f.Reason)
	case event.ShipmentScheduled:
		return "booked with " + f.Carrier + because(f.Shipment)
	case event.ShipmentRejected:
		return "no carrier takes it" + because(f.Reason)
	case event.ShipmentCancelled:
		if f.Shipment == "" {
			return "nothing was booked"
		}
		return "the booking is cancelled" + because(f.Shipment)
	case event.PaymentTaken:
		if f.Processor == "" {
			return "nothing to charge"
		}
		return "charged " + money(f.Amount, f.Currency) + " by " + f.Processor + because(f.Payment)
	case event.PaymentDeclined:
		return "refused, nothing was charged" + because(f.Reason)
	case event.PaymentRefunded:
		return "paid back " + money(f.Amount, f.Currency) + because(f.Reason)
	case event.PaymentVoided:
		return "nothing was charged and nothing will be" + because(f.Reason)
	case event.UndoStuck:
		return "the " + string(f.Step) + " needs a person" + because(f.Reason)
	}
	return ""
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}
