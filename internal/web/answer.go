package web

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// JSON answers with v.
func JSON(w http.ResponseWriter, status int, v any) { write(w, "application/json", status, v) }

// Problem is an error as RFC 9457 has it.
type Problem struct {
	Status int     `json:"status"`
	Title  string  `json:"title"`
	Detail string  `json:"detail,omitempty"`
	Errors []Fault `json:"errors,omitempty"`
}

// Fault is one thing that is wrong with a request.
type Fault struct {
	Location string `json:"location"` // as in "body.items[0].quantity"
	Message  string `json:"message"`
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, f := range p.Errors {
		text += "; " + f.Location + ": " + f.Message
	}
	return text
}

// Fail answers with a problem.
func Fail(w http.ResponseWriter, status int, detail string, faults ...Fault) {
	write(w, "application/problem+json", status, Problem{Status: status, Title: http.StatusText(status), Detail: detail, Errors: faults})
}

// write encodes before it answers, so that what cannot be encoded is a 500 and not half an answer.
func write(w http.ResponseWriter, kind string, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		Fail(w, http.StatusInternalServerError, "the answer cannot be written: "+err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
