package check_test

import (
	"testing"
	"time"

	"chorus/internal/check"
)

// A customer is told each status once: neither never, nor twice, whatever was redelivered (G4, G10).
func TestTold(t *testing.T) {
	t.Parallel()
	o := cancelled()
	clean(t, o.Judge(now, rules)) // notifications was not asked
	o.Told = check.Times{"OrderConfirmed": 1, "OrderCancelled": 1}
	clean(t, o.Judge(now, rules))
	o.Told = check.Times{"OrderConfirmed": 1, "OrderCancelled": 2}
	wants(t, o.Judge(now, rules), check.Told, "its customer was told OrderCancelled 2 times")
	o.Told = check.Times{"OrderConfirmed": 1}
	wants(t, o.Judge(now, rules), check.Told, "its customer was not told OrderCancelled")
	clean(t, o.Judge(at(30), rules)) // it may still be on its way

	o = confirmed()
	o.Told = check.Times{}
	wants(t, o.Judge(now, rules), check.Told, "its customer was not told OrderConfirmed")
	clean(t, o.Judge(now, check.Rules{Grace: time.Hour, Waits: rules.Waits}))
	o.Facts, o.Topics = nil, check.Unread
	clean(t, o.Judge(now, rules)) // when it was stated is not known

	o = under()
	o.Told = check.Times{"OrderConfirmed": 1, "OrderFailed": 2}
	wants(t, o.Judge(now, rules), check.Told, "told OrderFailed 2 times")
}
