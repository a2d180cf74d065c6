package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// Schema is one schema that the registry serves from the start, under an id that never changes: ids are written into every record, so a schema whose
// id moves makes the topics unreadable.
type Schema struct {
	Subject string
	ID      int
	Version int    // from 1
	Text    string // Avro
}

// firstRegisteredID begins the ids of schemas that are registered at run time. Those below are kept for seeded ones, so that a release
// which brings new schemas does not collide with what people registered before it.
const firstRegisteredID = 1000

// maxBody bounds a request's body, as the registry behind us does.
const maxBody = 1 << 20

// Registry is a schema registry with the usual (Confluent) REST interface. Schemas and changes are in memory; each accepted change is
// written to a journal before it is answered, and the journal is played through the same handler at the next start.
//
// The REST interface itself is franz-go's srfake: the client libraries' own tests run against it.
//
// It checks no compatibility, and says so: the level is NONE and cannot be changed.
type Registry struct {
	inner http.Handler

	mu      sync.Mutex // held over a change and its line in the journal, so that both have one order
	journal *journal
}

// OpenRegistry serves the seeds and replays the changes journaled in file.
func OpenRegistry(file string, seeds []Schema) (*Registry, error) {
	fake := srfake.NewRegistry(srfake.WithGlobalCompat(sr.CompatNone))
	if err := seed(fake, seeds); err != nil {
		return nil, err
	}
	r := &Registry{inner: fake.Handler()}
	if err := r.reserve(fake); err != nil {
		return nil, err
	}
	var err error
	r.journal, err = openJournal(file, r.replay)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close ends the journal. No request may be in flight.
func (r *Registry) Close() error { return r.journal.close() }

// seed refuses what srfake would panic on, and reports all faults together.
func seed(fake *srfake.Registry, seeds []Schema) error {
	var errs []error
	type version struct {
		subject string
		n       int
	}
	ids, versions := map[int]string{}, map[version]bool{}
	for _, s := range seeds {
		v := version{s.Subject, s.Version}
		switch {
		case s.Subject == "" || s.Version < 1:
			errs = append(errs, fmt.Errorf("schema %q version %d: subject and a version from 1 are required", s.Subject, s.Version))
		case s.ID < 1 || s.ID >= firstRegisteredID-1:
			errs = append(errs, fmt.Errorf("schema %s: id %d is not between 1 and %d", s.Subject, s.ID, firstRegisteredID-2))
		case ids[s.ID] != "":
			errs = append(errs, fmt.Errorf("schema %s: id %d is that of %s", s.Subject, s.ID, ids[s.ID]))
		case versions[v]:
			errs = append(errs, fmt.Errorf("schema %s: version %d is given twice", s.Subject, s.Version))
		case !json.Valid([]byte(s.Text)):
			errs = append(errs, fmt.Errorf("schema %s: not JSON", s.Subject))
		default:
			ids[s.ID], versions[v] = s.Subject, true
			fake.SeedSchema(s.Subject, s.Version, s.ID, sr.Schema{Schema: s.Text})
		}
	}
	return errors.Join(errs...)
}

// reserve moves the next id to firstRegisteredID. srfake counts on from the highest id it has seen, and forgets no id when its subject is deleted.
func (r *Registry) reserve(fake *srfake.Registry) error {
	const subject = "chorus.registry.reserved"
	fake.SeedSchema(subject, 1, firstRegisteredID-1, sr.Schema{Schema: `{"type":"record","name":"Reserved","namespace":"chorus.registry","fields":[]}`})
	if resp := r.call(change{Method: http.MethodDelete, URI: "/subjects/" + subject + "?permanent=true"}); resp.Code != http.StatusOK {
		return fmt.Errorf("reserve schema ids: %s", strings.TrimSpace(resp.Body.String()))
	}
	return nil
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !changes(req) {
		r.inner.ServeHTTP(w, anySubject(req))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, 42201, "read request: "+err.Error())
		return
	}
	c := change{Method: req.Method, URI: req.URL.RequestURI(), Body: string(body)}
	if c.asksForChecks() {
		refuse(w, http.StatusUnprocessableEntity, 42203, "this registry checks no compatibility; the only level is NONE")
		return
	}
	r.apply(w, c)
}

