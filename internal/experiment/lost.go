package experiment

import (
	"fmt"

	"chorus/internal/experiment/naive"
)

// lost are about what an outbox is for.
func lost() []Experiment {
	return []Experiment{
		{Name: "naive-gap", Seed: "N1", Title: "commit, die, never publish: an order that nobody hears of", run: func(t *trial) { t.compare(naive.AfterCommit) }, Alone: true,
			About: "A handler that commits and then publishes is right nearly always. Killed in between, it has lost the fact for good. With an outbox the same kill loses nothing."},
		{Name: "naive-rollback", Seed: "N2", Title: "publish, die, never commit: an order that does not exist", run: func(t *trial) { t.compare(naive.BeforeCommit) }, Alone: true,
			About: "The other way round is no better: others act on an order that was rolled back. With an outbox fact and order are one transaction."},
	}
}

// compare shows the same kill twice, without an outbox and with one.
func (t *trial) compare(gap string) {
	const orders, killed = 10, 5
	for _, outbox := range []bool{false, true} {
		how := "publishes from its handler"
		if outbox {
			how = "has an outbox, and a publisher"
		}
		t.step("A shop of its own, with a table and a topic of its own, %s.", how)
		var books naive.Books
		t.try("show it", func() (err error) {
			bench, err := t.lab.Bench(t.ctx)
			if err != nil {
				return err
			}
			defer func() {
				if e := bench.Close(t.ctx); err == nil {
					err = e
				}
			}()
			play := naive.Play{Outbox: outbox, Gap: gap, Orders: orders, Kill: killed}
			books, err = bench.Show(t.ctx, play, t.step)
			return err
		})
		t.judge(gap, outbox, books, orders, killed)
	}
}

// judge says what is lost, and what is made up.
func (t *trial) judge(gap string, outbox bool, books naive.Books, orders, killed int) {
	lost, phantoms := []int(nil), []int(nil)
	there := orders
	if gap == naive.BeforeCommit {
		there-- // it was rolled back
	}
	who := "outbox: "
	if !outbox {
		who = "naive: "
		if gap == naive.AfterCommit {
			lost = []int{killed}
		} else {
			phantoms = []int{killed}
		}
	}
	t.expectCount(who+"orders in the table", there, len(books.Orders))
	t.expect(who+"orders that nobody was told of", numbers(lost), numbers(books.Lost()))
	t.expect(who+"orders that others were told of and that do not exist", numbers(phantoms), numbers(books.Phantoms()))
}

func numbers(all []int) string {
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprint(all)
}
