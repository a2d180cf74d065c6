package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Provider is an outside service that does something for whoever posts {"fact":"<id>"} with an Idempotency-Key, once for each key, as payment processors do. It is an http.Handler for the caller to
// serve. Of each third key the first answer is lost after the thing was done: the connection breaks, and whoever tries again under another key has it done twice.
type Provider struct {
	mu   sync.Mutex
	keys map[string]string // guarded by mu: fact by key
	lost int               // guarded by mu: answers
}

// ServeHTTP answers 200 when it is done, now or before; 400 and 422 to what cannot be understood.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	var body struct{ Fact string }
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&body); err != nil || key == "" || body.Fact == "" {
		http.Error(w, `want {"fact":"…"} and a header Idempotency-Key`, http.StatusBadRequest)
		return
	}
	switch known, lose := p.do(key, body.Fact); {
	case known != body.Fact:
		http.Error(w, "the key is that of another fact", http.StatusUnprocessableEntity)
	case lose:
		panic(http.ErrAbortHandler) // the server breaks the connection
	default:
		fmt.Fprintln(w, `{"done":true}`)
	}
}

func (p *Provider) do(key, fact string) (known string, lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, again := p.keys[key]; again {
		return known, false
	}
	if p.keys == nil {
		p.keys = map[string]string{}
	}
	p.keys[key] = fact
	if len(p.keys)%3 == 0 {
		p.lost++
		return fact, true
	}
	return fact, false
}

// Done returns how often the thing was done for each fact.
func (p *Provider) Done() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := map[string]int{}
	for _, fact := range p.keys {
		done[fact]++
	}
	return done
}
