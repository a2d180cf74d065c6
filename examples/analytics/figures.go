package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
)

const schema = `
CREATE TABLE IF NOT EXISTS figures (
    day      date   NOT NULL,
    currency text   NOT NULL,
    payments bigint NOT NULL,
    revenue  bigint NOT NULL, -- minor units, as is refunded
    refunds  bigint NOT NULL,
    refunded bigint NOT NULL,
    PRIMARY KEY (day, currency)
);
CREATE TABLE IF NOT EXISTS activity (
    day   date   NOT NULL,
    type  text   NOT NULL,
    facts bigint NOT NULL,
    PRIMARY KEY (day, type)
);
`

// place is a row of figures.
type place struct {
	day      time.Time
	currency string
}

// figure is what is added to a row.
type figure struct{ payments, revenue, refunds, refunded int64 }

// count adds facts to the figures. Sums do not depend on the order in which facts come, so it matters neither that each topic goes its own pace nor that a refund is read before its payment.
func count(ctx context.Context, tx pgx.Tx, values *decoder, facts []inbox.Fact) ([]inbox.Verdict, error) {
	verdicts := make([]inbox.Verdict, len(facts))
	sums := map[place]figure{}
	types := map[place]int64{} // with the type where the currency stands
	for i, f := range facts {
		day := f.OccurredAt.UTC().Truncate(24 * time.Hour)
		if f.Type == "PaymentTaken" || f.Type == "PaymentRefunded" {
			m, err := values.money(ctx, f.Value)
			switch {
			case errors.Is(err, errUndecodable):
				verdicts[i] = inbox.DeadVerdict("undecodable", err.Error())
				continue
			case err != nil:
				return nil, inbox.Again(err) // the registry is away: the fact is not to blame
			}
			at := place{day, m.currency}
			sum := sums[at]
			if f.Type == "PaymentTaken" {
				sum.payments, sum.revenue = sum.payments+1, sum.revenue+m.amount
			} else {
				sum.refunds, sum.refunded = sum.refunds+1, sum.refunded+m.amount
			}
			sums[at] = sum
		}
		types[place{day, f.Type}]++
	}
	return verdicts, save(ctx, tx, sums, types)
}

// save adds to the rows in sorted order, so that two partitions' transactions cannot wait for each other.
func save(ctx context.Context, tx pgx.Tx, sums map[place]figure, types map[place]int64) error {
	var batch pgx.Batch
	for _, at := range slices.SortedFunc(maps.Keys(sums), compare) {
		s := sums[at]
		batch.Queue(`
INSERT INTO figures (day, currency, payments, revenue, refunds, refunded) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (day, currency) DO UPDATE SET payments = figures.payments + EXCLUDED.payments, revenue = figures.revenue + EXCLUDED.revenue,
    refunds = figures.refunds + EXCLUDED.refunds, refunded = figures.refunded + EXCLUDED.refunded`,
			at.day, at.currency, s.payments, s.revenue, s.refunds, s.refunded)
	}
	for _, at := range slices.SortedFunc(maps.Keys(types), compare) {
		batch.Queue(`
INSERT INTO activity (day, type, facts) VALUES ($1, $2, $3)
ON CONFLICT (day, type) DO UPDATE SET facts = activity.facts + EXCLUDED.facts`, at.day, at.currency, types[at])
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("save figures: %w", err)
	}
	return nil
}

func compare(a, b place) int {
	return cmp.Or(a.day.Compare(b.day), cmp.Compare(a.currency, b.currency))
}

// printFigures writes what has been counted so far.
func printFigures(ctx context.Context, w io.Writer, postgres string) error {
	conn, err := pgx.Connect(ctx, postgres)
	if err != nil {
		return fmt.Errorf("connect to the figures: %w", err)
	}
	defer conn.Close(ctx)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "day\tcurrency\tpayments\trevenue\trefunds\trefunded")
	rows, _ := conn.Query(ctx, `SELECT day, currency, payments, revenue, refunds, refunded FROM figures ORDER BY day, currency`)
	var at place
	var f figure
	if _, err := pgx.ForEachRow(rows, []any{&at.day, &at.currency, &f.payments, &f.revenue, &f.refunds, &f.refunded}, func() error {
		_, err := fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", at.day.Format(time.DateOnly), at.currency, f.payments, f.revenue, f.refunds, f.refunded)
		return err
	}); err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	return table.Flush()
}