// anySubject has a schema found by its id whatever its subject is. Confluent's clients name one that they make of the topic's name, and to Confluent's
// registry it tells the context alone; srfake finds no schema that is of another subject, as ours are.
func anySubject(req *http.Request) *http.Request {
	query := req.URL.Query()
	if !byID.MatchString(req.URL.EscapedPath()) || !query.Has("subject") || strings.HasPrefix(query.Get("subject"), ":.") {
		return req
	}
	query.Del("subject")
	copied := req.Clone(req.Context())
	copied.URL.RawQuery = query.Encode()
	return copied
}

// apply makes the change, then journals it, then answers. A crash before the line is complete loses a change that nobody was told of. If the line
// cannot be written the caller gets an error, and the change stays in memory until the next start: repeating it is safe.
func (r *Registry) apply(w http.ResponseWriter, c change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.registered(c)
	resp := r.call(c)
	if resp.Code == http.StatusOK && !known {
		c.Answer = strings.TrimSpace(resp.Body.String())
		if err := r.journal.append(c); err != nil {
			refuse(w, http.StatusInternalServerError, 50001, err.Error())
			return
		}
	}
	for k, v := range resp.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.Code)
	_, _ = w.Write(resp.Body.Bytes())
}

// registered says that a registration would change nothing and that the journal or the seeds hold it. Every service registers its schemas at each start:
// without this the journal would grow for ever.
func (r *Registry) registered(c change) bool {
	subject, ok := strings.CutSuffix(c.path(), "/versions")
	if c.Method != http.MethodPost || !ok {
		return false
	}
	resp := r.call(change{Method: http.MethodPost, URI: subject, Body: c.Body})
	return resp.Code == http.StatusOK && !r.journal.incomplete
}

// replay makes one journaled change again, and refuses to go on if it comes out differently: ids would have moved.
func (r *Registry) replay(c change) error {
	resp := r.call(c)
	if got := strings.TrimSpace(resp.Body.String()); resp.Code != http.StatusOK || got != c.Answer {
		return fmt.Errorf("%s %s gave %s, now it gives %s: schema ids in the topics would no longer be right", c.Method, c.URI, c.Answer, got)
	}
	return nil
}

func (r *Registry) call(c change) *httptest.ResponseRecorder {
	req := httptest.NewRequest(c.Method, c.URI, bytes.NewReader([]byte(c.Body)))
	resp := httptest.NewRecorder()
	r.inner.ServeHTTP(resp, req)
	return resp
}

var (
	registration = regexp.MustCompile(`^(/contexts/[^/]+)?/subjects/[^/]+/versions$`)
	byID         = regexp.MustCompile(`^/schemas/ids/[0-9]+(/schema)?$`)
	levels       = regexp.MustCompile(`^(/contexts/[^/]+)?/config(/[^/]+)?$`)
)

// changes tells requests that alter the registry from those that ask it; looking a schema up is a POST too.
func changes(req *http.Request) bool {
	switch req.Method {
	case http.MethodPut, http.MethodDelete:
		return true
	case http.MethodPost:
		return registration.MatchString(req.URL.EscapedPath())
	}
	return false
}

// change is one request that altered the registry, and its answer: a line of the journal.
type change struct {
	Method string `json:"method"`
	URI    string `json:"uri"`
	Body   string `json:"body,omitempty"`
	Answer string `json:"answer"`
}

func (c change) path() string {
	u, err := url.ParseRequestURI(c.URI)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

func (c change) asksForChecks() bool {
	if c.Method != http.MethodPut || !levels.MatchString(c.path()) {
		return false
	}
	var body struct {
		Compatibility string `json:"compatibility"`
	}
	return json.Unmarshal([]byte(c.Body), &body) == nil && body.Compatibility != "NONE"
}

// refuse answers in the registry's own form.
func refuse(w http.ResponseWriter, status, code int, message string) {
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error_code": code, "message": message})
}
