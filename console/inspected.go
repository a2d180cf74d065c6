package console

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/tracker"
)

// inspected is somebody with an inspection API.
type inspected struct {
	Name   event.Participant
	Client inspect.Client
}

// everyone lists all with an inspection API, the tracker last. Its own is in this process.
func (s *server) everyone() (all []inspected) {
	for _, n := range s.services.participants() {
		all = append(all, inspected{event.Participant(n.Name), inspect.Client{Base: n.URL, HTTP: s.http}})
	}
	return append(all, inspected{tracker.Name, inspect.Client{Base: "http://" + tracker.Name, HTTP: &http.Client{Transport: here{s.self}}}})
}

// here is the way to a handler of this process.
type here struct{ handler http.Handler }

// RoundTrip has the handler answer.
func (h here) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &inMemory{header: http.Header{}, status: http.StatusOK}
	r = r.Clone(r.Context()) // the handler's to change
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h.handler.ServeHTTP(w, r)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

type inMemory struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *inMemory) Header() http.Header         { return w.header }
func (w *inMemory) WriteHeader(status int)      { w.status = status }
func (w *inMemory) Write(p []byte) (int, error) { return w.body.Write(p) }

// told is one participant's answer, or why there is none.
type told[T any] struct {
	Participant event.Participant
	Answer      T
	Error       string
}

// everybody asks every participant at the same time.
func everybody[T any](ctx context.Context, s *server, ask func(context.Context, inspect.Client) (T, error)) []told[T] {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	all := s.everyone()
	out := make([]told[T], len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			answer, err := ask(ctx, p.Client)
			out[i] = told[T]{Participant: p.Name, Answer: answer}
			if err != nil {
				out[i].Error = silence(err)
			}
		})
	}
	wg.Wait()
	return out
}

func (s *server) figures(ctx context.Context) []told[inspect.Figures] {
	return everybody(ctx, s, func(ctx context.Context, c inspect.Client) (inspect.Figures, error) { return c.Figures(ctx) })
}
