package deploy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"chorus/internal/broker"
	"chorus/internal/codec/registry"
	"chorus/internal/event"
	"chorus/internal/pg"
)

// Plan is everything that has to be there before a process starts.
type Plan struct {
	Server     Server
	Kafka      []string
	Partitions int32  // of a topic that is made
	Registry   string // empty: the embedded one, which has the schemas under fixed ids
}

// again is how long a step waits before it is repeated.
const again = 500 * time.Millisecond

// Run makes what is missing. A server that is away, or is still starting, is waited for until ctx ends;
// its cause is then part of the error.
func (p Plan) Run(ctx context.Context, log *slog.Logger) error {
	err := patiently(ctx, log, "prepare PostgreSQL", pg.Transient, func() error { return p.Server.Ensure(ctx, log, nil) })
	if err != nil {
		return err
	}
	topics := map[string]int32{}
	for _, owner := range event.Owners() {
		topics[owner.Topic()] = p.Partitions
	}
	err = patiently(ctx, log, "prepare Kafka", notYet, func() error { return broker.EnsureTopics(ctx, p.Kafka, topics) })
	if err != nil {
		return err
	}
	log.Info("topics ready", "topics", len(topics))
	if p.Registry == "" {
		return nil
	}
	client, err := registry.New(p.Registry, log)
	if err != nil {
		return err
	}
	if _, err := client.Register(ctx); err != nil { // it waits for the registry by itself
		return fmt.Errorf("prepare the registry: %w", err)
	}
	log.Info("schemas ready")
	return nil
}

// notYet holds for whatever Kafka may get over: brokers that are away, or too few of them for the wanted copies.
func notYet(err error) bool {
	var fewer *broker.PartitionsError
	return !errors.As(err, &fewer)
}

// patiently repeats a step as long as its error may pass.
func patiently(ctx context.Context, log *slog.Logger, what string, passes func(error) bool, step func() error) error {
	told := ""
	for {
		err := step()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		case !passes(err):
			return fmt.Errorf("%s: %w", what, err)
		case err.Error() != told:
			told = err.Error()
			log.Info("waiting", "to", what, "err", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		case <-time.After(again):
		}
	}
}
