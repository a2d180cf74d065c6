package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"chorus/internal/tracker"
	"chorus/services/orders/order"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// pages are the templates, one set a page: the layout, the shared parts, and the page itself.
type pages map[string]*template.Template

// parsePages parses all of them, so that a fault of the build shows at the start and not to a visitor.
func parsePages() (pages, error) {
	all := pages{}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("find templates: %w", err)
	}
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" {
			continue
		}
		t, err := template.New("").Funcs(helpers()).ParseFS(templateFiles, "templates/layout.html", file)
		if err != nil {
			return nil, fmt.Errorf("parse page %s: %w", name, err)
		}
		all[name] = t
	}
	return all, nil
}

func helpers() template.FuncMap {
	return template.FuncMap{
		"money": money, "price": price, "tell": tell,
		"age":   func(t any) string { return age(timeOf(t), time.Now()) },
		"iso":   func(t any) string { return iso(timeOf(t)) },
		"short": func(d time.Duration) string { return short(d) },
		"took":  took,
		"class": func(s order.Status) string { return strings.ToLower(string(s)) },
		"words": func(s fmt.Stringer) string { return s.String() },
		"lower": func(v any) string { return strings.ToLower(fmt.Sprint(v)) },
		"since": func(a, b time.Time) string { return short(b.Sub(a)) },
		"ms":    func(f float64) string { return short(time.Duration(f * float64(time.Millisecond))) },
		"owner": func(waits string) string { return strings.ReplaceAll(waits, "/", " · ") },
	}
}

// timeOf takes a time or a pointer to one; nil is the zero time.
func timeOf(v any) time.Time {
	switch t := v.(type) {
	case time.Time:
		return t
	case *time.Time:
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

// page is what the layout needs of every page.
type page struct {
	Title string
	Nav   string // the entry of the menu that is current
	Live  string // the address of the page's stream; empty for none
}

// security are the headers of every page. No inline script or style is allowed and none is used, so text that got past
// the escaping would still not run (UI-01).
func security(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// show renders a page. It is rendered as a whole before the first byte goes out, so an error is an answer of its own.
func (s *server) show(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, "layout", data); err != nil {
		s.log.Error("render", "page", name, "err", err)
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}
	security(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the client may be gone
}

// fault shows an error as a page.
func (s *server) fault(w http.ResponseWriter, status int, what string) {
	s.show(w, status, "fault", struct {
		page
		Status int
		What   string
	}{page{Title: http.StatusText(status)}, status, what})
}

// live streams the page's part "live" whenever what it shows has changed. Every message is the whole present state, so whoever missed one, or
// comes back after a cut, has it right with the next (UI-03). load is called after each ring of the bell or a second, and then not for
// the time of every: facts come in bursts, and one look after a burst is enough.
func (s *server) live(w http.ResponseWriter, r *http.Request, name string, sub *tracker.Subscription, every time.Duration, load func() (any, error)) {
	defer sub.Close()
	out, err := openStream(w)
	if err != nil {
		s.log.Warn("stream", "page", name, "err", err)
		return
	}
	var sent [sha256.Size]byte
	for {
		data, err := load()
		if err == nil {
			err = s.sendChanged(out, name, data, &sent)
		}
		if err == nil {
			err = out.keep()
		}
		if err != nil {
			if r.Context().Err() == nil {
				s.log.Info("stream ends", "page", name, "err", err)
			}
			return // the client reconnects
		}
		if sub.Wait(r.Context()) != nil {
			return
		}
		if pause(r.Context().Done(), every) {
			return
		}
	}
}

// settle is how long a burst of changes is given before a page is rendered again.
const settle = 100 * time.Millisecond

func pause(done <-chan struct{}, d time.Duration) (stopped bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// sendChanged sends the part if its data are not those that were sent last. Ages are not data: the page counts them itself.
func (s *server) sendChanged(out *stream, name string, data any, sent *[sha256.Size]byte) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("compare page %s: %w", name, err)
	}
	sum := sha256.Sum256(raw)
	if sum == *sent {
		return nil
	}
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, "live", data); err != nil {
		return fmt.Errorf("render page %s: %w", name, err)
	}
	*sent = sum
	return out.send("", "", b.Bytes())
}
