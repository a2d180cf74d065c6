package inbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/internal/broker"
)

// Header is one header of a Kafka record.
type Header = broker.Header

// Fact is a record with an id of its own, as a Handler sees it.
type Fact struct {
	ID         [16]byte // header "id", a UUID: what makes a redelivery recognisable
	Type       string   // header "eventType"; empty when there is none
	Key        string
	Value      []byte // nil for a record without a value
	Headers    []Header
	OccurredAt time.Time // header "occurredAt" (RFC 3339), otherwise the record's timestamp

	Topic     string
	TopicID   [16]byte
	Partition int32
	Offset    int64
	Timestamp time.Time // the record's own: when its transaction committed, if chorus cdc or Debezium wrote it
}

// Header returns the value of the first header with this key.
func (f Fact) Header(key string) (value []byte, ok bool) {
	for _, h := range f.Headers {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// Outcome is what became of a fact in a consumer.
type Outcome string

// The outcomes. The zero value stands for Applied.
const (
	Applied    Outcome = "applied"
	Remembered Outcome = "remembered" // kept as state for later, because it came before its cause
	Ignored    Outcome = "ignored"    // an answer too; the verdict says why
	Dead       Outcome = "dead"       // set aside as a dead letter

	// Passed leaves no trace: the fact is none of this consumer's business and never will be, so that a redelivery gets the same answer. It saves the inbox a row.
	Passed Outcome = "passed"
)

// Verdict is a Handler's answer about one fact. It is kept in the inbox.
type Verdict struct {
	Outcome Outcome
	Why     string // for people; cut at 500 bytes
	Reason  string // for Dead alone: a short code, such as "undecodable", by which dead letters are counted
}

// DeadVerdict sets a fact aside without failing the batch that it came in. reason is a short code, detail is for people.
func DeadVerdict(reason, detail string) Verdict {
	return Verdict{Outcome: Dead, Why: detail, Reason: reason}
}

// Handler gives facts their effect. The facts are new to this consumer, of one partition (or several, Config.Together), in offset order; tx is the transaction in which they
// are recorded as seen, so what it writes there happens once. It must make no other lasting change and no remote call: the transaction may be rolled back and the
// facts handed over again. It neither commits nor rolls back tx.
//
// It returns one verdict for each fact, or nil for "all applied". On an error (or a panic) the transaction is rolled back and the facts are handed over
// again one at a time, to find the culprit. What then fails by the database's or the network's fault, or is wrapped in Again, is tried until it works; what is wrapped in Permanent, or breaks a constraint,
// becomes a dead letter; anything else does after Config.Attempts.
type Handler func(ctx context.Context, tx pgx.Tx, facts []Fact) ([]Verdict, error)
