// Package provider is the only HTTP client for the outside world: the warehouse, the bureau, the
// carriers and the processors (D7). Everything about them is configuration, a [File]: which provider a step's call goes to, what
// to send, and what an answer means. It says what to send ([Set.Prepare]), sends it exactly once ([Set.Send]), and how much
// may be sent now ([Gate]); when to send, how often and what to do next is decided by decision.Call and carried out by
// internal/intent.
//
// It stores nothing. A crash in the middle of Send leaves a request that may or may
// not have had its effect; the caller has recorded that it began, and asks by key.
package provider

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Set is the providers that a service calls.
type Set struct {
	base    string
	clients map[string]*client
}

// client is one provider with connections of its own, so that a slow provider cannot use up those of another.
type client struct {
	*spec
	timeout   time.Duration
	gate      *Gate
	transport *http.Transport
}

func newClient(s *spec, timeout time.Duration) *client {
	if s.limits.Timeout > 0 {
		timeout = s.limits.Timeout
	}
	return &client{spec: s, timeout: timeout, gate: newGate(s.limits), transport: newTransport(s.limits.Concurrency)}
}

// Names lists the providers, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.clients)) }

// Limits returns what holds for a provider of the set, its timeout included.
func (s *Set) Limits(name string) Limits {
	c := s.clients[name]
	if c == nil {
		return Limits{}
	}
	l := c.limits
	l.Timeout = c.timeout
	return l
}

// Gate returns how much may be sent to a provider of the set.
func (s *Set) Gate(name string) *Gate { return s.clients[name].gate }

// Close closes the connections that idle.
func (s *Set) Close() {
	for _, c := range s.clients {
		c.transport.CloseIdleConnections()
	}
}
