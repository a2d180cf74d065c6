package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"chorus/inbox"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/web"
)

// mostLetters is how many dead letters of a participant are shown, and go through one bulk.
const mostLetters = 200

// bulkWithin bounds a bulk that a button begins. What is left then is still open: the button goes on with it.
const bulkWithin = 25 * time.Second

// letterQuery is the filter of the page, as its address and its forms have it.
type letterQuery struct {
	Service, Type, Reason, Key string
}

func letterQueryOf(v url.Values) letterQuery {
	text := func(name string) string { return strings.TrimSpace(v.Get(name)) }
	return letterQuery{text("service"), text("type"), text("reason"), text("key")}
}

// lettersPage is the open dead letters of everybody, or those that a filter chooses.
type lettersPage struct {
	page
	Query  letterQuery
	Names  []event.Participant // for the filter
	All    []told[[]inspect.Letter]
	Total  int
	Most   int
	Result *bulkResult // of the bulk that has just been asked for
}

// bulkResult is what a bulk came to, by participant and verdict.
type bulkResult struct {
	Preview bool
	Counts  []bulkCount
	Stopped string // why it ended early
}

type bulkCount struct {
	Participant event.Participant
	Verdict     string
	Count       int
	Example     string
}

func (s *server) lettersRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dead-letters", s.getLetters)
	mux.HandleFunc("POST /dead-letters/bulk", s.postBulk)
	mux.HandleFunc("GET /dead-letters/{service}/{id}", s.getLetter)
	mux.HandleFunc("POST /dead-letters/{service}/{id}/{action}", s.postLetter)
}

func (s *server) letters(ctx context.Context, q letterQuery) []told[[]inspect.Letter] {
	filter := inspect.LetterFilter{State: inbox.Open, Type: q.Type, Reason: q.Reason, Key: q.Key}
	all := everybody(ctx, s, func(ctx context.Context, c inspect.Client) ([]inspect.Letter, error) {
		return c.Letters(ctx, filter, mostLetters)
	})
	if q.Service == "" {
		return all
	}
	return slices.DeleteFunc(all, func(t told[[]inspect.Letter]) bool { return string(t.Participant) != q.Service })
}

func (s *server) lettersPage(ctx context.Context, q letterQuery) lettersPage {
	p := lettersPage{page: page{Title: "Dead letters", Nav: "letters"}, Query: q, All: s.letters(ctx, q), Most: mostLetters}
	for _, t := range p.All {
		p.Total += len(t.Answer)
	}
	for _, who := range s.everyone() {
		p.Names = append(p.Names, who.Name)
	}
	return p
}

func (s *server) getLetters(w http.ResponseWriter, r *http.Request) {
	s.show(w, http.StatusOK, "letters", s.lettersPage(r.Context(), letterQueryOf(r.URL.Query())))
}

// postBulk redrives or previews the letters that the page shows.
func (s *server) postBulk(w http.ResponseWriter, r *http.Request) {
	if !s.form(w, r) {
		return
	}
	q := letterQueryOf(r.PostForm)
	ctx, cancel := context.WithTimeout(by(r), bulkWithin)
	defer cancel()
	result := &bulkResult{Preview: r.PostForm.Get("do") == "preview"}
	clients := map[event.Participant]inspect.Client{}
	for _, p := range s.everyone() {
		clients[p.Name] = p.Client
	}
	for _, of := range s.letters(ctx, q) {
		bulk := inspect.Bulk{Client: clients[of.Participant], Preview: result.Preview, Reason: strings.TrimSpace(r.PostForm.Get("note"))}
		inspect.InOrder(of.Answer)
		err := bulk.Run(ctx, of.Answer, func(o inspect.Outcome) { result.count(of.Participant, o) })
		if err != nil {
			result.Stopped = string(of.Participant) + ": " + silence(err)
			break
		}
	}
	p := s.lettersPage(r.Context(), q)
	p.Result = result
	s.show(w, http.StatusOK, "letters", p)
}

func (b *bulkResult) count(who event.Participant, o inspect.Outcome) {
	i := slices.IndexFunc(b.Counts, func(c bulkCount) bool { return c.Participant == who && c.Verdict == o.Verdict })
	if i < 0 {
		i = len(b.Counts)
		b.Counts = append(b.Counts, bulkCount{Participant: who, Verdict: o.Verdict, Example: fmt.Sprintf("%d: %s", o.Letter.ID, o.Why)})
	}
	b.Counts[i].Count++
}

// letterPage is one dead letter, with what a redrive would come to at this moment.
type letterPage struct {
	page
	Letter  inspect.Letter
	Value   string
	Order   event.OrderNo // 0 if the key is none
	Preview inspect.Redriven
	Stays   string // why a redrive would not help
	Problem string // why an action was refused
}

func (s *server) getLetter(w http.ResponseWriter, r *http.Request) {
	client, id, ok := s.letterOf(w, r)
	if ok {
		s.letter(w, r, client, id, http.StatusOK, "")
	}
}

// letterOf finds whose letter it is.
func (s *server) letterOf(w http.ResponseWriter, r *http.Request) (inspect.Client, int64, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	all := s.everyone()
	i := slices.IndexFunc(all, func(p inspected) bool { return string(p.Name) == r.PathValue("service") })
	if err != nil || i < 0 {
		s.fault(w, http.StatusNotFound, "There is no such dead letter.")
		return inspect.Client{}, 0, false
	}
	return all[i].Client, id, true
}

func (s *server) letter(w http.ResponseWriter, r *http.Request, client inspect.Client, id int64, status int, problem string) {
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	l, err := client.Letter(ctx, id)
	var refused *web.Problem
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		s.fault(w, http.StatusNotFound, "There is no such dead letter.")
		return
	case err != nil:
		s.fault(w, http.StatusServiceUnavailable, r.PathValue("service")+" did not answer: "+silence(err)+".")
		return
	}
	p := letterPage{
		page: page{Title: fmt.Sprintf("Dead letter %s/%d", l.Participant, l.ID), Nav: "letters"}, Letter: l, Value: readable(l.Value), Problem: problem,
	}
	p.Order, _ = event.ParseOrderNo(l.Key) // of any other key there is no link
	if l.State == inbox.Open {
		if p.Preview, err = client.Redrive(ctx, id, inspect.RedriveRequest{Preview: true}); err != nil {
			p.Stays = silence(err)
		}
	}
	s.show(w, status, "letter", p)
}

// readable is the record's value as text, or its bytes in hex.
func readable(value []byte) string {
	if utf8.Valid(value) {
		return string(value)
	}
	return fmt.Sprintf("%x (hex)", value)
}

// postLetter does what a button of the letter's page says.
func (s *server) postLetter(w http.ResponseWriter, r *http.Request) {
	client, id, ok := s.letterOf(w, r)
	if !ok || !s.form(w, r) {
		return
	}
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	ctx, cancel := context.WithTimeout(by(r), actWithin)
	defer cancel()
	var err error
	switch action := r.PathValue("action"); action {
	case "redrive":
		_, err = client.Redrive(ctx, id, inspect.RedriveRequest{Force: r.PostForm.Get("force") != "", Reason: reason})
	case "discard":
		err = client.Discard(ctx, id, reason)
	default:
		s.fault(w, http.StatusNotFound, "There is no action "+action+".")
		return
	}
	if err != nil {
		status, why := refusal(r.PathValue("service"), err)
		s.letter(w, r, client, id, status, why)
		return
	}
	http.Redirect(w, r, r.URL.Path[:strings.LastIndexByte(r.URL.Path, '/')], http.StatusSeeOther)
}
