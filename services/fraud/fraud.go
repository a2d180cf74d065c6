// Package fraud is the service that screens orders. It owns the topic fraud.events and what it knows of each
// order; screening/ holds its rules. A crash leaves what participant and intent say.
package fraud

import (
	"context"
	"log/slog"

	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/internal/provider"
	"chorus/services/fraud/screening"
)

// Config is the service's configuration.
type Config struct {
	participant.Config
	Rules screening.Rules `embed:"" prefix:"score-" envprefix:"CHORUS_SCORE_"`
}

// Run runs the service until ctx ends.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	file, err := provider.Load(cfg.ProvidersFile)
	if err != nil {
		return err
	}
	rules := cfg.Rules
	rules.Route = file.Route(event.ScreeningStep)
	return participant.Run(ctx, log, cfg.Config, participant.Setup[screening.State]{
		Spec: participant.Spec[screening.State]{
			Name: event.Fraud, Decide: rules.Decide,
			Phase: func(s screening.State) string { return string(s.Phase) },
		},
		Providers: file, Step: event.ScreeningStep,
	})
}
