// Package billing is the service that charges and refunds. It owns the topic billing.events and what it knows of
// each order; payment/ holds its rules. A crash leaves what participant and intent say.
package billing

import (
	"context"
	"log/slog"

	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/internal/provider"
	"chorus/services/billing/payment"
)

// Config is the service's configuration.
type Config struct {
	participant.Config
}

// Run runs the service until ctx ends.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	file, err := provider.Load(cfg.ProvidersFile)
	if err != nil {
		return err
	}
	return participant.Run(ctx, log, cfg.Config, participant.Setup[payment.State]{
		Spec: participant.Spec[payment.State]{
			Name: event.Billing, Decide: payment.Rules{Route: file.Route(event.PaymentStep)}.Decide,
			Phase: func(s payment.State) string { return string(s.Effect.Phase) },
		},
		Providers: file, Step: event.PaymentStep,
	})
}
