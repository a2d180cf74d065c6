package check

import (
	"maps"
	"slices"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/event"
)

// told: each fact that a customer is to hear of was told once. What has just been stated may still be on its way to notifications, as long as the grace.
func (o Order) told(f *findings, now time.Time, r Rules) {
	if o.Told == nil {
		return
	}
	for _, t := range slices.Sorted(maps.Keys(o.Told)) {
		if n := o.Told[t]; n > 1 {
			f.add(Told, "its customer was told %s %d times", t, n)
		}
	}
	if o.Facts == nil {
		return
	}
	for _, kinds := range o.stated() {
		for _, t := range kinds {
			at, there := o.Facts.known()[t]
			if there && o.Told[t] == 0 && choreography.Hears(choreography.Notifications, event.Orders, t) && now.After(at.Add(r.Grace)) {
				f.add(Told, "its customer was not told %s", t)
			}
		}
	}
}
