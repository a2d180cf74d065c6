package simulated

import "time"

// A state is what has become of an idempotency key.
type state string

const (
	active    state = "active"    // applied and still held
	undone    state = "undone"    // applied, then taken back
	refused   state = "refused"   // a definite no, nothing was applied
	cancelled state = "cancelled" // cancelled by key before anything was applied
)

// An effect is all that a provider knows of one key.
type effect struct {
	proposal
	Key             string
	ID              string // empty when nothing was ever applied
	State           state
	Tombstone       bool   // a later request with this key is refused
	Fingerprint     []byte // empty when the cancel came before the request
	UndoKey         string
	UndoFingerprint []byte
	UndoReason      string
	CreatedAt       time.Time
	UndoneAt        *time.Time

	stored  bool // has a row already
	changed bool
}

// An accountKey names a customer's account; processors keep one for each currency.
type accountKey struct{ Customer, Currency string }

type account struct {
	accountKey
	Funded  int64 // minor units ever put in
	Balance int64 // funded - charged + refunded

	stored  bool
	changed bool
}

// openingBalance is what a customer has who was never seen before: minor units, more than any load test charges.
const openingBalance = 1_000_000_000_000_000

// An effectView is an effect as the look-up by key shows it.
type effectView struct {
	ID        string     `json:"id,omitempty"`
	Key       string     `json:"key"`
	Order     int64      `json:"order,omitempty"`
	State     state      `json:"state"`
	Tombstone bool       `json:"tombstone"`
	Amount    int64      `json:"amount,omitempty"`
	Currency  string     `json:"currency,omitempty"`
	Units     int64      `json:"units,omitempty"`
	Score     *int       `json:"score,omitempty"`
	Code      string     `json:"code,omitempty"`
	Message   string     `json:"message,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	CreatedAt time.Time  `json:"createdAt"`
	UndoneAt  *time.Time `json:"undoneAt,omitempty"`
}

// appliedView answers the request that applied an effect. It shows nothing that changes later, so that a repeat gets
// the same answer to the byte.
type appliedView struct {
	ID       string `json:"id"`
	Order    int64  `json:"order"`
	Amount   int64  `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	Units    int64  `json:"units,omitempty"`
	Score    *int   `json:"score,omitempty"`
}

type undoneView struct {
	ID       string `json:"id"`
	Order    int64  `json:"order"`
	State    state  `json:"state"`
	Amount   int64  `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// A problem is any answer that is not a success.
type problem struct {
	Code    string       `json:"code"`
	Message string       `json:"message"`
	Fields  []FieldError `json:"fields,omitempty"`
}

// An answer is what the provider decided; whether the caller gets to see it is for the rules of misbehaviour.
type answer struct {
	Status int
	Body   any
}

func refuse(status int, code, message string) answer {
	return answer{status, problem{Code: code, Message: message}}
}

func (p *provider) view(e *effect) effectView {
	return effectView{
		ID: e.ID, Key: e.Key, Order: e.Order, State: e.State, Tombstone: e.Tombstone,
		Amount: e.Amount, Currency: e.Currency, Units: e.Units, Score: p.score(e),
		Code: e.Refusal.Code, Message: e.Refusal.Message, Reason: e.UndoReason,
		CreatedAt: e.CreatedAt, UndoneAt: e.UndoneAt,
	}
}

func (p *provider) applied(e *effect) appliedView {
	return appliedView{ID: e.ID, Order: e.Order, Amount: e.Amount, Currency: e.Currency, Units: e.Units, Score: p.score(e)}
}

// score is shown by the bureau alone, where 0 is a score like any other.
func (p *provider) score(e *effect) *int {
	if p.name != Bureau || e.ID == "" {
		return nil
	}
	return &e.Score
}
