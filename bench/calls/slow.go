package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/intent"
	"chorus/internal/pg"
)

// slow is a provider that takes its time and always agrees.
type slow struct {
	url     string
	server  *http.Server
	arrived chan time.Time // of requests, while somebody listens
	mu      sync.Mutex     // guards noting
	noting  bool
}

func listen(latency time.Duration) (*slow, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &slow{url: "http://" + ln.Addr().String(), arrived: make(chan time.Time, 1)}
	o.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		o.mu.Lock()
		noting := o.noting
		o.mu.Unlock()
		if noting {
			o.arrived <- now
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(latency)
		_, _ = io.WriteString(w, `{"id":"ch_1"}`)
	})}
	go func() { _ = o.server.Serve(ln) }() // ends with stop
	return o, nil
}

func (o *slow) note(on bool) {
	o.mu.Lock()
	o.noting = on
	o.mu.Unlock()
}

func (o *slow) stop() { _ = o.server.Close() }

// door is a service that only takes answers: what its decisions cost is not measured here.
type door struct{ pool *pgxpool.Pool }

func (d door) Answer(ctx context.Context, _ []intent.Answer, fence func(context.Context, pgx.Tx) error) error {
	return pg.InTx(ctx, d.pool, "take answers", func(tx pgx.Tx) error { return fence(ctx, tx) })
}
