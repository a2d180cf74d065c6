package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config of the broker process.
type Config struct {
	Dir      string   // data folder; created if needed
	Listen   string   // Kafka address, loopback IP and port
	Registry string   // HTTP address of the schema registry and of /livez and /readyz
	Schemas  []Schema // served by the registry from the start under these ids
}

// shutdownGrace is how long registry requests may take to finish when the process is told to stop. The broker closes after them, within a tenth of a second.
const shutdownGrace = 2 * time.Second

// RunBroker serves until ctx ends, then closes cleanly. The registry's port answers beside the registry's own paths:
//
//	GET /livez   200 while the process serves
//	GET /readyz  200 when the broker answers a Kafka request as well, else 503 with the reason
func RunBroker(ctx context.Context, log *slog.Logger, cfg Config) (err error) {
	broker, err := OpenBroker(ctx, log, cfg.Dir, cfg.Listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()

	registry, err := OpenRegistry(filepath.Join(broker.lock.Dir(), "registry.log"), cfg.Schemas)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, registry.Close()) }()

	probe, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.ClientID("chorus-broker-probe"))
	if err != nil {
		return fmt.Errorf("create probe of the broker: %w", err)
	}
	defer probe.Close()

	listener, err := net.Listen("tcp", cfg.Registry)
	if err != nil {
		return fmt.Errorf("listen for the schema registry: %w", err)
	}
	log.Info("schema registry started", "url", "http://"+listener.Addr().String(), "schemas", len(cfg.Schemas))
	return serve(ctx, listener, routes(registry, probe))
}

func routes(registry *Registry, probe *kgo.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := probe.Ping(ctx); err != nil {
			http.Error(w, "broker does not answer: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("/", registry)
	return mux
}

// serve returns when no request is in flight any more, or after shutdownGrace.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve schema registry: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := server.Shutdown(stop)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop schema registry: %w", err), server.Close())
	}
	<-served
	return err
}
