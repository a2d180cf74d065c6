package simulated

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

func (s *server) getBehaviour(d *desk) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.write(w, http.StatusOK, d.rules.list())
	}
}

func (s *server) putBehaviour(d *desk) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b Behaviour
		if !s.read(w, r, &b, func(f *fieldErrors) { b.check(f) }) {
			return
		}
		if err := s.store.change(r.Context(), d.provider, d.rules, b); err != nil {
			s.fail(w, "set behaviour", err)
			return
		}
		s.log.Info("behaviour set", "provider", d.provider.name, "operation", b.Operation, "rule", b)
		s.write(w, http.StatusOK, d.rules.list())
	}
}

func (s *server) deleteBehaviour(d *desk) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.store.clear(r.Context(), d.provider, d.rules); err != nil {
			s.fail(w, "clear behaviour", err)
			return
		}
		s.log.Info("behaviour cleared", "provider", d.provider.name)
		s.write(w, http.StatusOK, d.rules.list())
	}
}

func (s *server) getBalances(d *desk) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var f fieldErrors
		customer := r.PathValue("customer")
		if f.text("customer", customer); len(f) > 0 {
			s.write(w, http.StatusBadRequest, invalid(f).Body)
			return
		}
		found, err := s.store.balances(r.Context(), d.provider, customer)
		if err != nil {
			s.fail(w, "read balances", err)
			return
		}
		s.write(w, http.StatusOK, found)
	}
}

// A fundBody sets a balance, so that a customer can run out of money for real.
type fundBody struct {
	Currency string `json:"currency"`
	Balance  int64  `json:"balance"` // minor units
}

func (s *server) putBalance(d *desk) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b fundBody
		customer := r.PathValue("customer")
		check := func(f *fieldErrors) {
			f.text("customer", customer)
			f.currency(b.Currency)
			f.between("balance", b.Balance, 0, openingBalance)
		}
		if !s.read(w, r, &b, check) {
			return
		}
		balance, err := s.store.fund(r.Context(), d.provider, customer, b.Currency, b.Balance)
		if err != nil {
			s.fail(w, "set balance", err)
			return
		}
		s.write(w, http.StatusOK, balance)
	}
}

// read decodes a body and checks it, or answers with what is wrong.
func (s *server) read(w http.ResponseWriter, r *http.Request, into any, check func(*fieldErrors)) bool {
	bad := decode(w, r, into, false)
	if bad == nil {
		var f fieldErrors
		if check(&f); len(f) > 0 {
			bad = invalid(f)
		}
	}
	if bad != nil {
		s.write(w, bad.Status, bad.Body)
	}
	return bad == nil
}

const (
	defaultPage = 1_000
	maxPage     = 10_000
)

func (s *server) getLedger(w http.ResponseWriter, r *http.Request) {
	q := queryOf(r)
	order, after, limit := q.number("order"), q.number("after"), q.limit()
	if order > 0 && after > 0 {
		q.faults.add("after", "does not go with order")
	}
	if f := q.end(); len(f) > 0 {
		s.write(w, http.StatusBadRequest, invalid(f).Body)
		return
	}
	var page LedgerPage
	var err error
	if order > 0 {
		page.Entries, err = s.store.entries(r.Context(), order-1, order)
	} else {
		page, err = s.store.page(r.Context(), after, limit)
	}
	if err != nil {
		s.fail(w, "read ledger", err)
		return
	}
	s.write(w, http.StatusOK, page)
}

func (s *server) getSummary(w http.ResponseWriter, r *http.Request) {
	sum, err := s.store.summary(r.Context())
	if err != nil {
		s.fail(w, "sum up ledger", err)
		return
	}
	s.write(w, http.StatusOK, sum)
}

func (s *server) getRequests(w http.ResponseWriter, r *http.Request) {
	q := queryOf(r)
	filter := RequestFilter{
		Order: q.number("order"), After: q.number("after"), Limit: q.limit(),
		Provider: q.oneOf("provider", Names()),
		Operation: q.oneOf("operation", []string{
			string(do), string(undo), string(lookup), string(cancel),
		}),
	}
	if f := q.end(); len(f) > 0 {
		s.write(w, http.StatusBadRequest, invalid(f).Body)
		return
	}
	found, err := s.store.requests(r.Context(), filter)
	if err != nil {
		s.fail(w, "read log of calls", err)
		return
	}
	s.write(w, http.StatusOK, found)
}

// A query takes the parameters that a route knows; end reports those that were wrong and those that are left.
type query struct {
	values url.Values
	faults fieldErrors
}

func queryOf(r *http.Request) *query { return &query{values: r.URL.Query()} }

func (q *query) take(name string) string {
	v := q.values.Get(name)
	q.values.Del(name)
	return v
}

// number is 0 when the parameter is absent.
func (q *query) number(name string) int64 {
	v := q.take(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		q.faults.add(name, "must be a whole number from 0")
		return 0
	}
	return n
}

func (q *query) limit() int {
	n := q.number("limit")
	if n == 0 {
		n = defaultPage
	}
	if n > maxPage {
		q.faults.add("limit", "must be between 1 and %d", maxPage)
	}
	return int(n)
}

func (q *query) oneOf(name string, allowed []string) string {
	v := q.take(name)
	if v == "" {
		return ""
	}
	for _, a := range allowed {
		if a == v {
			return v
		}
	}
	q.faults.add(name, "%s", fmt.Sprintf("must be one of %v", allowed))
	return ""
}

func (q *query) end() fieldErrors {
	for name := range q.values {
		q.faults.add(name, "unknown parameter")
	}
	return q.faults
}
