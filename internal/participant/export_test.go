package participant

import (
	"context"
	"time"

	"chorus/inbox"
)

// KeepTime is keepTime, with so many timers looked at in one go.
func KeepTime[S any](ctx context.Context, d *Door[S], gate Gate, page int) error {
	d.page = page
	return d.keepTime(ctx, gate)
}

// Prune is one round of Housekeep.
func Prune(ctx context.Context, db inbox.DB, consumer string, horizon time.Duration) (int64, error) {
	return prune(ctx, db, consumer, horizon)
}
