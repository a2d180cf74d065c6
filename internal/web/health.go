package web

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// Gate answers 503 until it is opened: a process listens before it is set up, so that its health can be asked.
type Gate struct{ to atomic.Pointer[http.Handler] }

// Open lets requests through to h.
func (g *Gate) Open(h http.Handler) { g.to.Store(&h) }

func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := g.to.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/livez" {
		JSON(w, http.StatusOK, map[string]string{"status": "starting"})
		return
	}
	w.Header().Set("Retry-After", "1")
	Fail(w, http.StatusServiceUnavailable, "starting")
}

// readyWithin bounds the question whether the process is ready: a probe must not pile up behind a database that hangs.
const readyWithin = 2 * time.Second

// Health adds /livez and /readyz. ready returns why not, all reasons joined.
func Health(mux *http.ServeMux, ready func(context.Context) error) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		JSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
		defer cancel()
		if err := ready(ctx); err != nil {
			Fail(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		JSON(w, http.StatusOK, map[string]string{"status": "ready"})
	})
}
