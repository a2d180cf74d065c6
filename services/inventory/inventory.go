// Package inventory is the service that holds stock. It owns the topic inventory.events, the counts of each
// product and what it knows of each order; stock/ holds its rules. A hold and the decision that takes it are one
// transaction, so a crash leaves both or neither.
package inventory

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"net/http"

	"chorus/internal/event"
	"chorus/internal/participant"
	"chorus/internal/provider"
	"chorus/services/inventory/stock"
)

//go:embed schema/*.sql
var schema embed.FS

// Schema is the service's own migrations, for pg.Migrate.
func Schema() fs.FS { return schema }

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
	return participant.Run(ctx, log, cfg.Config, participant.Setup[stock.State]{
		Spec: participant.Spec[stock.State]{
			Name: event.Inventory, Decide: stock.Rules{Route: file.Route(event.StockStep)}.Decide, Shelf: openShelf,
			Phase: func(s stock.State) string { return string(s.Effect.Phase) },
		},
		Providers: file, Step: event.StockStep,
		Routes: func(s *participant.Service[stock.State], mux *http.ServeMux) {
			counts{s.DB}.routes(mux)
		},
	})
}
