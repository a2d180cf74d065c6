package intent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/decision"
	"chorus/internal/event"
)

// CallView is a call as the inspection API shows it.
type CallView struct {
	Order      event.OrderNo        `json:"order"`
	Step       event.Step           `json:"step"`
	Op         decision.Op          `json:"op"`
	Key        string               `json:"key"`
	Provider   string               `json:"provider"`
	Reference  string               `json:"reference,omitempty"` // of the effect that an undo takes back
	Reason     string               `json:"reason,omitempty"`    // of an undo
	Phase      decision.CallPhase   `json:"phase"`
	Unknown    bool                 `json:"unknown,omitempty"` // an effect may exist that nobody has seen
	Outcome    decision.OutcomeKind `json:"outcome,omitempty"`
	Result     string               `json:"result,omitempty"`  // the provider's reference, or why there is none
	Problem    string               `json:"problem,omitempty"` // why it cannot go on by itself
	CreatedAt  time.Time            `json:"createdAt"`
	DueAt      *time.Time           `json:"dueAt,omitempty"` // of a call that has not ended: when it goes on
	LeaseOwner string               `json:"leaseOwner,omitempty"`
	Deadline   *time.Time           `json:"deadline,omitempty"`
	EndedAt    *time.Time           `json:"endedAt,omitempty"`
	Attempts   []AttemptView        `json:"attempts"`

	id int64
}

// AttemptView is one exchange. Without an end it is under way, or its worker crashed and the lease has not run out.
type AttemptView struct {
	N              int                 `json:"n"`
	Kind           decision.CallPhase  `json:"kind"`
	Method         string              `json:"method"`
	URL            string              `json:"url"`
	RequestHeader  map[string]string   `json:"requestHeader,omitempty"`
	StartedAt      time.Time           `json:"startedAt"`
	Worker         string              `json:"worker"`
	EndedAt        *time.Time          `json:"endedAt,omitempty"`
	Status         int                 `json:"status,omitempty"`
	ResponseHeader map[string]string   `json:"responseHeader,omitempty"`
	Response       string              `json:"response,omitempty"`
	Result         decision.ResultKind `json:"result,omitempty"`
	Reason         string              `json:"reason,omitempty"`
	Error          string              `json:"error,omitempty"`
	DurationMS     float64             `json:"durationMs,omitempty"`
}

// Calls returns all calls of an order with every exchange, oldest first; none when the order has none here.
func Calls(ctx context.Context, db Querier, order event.OrderNo) ([]CallView, error) {
	calls, err := readCalls(ctx, db, order)
	if err != nil {
		return nil, fmt.Errorf("read calls of order %s: %w", order, err)
	}
	attempts, err := readAttempts(ctx, db, order)
	if err != nil {
		return nil, fmt.Errorf("read attempts of order %s: %w", order, err)
	}
	for i := range calls {
		calls[i].Attempts = attempts[calls[i].id]
	}
	return calls, nil
}

func readCalls(ctx context.Context, db Querier, order event.OrderNo) ([]CallView, error) {
	rows, err := db.Query(ctx, `
		SELECT id, order_no, step, op, key, provider, reference, reason, state, COALESCE(problem, ''), created_at,
		       CASE WHEN ended_at IS NULL THEN due_at END, COALESCE(lease_owner, ''), deadline, ended_at
		  FROM calls WHERE order_no = $1 ORDER BY id`, int64(order))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c CallView, err error) {
		var call decision.Call
		err = row.Scan(&c.id, &c.Order, &c.Step, &c.Op, &c.Key, &c.Provider, &c.Reference, &c.Reason, &call, &c.Problem, &c.CreatedAt,
			&c.DueAt, &c.LeaseOwner, &c.Deadline, &c.EndedAt)
		c.Phase, c.Unknown, c.Outcome = call.Phase, call.Unknown, call.Outcome.Kind
		if c.Result = call.Outcome.Reference; c.Result == "" {
			c.Result = call.Outcome.Reason
		}
		return c, err
	})
}

func readAttempts(ctx context.Context, db Querier, order event.OrderNo) (map[int64][]AttemptView, error) {
	rows, err := db.Query(ctx, `
		SELECT s.call_id, s.n, s.kind, s.method, s.url, s.headers, s.at, s.owner,
		       e.at, COALESCE(e.status, 0), e.headers, COALESCE(e.body, ''), COALESCE(e.result, ''),
		       COALESCE(e.reason, ''), COALESCE(e.error, ''), COALESCE(e.duration_ms, 0)
		  FROM calls AS c
		  JOIN call_attempts AS s ON s.call_id = c.id AND s.part = 'start'
		  LEFT JOIN call_attempts AS e ON e.call_id = s.call_id AND e.n = s.n AND e.part = 'end'
		 WHERE c.order_no = $1 ORDER BY s.call_id, s.n`, int64(order))
	if err != nil {
		return nil, err
	}
	found := map[int64][]AttemptView{}
	var id int64
	var a AttemptView
	var asked, answered []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &a.N, &a.Kind, &a.Method, &a.URL, &asked, &a.StartedAt, &a.Worker,
		&a.EndedAt, &a.Status, &answered, &a.Response, &a.Result, &a.Reason, &a.Error, &a.DurationMS}, func() error {
		a.RequestHeader, a.ResponseHeader = decodeHeaders(asked), decodeHeaders(answered)
		found[id] = append(found[id], a)
		return nil
	})
	return found, err
}

// decodeHeaders is nil for a row without headers.
func decodeHeaders(text []byte) map[string]string {
	var h map[string]string
	if json.Unmarshal(text, &h) != nil {
		return nil
	}
	return h
}
