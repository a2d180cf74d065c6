package cdc

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transaction is the open Kafka transaction of a producer. One that is not
// committed is aborted by whoever claims the slot next, or by Kafka in time;
// its producer is of no more use.
type transaction struct {
	client   *kgo.Client
	suspects *suspects             // what is refused is noted there
	refused  atomic.Pointer[error] // why the first record was refused
}

func (p *publisher) beginTransaction() (*transaction, error) {
	if err := p.out.client.BeginTransaction(); err != nil {
		return nil, fmt.Errorf("begin a Kafka transaction: %w", err)
	}
	return &transaction{client: p.out.client, suspects: &p.suspects}, nil
}

// produce adds a record. It must not be given up when the session ends: half of
// a transaction would be committed.
func (t *transaction) produce(r *kgo.Record) { t.client.Produce(context.Background(), r, t.settle) }

func (t *transaction) settle(r *kgo.Record, err error) {
	if err != nil {
		t.suspects.add(err, r)
		err = fmt.Errorf("record of topic %s was refused: %w", r.Topic, err)
		t.refused.CompareAndSwap(nil, &err)
	}
}

// commit ends the transaction. With an error it may be committed or not.
func (t *transaction) commit(ctx context.Context) error {
	if err := t.client.Flush(ctx); err != nil {
		return fmt.Errorf("wait for the records of a Kafka transaction: %w", err)
	}
	if err := t.refused.Load(); err != nil {
		return *err
	}
	if err := t.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit a Kafka transaction, whose end is now looked up: %w", err)
	}
	return nil
}
