package check_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"chorus/internal/check"
	"chorus/internal/event"
)

func outboxID(n byte) event.ID { return event.ID{15: n} }

// The rows 1, 2, 3 of order 7 and 4 of order 8 stand in two outboxes; 2 and 3 were committed together.
func outboxRows() []check.OutboxRow {
	at := func(s int) time.Time { return time.Unix(1_700_000_000+int64(s), 0) }
	return []check.OutboxRow{ // as they come: the newest first
		{ID: outboxID(4), Topic: "billing.events", Key: "8", Type: "PaymentTaken", Written: at(0), Committed: at(9)},
		{ID: outboxID(3), Topic: "orders.events", Key: "7", Type: "C", Written: at(4), Committed: at(8)},
		{ID: outboxID(1), Topic: "orders.events", Key: "7", Type: "A", Written: at(5), Committed: at(6)}, // its writer's clock is ahead
		{ID: outboxID(2), Topic: "orders.events", Key: "7", Type: "B", Written: at(3), Committed: at(8)},
	}
}

func TestOutboxes(t *testing.T) {
	t.Parallel()
	untold := func(rows []check.OutboxRow) []check.OutboxRow {
		for i := range rows {
			rows[i].Committed = time.Time{}
		}
		return rows
	}
	twins := func(rows []check.OutboxRow) []check.OutboxRow {
		rows[1].Written = rows[3].Written
		return rows
	}
	for name, c := range map[string]struct {
		rows    func([]check.OutboxRow) []check.OutboxRow
		reads   string // order:row@partition
		repeats int
		unknown int64 // whose order is not judged
		fault   string
	}{
		"all is well":                           {nil, "7:1@0 8:4@1 7:2@0 7:3@0", 0, 0, ""},
		"what is there twice":                   {nil, "7:1@0 7:2@0 7:1@0 7:2@0 7:3@0 8:4@1", 2, 0, ""},
		"a row that is missing":                 {nil, "7:1@0 7:3@0 8:4@1", 0, 0, "1 of 4 rows are missing: [orders.events/7/00000000-0000-0000-0000-000000000002 (B)]"},
		"a later commit first":                  {nil, "7:2@0 7:1@0 7:3@0 8:4@1", 0, 0, "row 00000000-0000-0000-0000-000000000001 (A) comes late, behind row 00000000-0000-0000-0000-000000000002 (B)"},
		"a later row of one commit first":       {nil, "7:1@0 7:3@0 7:2@0 8:4@1", 0, 0, "(B) comes late, behind row 00000000-0000-0000-0000-000000000003 (C)"},
		"under another key":                     {nil, "7:1@0 7:2@0 7:3@0 7:4@0", 0, 0, "key billing.events/7, which nobody wrote"},
		"in two partitions":                     {nil, "7:1@0 7:2@1 7:3@1 8:4@1", 0, 0, "in partitions 0 and 1"},
		"commits that nobody has timed":         {untold, "7:2@0 7:1@0 7:3@0 8:4@1", 0, 3, ""},
		"not timed, and one is missing":         {untold, "7:2@0 7:1@0 8:4@1", 0, 3, "1 of 4 rows are missing"},
		"two rows that cannot be told apart":    {twins, "7:1@0 7:3@0 7:2@0 8:4@1", 0, 3, ""},
		"records of rows that were pruned":      {nil, "7:9@0 7:1@0 7:2@0 7:3@0 8:4@1 9:9@0", 0, 0, ""},
		"a single row without a time is judged": {func(rows []check.OutboxRow) []check.OutboxRow { return untold(rows[:1]) }, "", 0, 0, "1 of 1 rows are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := outboxRows()
			if c.rows != nil {
				rows = c.rows(rows)
			}
			o := check.NewOutboxes(rows)
			strangers := int64(0)
			for _, r := range strings.Fields(c.reads) {
				var key, row, partition int
				if _, err := fmt.Sscanf(r, "%d:%d@%d", &key, &row, &partition); err != nil {
					t.Fatal(err)
				}
				topic := "orders.events"
				if row == 4 {
					topic = "billing.events"
				}
				if row == 9 {
					strangers++
				}
				o.Read(topic, fmt.Sprint(key), outboxID(byte(row)), int32(partition))
			}
			var faults []string
			for _, v := range o.Violations(true) {
				faults = append(faults, v.String())
			}
			text := strings.Join(faults, "; ")
			if (text == "") != (c.fault == "") || !strings.Contains(text, c.fault) {
				t.Errorf("faults %q, want %q", text, c.fault)
			}
			if o.Repeats() != c.repeats || o.Unordered != c.unknown || o.Strangers != strangers {
				t.Errorf("%d repeats, %d rows without an order, %d strangers; want %d, %d, %d", o.Repeats(), o.Unordered, o.Strangers, c.repeats, c.unknown, strangers)
			}
			// Of topics that do not reach back to their beginning it is not known what was in them.
			if strings.Contains(c.fault, "missing") {
				if found := o.Violations(false); len(found) > 0 || o.Missing() != 1 {
					t.Errorf("%d rows are missing, and of truncated topics it is said: %v", o.Missing(), found)
				}
			}
		})
	}
}
