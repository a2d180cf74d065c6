// Package shipping is the service that books and cancels shipments. It owns the topic shipping.events and what it
// knows of each order; shipment/ holds its rules. A crash leaves what participant and intent say.
package shipping

import (
	"context"
	"log/slog"

	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/internal/provider"
	"chorus/services/shipping/shipment"
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
	return participant.Run(ctx, log, cfg.Config, participant.Setup[shipment.State]{
		Spec: participant.Spec[shipment.State]{
			Name: event.Shipping, Decide: shipment.Rules{Route: file.Route(event.ShipmentStep)}.Decide,
			Phase: func(s shipment.State) string { return string(s.Effect.Phase) },
		},
		Providers: file, Step: event.ShipmentStep,
	})
}
