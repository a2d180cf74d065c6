package cdc_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
	"chorus/cdc/wal"
)

// A record is the same whether its row came in binary form or as text, as with a
// column of a type that has none here; also when the type is changed under way,
// with rows of both in the log.
func TestRecordsOfBinaryRowsAndOfText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	moments := []string{"2026-01-02 03:04:05.6+00", "infinity", "-infinity", "0044-03-15 12:00:00+00 BC", "0001-12-31 23:59:59.999999+00 BC", "0001-01-01 00:00:00+00",
		"12026-01-02 03:04:05+00", "1969-12-31 23:59:59.000001+00", "2000-02-29 00:00:00.12345+00"}
	var want []string
	n := 0
	round := func() {
		t.Helper()
		for _, m := range moments {
			n++
			r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat, correlationid, hop) VALUES ($1, 'orders', '1', 'T', '\x00ff', $2::text::timestamptz, '', $3)`,
				fmt.Sprintf("00000000-0000-0000-abcd-%012d", n), m, n-5)
			want = append(want, fmt.Sprintf("id=00000000-0000-0000-abcd-%012d eventType=T aggregateType=orders occurredAt=%s correlationId= causationId= hop=%d : \x00\xff", n, wal.AppendRFC3339(nil, []byte(m)), n-5))
		}
	}
	round()
	topic := r.read()
	topic.wait(len(want))
	p.stop()
	round()
	r.exec(`ALTER TABLE outbox ALTER COLUMN hop DROP DEFAULT, ALTER COLUMN hop TYPE numeric`)
	round()
	r.exec(`ALTER TABLE outbox ALTER COLUMN hop TYPE integer`) // what a look at the table would say
	p = r.start()
	topic.wait(len(want))
	r.exec(`ALTER TABLE outbox ALTER COLUMN hop TYPE numeric`)
	p.stop()
	round()
	r.start()
	first := map[string]bool{}
	var got []string
	done := 0
	topic.until("all records", func() bool {
		for ; done < len(topic.all); done++ {
			if text := line(topic.all[done]); !first[text] {
				first[text] = true
				got = append(got, text)
			}
		}
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func line(r *kgo.Record) string {
	text := ""
	for _, h := range r.Headers {
		text += h.Key + "=" + string(h.Value) + " "
	}
	return text + ": " + string(r.Value)
}
