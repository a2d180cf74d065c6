package inbox

import (
	"encoding/hex"
	"fmt"
	"time"

	"chorus/internal/broker"
)

// failure is why a record cannot be handled.
type failure struct {
	reason string // a short code
	detail string
}

// item is one record on its way through the door.
type item struct {
	record  broker.Record
	fact    Fact
	hasID   bool
	repeats int32    // how often the id comes again in the same batch
	failed  *failure // set when the record is to be set aside without asking the Handler
}

// identify reads what the door needs from a record's key and headers. A record without exactly one usable id cannot be told from others, so it must
// not share an inbox row with them (CON-10): it is set aside under its place in the topic.
func identify(r broker.Record) item {
	r.Timestamp = storable(r.Timestamp)
	it := item{record: r, fact: Fact{
		Key: string(r.Key), Value: r.Value, Headers: r.Headers, OccurredAt: r.Timestamp,
		Topic: r.Topic, TopicID: r.TopicID, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp,
	}}
	var ids, types int
	for _, h := range r.Headers {
		switch h.Key {
		case "id":
			ids++
			if ids > 1 {
				it.refuse(ReasonTwoIDs, "the record has several headers named id")
				continue
			}
			switch id, ok := parseID(h.Value); {
			case len(h.Value) == 0:
				it.refuse(ReasonEmptyID, "the header id is empty")
			case !ok:
				it.refuse(ReasonBadID, fmt.Sprintf("the header id %.60q is not a UUID", h.Value))
			default:
				it.fact.ID, it.hasID = id, true
			}
		case "eventType":
			types++
			it.fact.Type = string(h.Value)
			if types > 1 {
				it.refuse(ReasonTwoTypes, "the record has several headers named eventType")
			}
		case "occurredAt":
			if at, err := time.Parse(time.RFC3339Nano, string(h.Value)); err == nil {
				it.fact.OccurredAt = storable(at)
			}
		}
	}
	switch {
	case ids == 0:
		it.refuse(ReasonNoID, "the record has no header named id")
	case ids > 1:
		it.fact.ID, it.hasID = [16]byte{}, false
	case len(r.Key) == 0:
		it.refuse(ReasonNoKey, "the record has no key, so nothing puts it in order with others")
	}
	return it
}

// storable keeps a time within the years 1 to 9999. A producer that takes nanoseconds for milliseconds writes the year 55 million, which no timestamptz holds: the
// record could be neither handled nor set aside, and its partition would stand still for ever.
func storable(t time.Time) time.Time {
	switch year := t.UTC().Year(); {
	case year < 1:
		return time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	case year > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return t
}

// refuse keeps the first reason.
func (it *item) refuse(reason, detail string) {
	if it.failed == nil {
		it.failed = &failure{reason, detail}
	}
}

// parseID reads a UUID in its 36-character form, without regard to case. The nil UUID is what careless producers send for "none".
func parseID(s []byte) (id [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	var digits [32]byte
	n := 0
	for i, c := range s {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			continue
		}
		digits[n] = c
		n++
	}
	if _, err := hex.Decode(id[:], digits[:]); err != nil {
		return [16]byte{}, false
	}
	return id, id != [16]byte{}
}
