package outbox

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Row is one fact on its way to Kafka.
type Row struct {
	ID            [16]byte  // UUID; consumers recognise repeats by it. Must not be zero.
	AggregateType string    // owner of the topic: "orders" goes to orders.events. Must not be empty.
	AggregateID   string    // the Kafka key. Must not be empty: a record without key has no order.
	Type          string    // name of the fact, "OrderPlaced". Must not be empty.
	Payload       []byte    // value of the record, unchanged; nil is a Kafka null, empty is empty
	OccurredAt    time.Time // microseconds are kept; zero means the start of the transaction
	CorrelationID string    // the order (or whatever the chain of facts is about)
	CausationID   string    // id of the fact or request that caused this one
	Hop           int       // how many facts precede this one in its chain
	TraceParent   string    // W3C trace context; empty means none, and no header
	TraceState    string    // goes with TraceParent; empty means none
}

// The rows travel as one array a column, so that any number of them is one
// statement with eleven parameters and one round trip. ORDER BY makes the
// executor insert in the caller's order, which is the order in the log and so
// the order in Kafka.
const appendRows = `
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat,
                    correlationid, causationid, hop, traceparent, tracestate)
SELECT r.id, r.aggregatetype, r.aggregateid, r.type, r.payload, coalesce(r.occurredat, now()),
       r.correlationid, r.causationid, r.hop, nullif(r.traceparent, ''), nullif(r.tracestate, '')
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[],
            $7::text[], $8::text[], $9::int[], $10::text[], $11::text[])
     WITH ORDINALITY AS r (id, aggregatetype, aggregateid, type, payload, occurredat,
                           correlationid, causationid, hop, traceparent, tracestate, n)
ORDER BY r.n`

// Append adds rows to the outbox in tx, in the given order. They are published
// if and only if tx commits.
//
// A faulty row (no id, topic, key or type) is refused before anything is sent,
// all faults of all rows in one error, and tx stays usable. After an error of
// the database (an id that is there already: SQLSTATE 23505; a text that is
// too long: 22001) tx can only be rolled back. No rows is no work and no error.
func Append(ctx context.Context, tx pgx.Tx, rows ...Row) error {
	if len(rows) == 0 {
		return nil
	}
	var faults []error
	for i := range rows {
		if err := rows[i].check(); err != nil {
			faults = append(faults, fmt.Errorf("append outbox row %s: %w", id(rows[i].ID), err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	c := columnsOf(rows)
	if _, err := tx.Exec(ctx, appendRows, c.ids, c.aggregateTypes, c.aggregateIDs, c.types, c.payloads, c.occurredAts,
		c.correlationIDs, c.causationIDs, c.hops, c.traceParents, c.traceStates); err != nil {
		return fmt.Errorf("append %d outbox rows, first %s: %w", len(rows), id(rows[0].ID), err)
	}
	return nil
}

func (r *Row) check() error {
	var faults []error
	if r.ID == [16]byte{} {
		faults = append(faults, errors.New("id is zero"))
	}
	if r.AggregateType == "" {
		faults = append(faults, errors.New("aggregate type is empty, so there is no topic"))
	}
	if r.AggregateID == "" {
		faults = append(faults, errors.New("aggregate id is empty, so there is no key to keep an order by"))
	}
	if r.Type == "" {
		faults = append(faults, errors.New("type is empty"))
	}
	if r.Hop < 0 || r.Hop > 1<<31-1 {
		faults = append(faults, fmt.Errorf("hop is %d", r.Hop))
	}
	return errors.Join(faults...)
}

// columns holds rows turned by ninety degrees.
type columns struct {
	ids                                 [][16]byte
	aggregateTypes, aggregateIDs, types []string
	payloads                            [][]byte
	occurredAts                         []*time.Time
	correlationIDs, causationIDs        []string
	hops                                []int32
	traceParents, traceStates           []string
}

func columnsOf(rows []Row) columns {
	n := len(rows)
	c := columns{
		ids:            make([][16]byte, n),
		aggregateTypes: make([]string, n),
		aggregateIDs:   make([]string, n),
		types:          make([]string, n),
		payloads:       make([][]byte, n),
		occurredAts:    make([]*time.Time, n),
		correlationIDs: make([]string, n),
		causationIDs:   make([]string, n),
		hops:           make([]int32, n),
		traceParents:   make([]string, n),
		traceStates:    make([]string, n),
	}
	for i := range rows {
		r := &rows[i]
		c.ids[i] = r.ID
		c.aggregateTypes[i], c.aggregateIDs[i], c.types[i] = r.AggregateType, r.AggregateID, r.Type
		c.payloads[i] = r.Payload
		if !r.OccurredAt.IsZero() {
			c.occurredAts[i] = &r.OccurredAt
		}
		c.correlationIDs[i], c.causationIDs[i] = r.CorrelationID, r.CausationID
		c.hops[i] = int32(r.Hop)
		c.traceParents[i], c.traceStates[i] = r.TraceParent, r.TraceState
	}
	return c
}

// id is the usual text of a UUID.
func id(b [16]byte) string {
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
