package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrOpen says that a dead letter of the key is open: its bytes are still needed.
var ErrOpen = errors.New("a dead letter of this key is open: redrive or discard it first")

// Erase deletes, in tx, the values and headers of a consumer's closed dead letters of a key, which hold what their producer wrote. That they were there, why, and
// what became of them stays. It returns how many it emptied, or ErrOpen.
func Erase(ctx context.Context, tx pgx.Tx, consumer, key string) (letters int64, err error) {
	var open bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM dead_letters WHERE consumer = $1 AND key = $2 AND state = 'open')`,
		consumer, []byte(key)).Scan(&open); err != nil {
		return 0, fmt.Errorf("erase the dead letters of %s of %s: %w", key, consumer, err)
	}
	if open {
		return 0, fmt.Errorf("erase the dead letters of %s of %s: %w", key, consumer, ErrOpen)
	}
	tag, err := tx.Exec(ctx, `UPDATE dead_letters SET value = NULL, headers = '{}', detail = '' WHERE consumer = $1 AND key = $2`, consumer, []byte(key))
	if err != nil {
		return 0, fmt.Errorf("erase the dead letters of %s of %s: %w", key, consumer, err)
	}
	return tag.RowsAffected(), nil
}
