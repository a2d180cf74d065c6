package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"
)

// Profile serves Go's profiles under /debug/pprof/ until ctx ends, on a port of its own that the log names. It is on the
// loopback alone, because a profile tells everything about a process and costs it time.
func Profile(ctx context.Context, log *slog.Logger) error {
	listener, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	log.Info("profiles are served", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // who reads a profile is cut off
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
