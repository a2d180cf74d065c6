package cdc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// State is what a source is doing, for people and probes.
type State string

const (
	Live     State = "live"      // publishing, with rows on their way
	CaughtUp State = "caught up" // everything up to the end of the log is published
	Stalled  State = "stalled"   // nothing moves; see the reason
	Standby  State = "standby"   // another session has the slot, and this one takes over when it ends
)

// states are all of them.
var states = []State{Live, CaughtUp, Stalled, Standby}

// Status is one source in the answer of /readyz.
type Status struct {
	Source         string   `json:"source"`
	State          State    `json:"state"`
	Reason         string   `json:"reason,omitempty"`
	SlotLagBytes   *int64   `json:"slotLagBytes,omitempty"`  // from the confirmed position to the end of the log
	RetainedBytes  *int64   `json:"retainedBytes,omitempty"` // of log that the server keeps for the slot
	SafeBytes      *int64   `json:"safeBytes,omitempty"`     // that may be written before the slot is lost; missing without a limit
	SecondsToLoss  *float64 `json:"secondsToLoss,omitempty"` // when that will be as the log grows now, if nothing more is confirmed
	Unacknowledged int      `json:"unacknowledged"`          // records sent and not acknowledged
	InFlight       int      `json:"inFlight"`                // transactions that are not confirmed, the one that is being received among them
	RetainedBy     string   `json:"retainedBy,omitempty"`    // for whom the server keeps much log that is published
	Confirmed      string   `json:"confirmed,omitempty"`     // position, as PostgreSQL prints it
	Quarantined    int64    `json:"quarantined"`             // records that Kafka refuses, and those behind them
	Held           *Held    `json:"held,omitempty"`          // large transactions that have not ended, or are being published
}

// ready is false for a standby: whoever has the slot may be a stranger (CDC-10).
func (s Status) ready() bool { return s.State != Stalled && s.State != Standby }

// patience is how long acknowledgements may fail to come before the source is
// called stalled.
const patience = 10 * time.Second

// status is the present state.
func (s *source) status() Status {
	s.mu.Lock()
	flight, held, reason, slot, finished, standby := s.flight, s.held, s.reason, s.slot, s.finished, s.standby
	s.mu.Unlock()
	st := Status{Source: s.cfg.Name, State: Stalled, Reason: reason, Quarantined: s.quarantined.Load()}
	if slot != nil {
		st.SlotLagBytes, st.RetainedBytes, st.SafeBytes, st.RetainedBy = &slot.lag, &slot.retained, slot.safe, slot.keeps
		if slot.toLoss != nil {
			seconds := slot.toLoss.Seconds()
			st.SecondsToLoss = &seconds
		}
	}
	switch {
	case finished:
		st.State = CaughtUp
	case standby:
		st.State = Standby
	}
	if flight == nil {
		return st
	}
	unacked, since, caughtUp := flight.view()
	st.InFlight = flight.transactions()
	st.Held = held.view()
	st.Unacknowledged, st.Confirmed = unacked, flight.confirmed().String()
	waited := time.Since(since)
	switch {
	case reason != "":
	case unacked > 0 && waited > patience:
		st.Reason = fmt.Sprintf("Kafka has acknowledged nothing for %s", waited.Round(time.Second))
	case slot != nil && slot.stands != "":
		st.Reason = slot.stands
	case caughtUp:
		st.State = CaughtUp
	default:
		st.State = Live
	}
	return st
}

// listen serves /livez, /readyz and /metrics until the returned function is
// called. An empty address is no listener.
func listen(ctx context.Context, log *slog.Logger, addr string, registry *prometheus.Registry, sources []*source) (closeListener func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	server := &http.Server{Handler: handler(registry, sources), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("probes are not answered any more", "err", err)
		}
	}()
	log.Info("listening", "addr", ln.Addr().String())
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

func handler(registry *prometheus.Registry, sources []*source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer := struct {
			Ready   bool     `json:"ready"`
			Sources []Status `json:"sources"`
		}{Ready: true}
		for _, s := range sources {
			st := s.status()
			answer.Ready = answer.Ready && st.ready()
			answer.Sources = append(answer.Sources, st)
		}
		w.Header().Set("Content-Type", "application/json")
		if !answer.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
