// Package web is the HTTP side that every process has: a server with limits and a clean stop, health,
// metrics, JSON bodies read strictly, JSON answers and RFC 9457 errors. It stores nothing.
package web

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

// Listen opens the address. A port of 0 takes a free one.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// drain is how long requests under way may take when the process stops.
const drain = 5 * time.Second

// Serve serves until ctx ends, and then finishes the requests under way, for 5 s at most; after that their contexts
// end and their connections are cut. A live stream has no end of its own: the context of a request that accepts
// text/event-stream ends with ctx, so a stream that watches its request's context holds up no stop, and it may
// last longer than the time limits of other requests.
//
// A panic of a handler is logged and answered with 500. A request that a page of another origin sends is refused with 403, so that no page elsewhere can change
// anything in the name of whoever looks at it; a program sends no such header and is let through. On a loopback address so is a request that names
// another host.
func Serve(ctx context.Context, log *slog.Logger, l net.Listener, h http.Handler) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler:           recovering(log, ownHosts(l.Addr(), sameOrigin(streaming(ctx, h)))),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       60 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // of broken connections
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(base, drain)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		cut()
		_ = server.Close() // whoever is still connected is cut off
	}
	<-done
	return nil
}

// streaming gives live streams a context that ends with stop, and no time limits: net/http would end a request's context when
// the connection's read limit passes.
func streaming(stop context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			h.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{}) // a connection that cannot have none keeps its limit
		_ = control.SetWriteDeadline(time.Time{})
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(stop, cancel)()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// recovering keeps a handler's panic from being nothing but a closed connection.
func recovering(log *slog.Logger, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				panic(p)
			}
			log.Error("request handler panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			Fail(w, http.StatusInternalServerError, "the request met a fault of this program") // without effect if an answer has begun
		}()
		h.ServeHTTP(w, r)
	})
}
