package inbox_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"

	"chorus/inbox"
)

// A consumer that counts what customers paid. It may be killed, started twice, or sent everything again: each payment is counted once.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := inbox.Config{
		Brokers:  []string{"localhost:9092"},
		Group:    "revenue",
		Topics:   []string{"billing.events"},
		Postgres: "postgres://localhost/revenue", // with the tables of inbox.Schema and of the handler
	}
	err := inbox.Run(ctx, slog.Default(), cfg, func(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
		verdicts := make([]inbox.Verdict, len(facts))
		var sum int64
		for i, f := range facts {
			if f.Type != "PaymentTaken" {
				verdicts[i] = inbox.Verdict{Outcome: inbox.Ignored, Why: "only payments are counted"}
				continue
			}
			var payment struct{ Amount int64 }
			if err := json.Unmarshal(f.Value, &payment); err != nil {
				verdicts[i] = inbox.DeadVerdict("undecodable", err.Error()) // the others go on
				continue
			}
			sum += payment.Amount
		}
		_, err := tx.Exec(ctx, `UPDATE revenue SET amount = amount + $1`, sum)
		return verdicts, err // the door commits: effects, inbox and progress together
	})
	if err != nil {
		slog.Error("revenue", "err", err)
		os.Exit(1)
	}
}

// What was set aside is looked at by a person, mended, and handed to the handler again.
func ExampleRedrive() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "postgres://localhost/revenue")
	if err != nil {
		slog.Error("connect", "err", err)
		return
	}
	defer conn.Close(ctx)
	var handler inbox.Handler // the consumer's

	letters, err := inbox.DeadLetters(ctx, conn, inbox.LetterFilter{Consumer: "revenue", State: inbox.Open}, 100)
	if err != nil {
		slog.Error("dead letters", "err", err)
		return
	}
	for _, l := range letters {
		if l.Reason == inbox.ReasonHeld {
			continue // the consumer handles it itself when its turn comes
		}
		verdict, err := inbox.Redrive(ctx, conn, l.ID, inbox.RedriveOptions{}, handler)
		slog.Info("redriven", "letter", l.ID, "verdict", verdict.Outcome, "err", err)
	}
}

// Requests, outcomes and timers pass the same books, in the caller's own transaction.
func ExampleInsert() {
	handle := func(ctx context.Context, tx pgx.Tx, request inbox.Entry) error {
		fresh, err := inbox.Insert(ctx, tx, "revenue", request)
		if err != nil || !fresh[0] {
			return err // seen before: its effect is there, or nothing is
		}
		_, err = tx.Exec(ctx, `UPDATE revenue SET amount = 0`)
		return err
	}
	_ = handle
}
