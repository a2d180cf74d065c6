package console

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"

	"chorus/internal/web"
)

// mostBody is the largest request body that is passed on: a catalogue of 10,000 products fits well.
const mostBody = 16 << 20

// proxies passes the API on to the services. The inspection API of each participant is reached under
// /v1/services/NAME/inspect/, so that a person needs one address.
func (s *server) proxies(mux *http.ServeMux) {
	mux.Handle("/v1/", s.pass("orders", s.services.Orders, nil))
	mux.Handle("GET /openapi.json", s.pass("orders", s.services.Orders, nil))
	mux.Handle("/v1/stock", s.pass("inventory", s.services.Inventory, nil))
	mux.HandleFunc("GET /v1/services", func(w http.ResponseWriter, _ *http.Request) {
		names := []string{}
		for _, n := range append(s.services.participants(), named{Name: "tracker"}) {
			names = append(names, n.Name)
		}
		web.JSON(w, http.StatusOK, map[string]any{"services": names})
	})
	for _, n := range s.services.participants() {
		mux.Handle("/v1/services/"+n.Name+"/inspect/", s.pass(n.Name, n.URL, func(path string) string {
			return "/v1" + path[len("/v1/services/"+n.Name):]
		}))
	}
	mux.Handle("/v1/services/tracker/inspect/", rewrite(s.self, "/v1/services/tracker/", "/v1/"))
	mux.HandleFunc("/v1/inspect/", notFound) // would be the orders service's by accident
	mux.HandleFunc("/v1/services/", notFound)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	web.Fail(w, http.StatusNotFound, "there is nothing at "+r.URL.Path)
}

// rewrite hands requests to next under another path.
func rewrite(next http.Handler, from, to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		copied := r.Clone(r.Context())
		copied.URL.Path, copied.URL.RawPath = to+r.URL.Path[len(from):], ""
		next.ServeHTTP(w, copied)
	})
}

// pass returns a proxy to a service. Streams are flushed as they come, hop-by-hop headers stay behind, and what the
// client claims about where it comes from is replaced by what is known.
func (s *server) pass(name, base string, path func(string) string) http.Handler {
	target, err := url.Parse(base)
	if err != nil || base == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			web.Fail(w, http.StatusNotImplemented, "this console was started without the address of the "+name+" service")
		})
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if path != nil {
				r.Out.URL.Path, r.Out.URL.RawPath = path(r.In.URL.Path), ""
			}
			r.SetURL(target)
			r.Out.URL.RawQuery = r.In.URL.RawQuery // what cannot be parsed is left out otherwise, and is the service's to refuse
			r.SetXForwarded()
			for _, name := range []string{"Origin", "Sec-Fetch-Site"} {
				r.Out.Header.Del(name) // of this address; it has been looked at here
			}
		},
		Transport:     s.http.Transport,
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			var large *http.MaxBytesError
			var cut *bodyError
			switch {
			case errors.As(err, &large):
				web.Fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", large.Limit))
			case r.Context().Err() != nil: // the client has gone
			case errors.As(err, &cut):
				web.Fail(w, http.StatusBadRequest, "the body did not arrive: "+cut.Error())
			default:
				s.log.Warn("pass on", "service", name, "path", r.URL.Path, "err", err)
				w.Header().Set("Retry-After", "1")
				web.Fail(w, http.StatusBadGateway, "the "+name+" service cannot be reached; it may be restarting")
			}
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = body{http.MaxBytesReader(w, r.Body, mostBody)}
		proxy.ServeHTTP(w, r)
	})
}

// body tells what is wrong with a request from what is wrong with the service.
type body struct{ io.ReadCloser }

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.EOF is never wrapped
		err = &bodyError{err}
	}
	return n, err
}

type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }
