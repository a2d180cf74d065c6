// Package money writes amounts for people.
package money

import (
	"strconv"
	"strings"

	"github.com/bojanz/currency"
)

// Text is an amount in minor units as people read it, with as many digits behind the point as its currency has: 1624 JPY,
// 1.234 KWD, -5.00 EUR (UI-06).
func Text(minor int64, code string) string {
	digits, known := currency.GetDigits(code)
	if !known {
		return strconv.FormatInt(minor, 10) + " minor units " + code
	}
	sign, text := "", strconv.FormatInt(minor, 10)
	if minor < 0 {
		sign, text = "-", text[1:]
	}
	if digits > 0 {
		if short := int(digits) + 1 - len(text); short > 0 {
			text = strings.Repeat("0", short) + text
		}
		point := len(text) - int(digits)
		text = text[:point] + "." + text[point:]
	}
	return sign + text + " " + code
}
