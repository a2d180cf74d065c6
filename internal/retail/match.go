package retail

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// key is the same for two invoices of one customer with the same lines, in whatever order. The same product on two lines is
// not the same as one line with the sum: both must agree line by line.
func (inv Invoice) key() string {
	lines := make([]string, len(inv.Lines))
	for i, l := range inv.Lines {
		lines[i] = fmt.Sprintf("%q %d", l.SKU, l.Quantity)
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q\n", inv.Customer) + strings.Join(lines, "\n")))
	return string(sum[:])
}
