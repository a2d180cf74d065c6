package cdc

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// OpenQuarantine connects a tool to the database that holds the quarantine of a
// source, and returns the name under which its rows are kept. An empty name is
// the only source.
func OpenQuarantine(ctx context.Context, log *slog.Logger, cfg Config, name string) (source string, db *pgx.Conn, err error) {
	_, sources, err := prepare(log, cfg, newMetrics(prometheus.NewRegistry()))
	if err != nil {
		return "", nil, err
	}
	s, err := pick(sources, name)
	if err != nil {
		return "", nil, err
	}
	db, err = s.connect(ctx)
	return s.cfg.Name, db, err
}
