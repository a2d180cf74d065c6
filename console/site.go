package console

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/web"
)

// mostForm is the largest form that is read, in bytes.
const mostForm = 256 << 10

// site is the pages.
func (s *server) site(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", s.getShop)
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("GET /orders", s.getList)
	mux.HandleFunc("GET /orders/live", s.liveList)
	mux.HandleFunc("GET /orders/{order}", s.getOrder)
	mux.HandleFunc("GET /orders/{order}/live", s.liveOrder)
	mux.HandleFunc("POST /orders/{order}/{action}", s.postAction)
	mux.HandleFunc("GET /flow", s.getFlow)
	mux.HandleFunc("GET /flow/live", s.liveFlow)
	mux.HandleFunc("GET /lag", s.getLagPage)
	mux.HandleFunc("GET /lag/live", s.liveLag)
	s.lettersRoutes(mux)
	mux.HandleFunc("GET /experiments", s.getTrials)
	mux.HandleFunc("GET /experiments/live", s.liveTrials)
	mux.HandleFunc("POST /experiments/{name}", s.postTrial)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fault(w, http.StatusNotFound, "There is nothing at "+r.URL.Path+".")
	})
	static, err := fs.Sub(staticFiles, "static")
	if err != nil {
		panic("console: " + err.Error()) // the path is a constant
	}
	files := http.StripPrefix("/static/", http.FileServerFS(static))
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") { // the server would list what is there
			s.fault(w, http.StatusNotFound, "There is nothing at "+r.URL.Path+".")
			return
		}
		security(w.Header())
		w.Header().Set("Cache-Control", "public, max-age=300")
		files.ServeHTTP(w, r)
	})
}

// number reads the order number of a page's path.
func (s *server) number(w http.ResponseWriter, r *http.Request) (event.OrderNo, bool) {
	no, err := event.ParseOrderNo(r.PathValue("order"))
	if err != nil {
		s.fault(w, http.StatusNotFound, "There is no such order: "+err.Error()+".")
	}
	return no, err == nil
}

// form reads a form of bounded size.
func (s *server) form(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	err := r.ParseForm()
	if err != nil {
		s.fault(w, http.StatusBadRequest, "The form cannot be read.")
	}
	return err == nil
}

// refusal is what a service said against a request, for people, and the status to pass on.
func refusal(service string, err error) (status int, why string) {
	var problem *web.Problem
	if errors.As(err, &problem) && problem.Status < 500 {
		return problem.Status, problem.Error()
	}
	return http.StatusServiceUnavailable, "The " + service + " service cannot be reached now. Nothing is lost by trying again."
}

// by is the request's context with who acts: whom a proxy names, else the console.
func by(r *http.Request) context.Context {
	return audit.By(r.Context(), audit.Who(r, "console"))
}
