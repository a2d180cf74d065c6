package participant

import (
	"context"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
	"chorus/internal/intent"
)

// Receive is Handle for a consumer that calls Committed after each commit, with the same facts: calls that the workers have room for begin with
// it, without waiting to be claimed.
func (d *Door[S]) Receive(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
	d.takeBegun(facts).Drop() // of a run that was rolled back
	var begun *intent.Begun
	verdicts, err := d.handle(ctx, tx, facts, d.begins(&begun))
	if err != nil {
		begun.Drop()
		return nil, err
	}
	d.keepBegun(facts, begun)
	return verdicts, nil
}

// begins returns a planner that leaves in begun what it began.
func (d *Door[S]) begins(begun **intent.Begun) planner {
	if d.calls == nil {
		return intent.Plan
	}
	return func(ctx context.Context, tx pgx.Tx, planned []intent.Planned) (err error) {
		*begun, err = d.calls.Plan(ctx, tx, planned)
		return err
	}
}

// keepBegun holds calls back until the transaction that handles facts has committed. What is left of transactions that never did, because their
// partition was taken away, goes when its leases are over.
func (d *Door[S]) keepBegun(facts []inbox.Fact, begun *intent.Begun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, b := range d.begun {
		if b.Over() {
			b.Drop()
			delete(d.begun, id)
		}
	}
	if begun != nil && len(facts) > 0 {
		d.begun[facts[0].ID] = begun
	}
}

func (d *Door[S]) takeBegun(facts []inbox.Fact) *intent.Begun {
	if len(facts) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	begun := d.begun[facts[0].ID]
	delete(d.begun, facts[0].ID)
	return begun
}
