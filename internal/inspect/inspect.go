// Package inspect is the inspection API of a participant: what it knows of an order, what it decided about each
// fact, its provider calls with every attempt, and its dead letters (D10). It is the same
// for every participant and any replica answers, so nothing reads another service's database.
package inspect

import (
	"encoding/json"
	"time"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/intent"
)

// Order is what one participant knows of one order.
type Order struct {
	Participant event.Participant `json:"participant"`
	Known       bool              `json:"known"`
	Phase       string            `json:"phase,omitempty"`
	State       json.RawMessage   `json:"state,omitempty"`
	UpdatedAt   time.Time         `json:"updated_at,omitzero"`
	Inbox       []Verdict         `json:"inbox,omitempty"`  // of the facts that were asked about
	Stated      []Stated          `json:"stated,omitempty"` // what its outbox has that follows from them, from its calls and from people's actions
	Calls       []intent.CallView `json:"calls,omitempty"`
	Audit       []audit.Entry     `json:"audit,omitempty"` // what people did about it, the newest first
}

// Verdict is what a participant decided about a fact.
type Verdict struct {
	EventID    event.ID  `json:"event_id"`
	Verdict    string    `json:"verdict"`
	Why        string    `json:"why,omitempty"`
	Letter     int64     `json:"dead_letter,omitempty"` // the open one of a fact that is dead
	Duplicates int       `json:"duplicates,omitempty"`  // redeliveries that were absorbed
	HandledAt  time.Time `json:"handled_at"`
}

// State is one order's state in a page of all of them.
type State struct {
	Order     event.OrderNo   `json:"order"`
	Phase     string          `json:"phase"`
	State     json.RawMessage `json:"state"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// Figures are a participant's counts.
type Figures struct {
	Participant event.Participant        `json:"participant"`
	Phases      map[string]int64         `json:"phases"`
	Duplicates  int64                    `json:"duplicates"`   // redeliveries absorbed so far
	DeadLetters int64                    `json:"dead_letters"` // open ones
	Backlog     []intent.ProviderBacklog `json:"backlog,omitempty"`
}

// Letter is a dead letter.
type Letter struct {
	ID            int64             `json:"id"`
	Participant   event.Participant `json:"participant"`
	Topic         string            `json:"topic"`
	Partition     int32             `json:"partition"`
	Offset        int64             `json:"offset"`
	EventID       event.ID          `json:"event_id"`
	EventType     string            `json:"event_type,omitempty"`
	Key           string            `json:"key"`
	Headers       map[string]string `json:"headers,omitempty"`
	Value         []byte            `json:"value,omitempty"`
	OccurredAt    time.Time         `json:"occurred_at"`
	Reason        string            `json:"reason"`
	Detail        string            `json:"detail"`
	Attempts      int               `json:"attempts"`
	FirstFailedAt time.Time         `json:"first_failed_at"`
	LastFailedAt  time.Time         `json:"last_failed_at"`
	State         string            `json:"state"`
	ClosedAt      time.Time         `json:"closed_at,omitzero"`
	ClosedWhy     string            `json:"closed_why,omitempty"`
}

// RedriveRequest is how a dead letter is to be handled again.
type RedriveRequest struct {
	Preview bool   `json:"preview,omitempty"`  // find out what it would come to, and change nothing
	Force   bool   `json:"force,omitempty"`    // although the inbox may have forgotten that the fact was handled
	InOrder bool   `json:"in_order,omitempty"` // not while an earlier fact of its order in the same topic is a dead letter
	Reason  string `json:"reason,omitempty"`   // why; it is kept in the audit
}

// Redriven is what a redrive came to, or with a preview would.
type Redriven struct {
	Verdict string `json:"verdict"`
	Why     string `json:"why,omitempty"`
	Preview bool   `json:"preview,omitempty"`
}
