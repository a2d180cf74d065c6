package participant

import (
	"context"
	"net/http"
	"strings"

	"chorus/internal/codec"
)

type traceKey struct{}

type traceContext struct{ parent, state string }

// Traced returns the request's context with the W3C trace context of its headers: what the door does in it, and all that follows from
// that in any service, carries the trace. A malformed one, or one that is there twice, is left out: a trace must never cause a fault.
func Traced(r *http.Request) context.Context {
	parents := r.Header.Values("Traceparent")
	if len(parents) != 1 {
		return r.Context()
	}
	parent, state := codec.Trace(parents[0], strings.Join(r.Header.Values("Tracestate"), ","))
	if parent == "" {
		return r.Context()
	}
	return context.WithValue(r.Context(), traceKey{}, traceContext{parent, state})
}

func traceOf(ctx context.Context) (parent, state string) {
	t, _ := ctx.Value(traceKey{}).(traceContext)
	return t.parent, t.state
}

// Tracing is the transport of requests to another participant: they carry the trace of their context.
type Tracing struct{}

// RoundTrip sends the request.
func (Tracing) RoundTrip(r *http.Request) (*http.Response, error) {
	if parent, state := traceOf(r.Context()); parent != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Traceparent", parent)
		if state != "" {
			r.Header.Set("Tracestate", state)
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}
