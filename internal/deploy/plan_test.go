package deploy_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"chorus/internal/broker"
	"chorus/internal/brokertest"
	"chorus/internal/deploy"
	"chorus/internal/event"
	"chorus/internal/pgtest"
)

// announced closes seen at the first log line with the message.
type announced struct {
	slog.Handler
	message string
	seen    chan struct{}
}

func (a *announced) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == a.message {
		select {
		case <-a.seen:
		default:
			close(a.seen)
		}
	}
	return a.Handler.Handle(ctx, r)
}

// OPS-06: a deployment may come before the broker, may be repeated, and sees a topic that is too narrow.
func TestPlan(t *testing.T) {
	t.Parallel()
	kafka := brokertest.Start(t, nil)
	kafka.Stop()
	late := &announced{Handler: slog.NewTextHandler(t.Output(), nil), message: "waiting", seen: make(chan struct{})}
	plan := deploy.Plan{
		Server: deploy.Server{Admin: pgtest.Server(t).DSN(), Password: password},
		Kafka:  []string{kafka.Addr()}, Partitions: 3,
	}
	done := make(chan error, 1)
	go func() { done <- plan.Run(t.Context(), slog.New(late)) }()
	select {
	case <-late.seen:
	case err := <-done:
		t.Fatalf("without a broker it ended: %v", err)
	}
	kafka.Restart()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := plan.Run(t.Context(), slog.New(late)); err != nil {
		t.Fatal("once more:", err)
	}
	client, err := broker.NewClient([]string{kafka.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range event.Owners() {
		if n := len(topics[owner.Topic()].Partitions); n != 3 {
			t.Errorf("%s has %d partitions, want 3", owner.Topic(), n)
		}
	}

	plan.Partitions = 4
	var fewer *broker.PartitionsError
	if err := plan.Run(t.Context(), slog.New(late)); !errors.As(err, &fewer) || fewer.Have != 3 || fewer.Want != 4 {
		t.Errorf("topics that are too narrow: %v", err)
	}
}

func TestPlanSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	kafka := brokertest.Start(t, nil)
	kafka.Stop()
	patience := errors.New("patience is used up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, patience)
	defer cancel()
	err := deploy.Plan{
		Server: deploy.Server{Admin: pgtest.Server(t).DSN(), Password: password},
		Kafka:  []string{kafka.Addr()}, Partitions: 3,
	}.Run(ctx, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if !errors.Is(err, patience) && !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "prepare ") {
		t.Errorf("got %v", err)
	}
}
