package simulated

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Request is one call in the log, whatever became of it.
type Request struct {
	ID        int64  `json:"id"` // ascending in the order in which one provider decided
	Provider  string `json:"provider"`
	Operation string `json:"operation"`       // do, undo, lookup or cancel
	Key       string `json:"key"`             // empty when the caller sent none that is valid
	Order     int64  `json:"order,omitempty"` // 0 when it is not known
	// Status is what was decided, also when Fault kept it from the caller; 0 when the provider was unreachable.
	Status int `json:"status"`
	// Fault is what a rule did: down, unreachable, fail, decline, timeout or nothing.
	Fault string    `json:"fault,omitempty"`
	At    time.Time `json:"at"`
}

// A RequestFilter chooses from the log. Zero values do not restrict.
type RequestFilter struct {
	Order     int64 // also finds calls about keys of this order that did not name it
	Provider  string
	Operation string
	After     int64 // an ID
	Limit     int   // 1000 when 0
}

// callsOf finds the calls about an order by two indexes: those that named it and those about its keys.
const callsOf = `(
	SELECT id, provider, operation, key, order_number, status, fault, at FROM request_log WHERE order_number = $5
	UNION
	SELECT l.id, l.provider, l.operation, l.key, l.order_number, l.status, l.fault, l.at
	FROM effect e JOIN request_log l ON l.provider = e.provider AND l.key = e.key
	WHERE e.order_number = $5 AND l.order_number = 0)`

func (s *store) requests(ctx context.Context, f RequestFilter) ([]Request, error) {
	from, args := "request_log", []any{f.After, f.Provider, f.Operation, f.Limit}
	if f.Order != 0 {
		from, args = callsOf, append(args, f.Order)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT r.id, r.provider, r.operation, r.key, r.order_number, r.status, r.fault, r.at
		FROM `+from+` AS r
		WHERE r.id > $1 AND ($2 = '' OR r.provider = $2) AND ($3 = '' OR r.operation = $3)
		ORDER BY r.id LIMIT $4`, args...)
	if err != nil {
		return nil, fmt.Errorf("read log of calls: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Request])
	if err != nil {
		return nil, fmt.Errorf("read log of calls: %w", err)
	}
	return found, nil
}

const (
	pruneEvery = 10 * time.Second
	pruneBatch = 5_000 // rows a statement deletes, so that no lock is held for long
)

// prune deletes the oldest calls beyond the number to keep.
func (s *store) prune(ctx context.Context, keep int64) error {
	for {
		tag, err := s.pool.Exec(ctx, `
			DELETE FROM request_log WHERE id IN (
				SELECT id FROM request_log
				WHERE id <= (SELECT COALESCE(MAX(id), 0) FROM request_log) - $1
				ORDER BY id LIMIT $2)`, keep, pruneBatch)
		if err != nil {
			return fmt.Errorf("prune log of calls: %w", err)
		}
		if tag.RowsAffected() < pruneBatch {
			return nil
		}
	}
}
