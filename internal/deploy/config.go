package deploy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config is what `chorus deploy` can be told.
type Config struct {
	Postgres   string        `help:"URL of the PostgreSQL server, as a superuser; wal_level=logical." env:"CHORUS_POSTGRES" required:""`
	Password   string        `help:"Password that every role gets: those of the services, the owners' and cdc's." env:"CHORUS_ROLE_PASSWORD" required:""`
	Kafka      []string      `help:"Kafka brokers, host:port." env:"CHORUS_KAFKA" default:"127.0.0.1:9092"`
	Partitions int32         `help:"Partitions of each topic, when it is made." default:"6" env:"CHORUS_PARTITIONS"`
	Registry   string        `help:"URL of a Confluent-compatible schema registry; missing schemas are registered. Empty: none." env:"CHORUS_REGISTRY"`
	Within     time.Duration `help:"How long to wait for servers that are not there yet." default:"5m"`
}

// Run deploys once: databases, roles and tables, topics, schemas.
func Run(ctx context.Context, log *slog.Logger, cfg Config) error {
	if cfg.Partitions < 1 || cfg.Partitions > 1000 {
		return fmt.Errorf("configuration of deploy: partitions %d: want 1 to 1000", cfg.Partitions)
	}
	if cfg.Postgres == "" || cfg.Password == "" || len(cfg.Kafka) == 0 {
		return errors.New("configuration of deploy: want the URL of PostgreSQL, a password for the roles, and Kafka brokers")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Within, fmt.Errorf("not within %s", cfg.Within))
	defer cancel()
	return Plan{
		Server: Server{Admin: cfg.Postgres, Password: func(string) string { return cfg.Password }},
		Kafka:  cfg.Kafka, Partitions: cfg.Partitions, Registry: cfg.Registry,
	}.Run(ctx, log)
}
