package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Meter holds a process's metrics: the runtime's, those of its HTTP side, and what others register.
type Meter struct {
	*prometheus.Registry
	seconds *prometheus.HistogramVec
}

// NewMeter returns a meter of one process or, in a test, of one of many in a process.
func NewMeter() *Meter {
	m := &Meter{
		Registry: prometheus.NewRegistry(),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "chorus_http_request_duration_seconds", Help: "How long requests took, by route and status.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10},
		}, []string{"route", "status"}),
	}
	m.MustRegister(m.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Measure adds GET /metrics to mux and returns the handler to serve, which measures each request. The route is mux's
// pattern, never the path, of which there are as many as orders.
func (m *Meter) Measure(mux *http.ServeMux) http.Handler {
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &watched{ResponseWriter: w, status: http.StatusOK}
		begun := time.Now()
		mux.ServeHTTP(seen, r)
		if seen.streamed {
			return // how long somebody watched says nothing about us
		}
		route := r.Pattern
		if route == "" {
			route = "none"
		}
		m.seconds.WithLabelValues(route, strconv.Itoa(seen.status)).Observe(time.Since(begun).Seconds())
	})
}

// watched remembers the status. It can still be flushed and controlled (http.ResponseController).
type watched struct {
	http.ResponseWriter
	status   int
	streamed bool
}

func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Flush() {
	w.streamed = true
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
