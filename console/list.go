package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"chorus/internal/event"
	"chorus/internal/tracker"
	"chorus/services/orders/order"
)

// list is the page of orders.
type list struct {
	page
	Query     string // what was searched for
	Problem   string
	Filter    string // the status that is chosen, "attention", or empty
	Tabs      []tab
	Orders    []tracker.Entry
	Next      string // address of the next page
	FirstPage bool
}

// tab is a filter with its count.
type tab struct {
	Name, Filter string
	Count        int64
	Current      bool
}

// statuses are in the order of an order's life.
func statuses() []order.Status {
	return []order.Status{
		order.Placed, order.Confirmed, order.Shipped, order.Delivered, order.Cancelling, order.Cancelled,
		order.Compensating, order.Failed, order.Rejected,
	}
}

func (s *server) getList(w http.ResponseWriter, r *http.Request) {
	search := strings.TrimSpace(strings.TrimPrefix(r.URL.Query().Get("q"), "#"))
	problem := ""
	if search != "" {
		no, err := event.ParseOrderNo(search)
		if err == nil {
			http.Redirect(w, r, "/orders/"+no.String(), http.StatusSeeOther)
			return
		}
		problem = "Orders are searched by number: digits, without leading zeros."
	}
	if filter := r.URL.Query().Get("status"); !known(filter) {
		s.fault(w, http.StatusBadRequest, "There is no filter "+filter+": want a status, as in status=PLACED, or status=attention.")
		return
	}
	p, err := s.list(r.Context(), r.URL.Query())
	if err != nil {
		s.log.Warn("list orders", "err", err)
		s.fault(w, http.StatusServiceUnavailable, "The tracker's database cannot be asked now.")
		return
	}
	p.Query, p.Problem = search, problem
	s.show(w, http.StatusOK, "list", p)
}

// known reports whether the list can be filtered by it. An unknown status would show an empty list, as if there were no orders.
func known(filter string) bool {
	return filter == "" || filter == "attention" || slices.Contains(statuses(), order.Status(filter))
}

func (s *server) liveList(w http.ResponseWriter, r *http.Request) {
	s.live(w, r, "list", s.tracker.Subscribe(0), settle, func() (any, error) { return s.list(r.Context(), r.URL.Query()) })
}

func (s *server) list(ctx context.Context, params url.Values) (p list, err error) {
	q := query{params, nil}
	p.Filter = q.text("status")
	filter := tracker.Filter{After: event.OrderNo(q.number("after"))}
	if p.Filter == "attention" {
		filter.Attention = true
	} else {
		filter.Status = order.Status(p.Filter)
	}
	kept := url.Values{}
	if p.Filter != "" {
		kept.Set("status", p.Filter)
	}
	if filter.After > 0 {
		kept.Set("after", filter.After.String())
	}
	p.page = page{Title: "Orders", Nav: "orders", Live: "/orders/live?" + kept.Encode()}
	p.FirstPage = filter.After == 0
	orders, next, err := s.tracker.List(ctx, filter)
	if err != nil {
		return p, err
	}
	p.Orders = orders
	if next > 0 {
		kept.Set("after", next.String())
		p.Next = "/orders?" + kept.Encode()
	}
	counts, err := s.tracker.Counts(ctx)
	if err != nil {
		return p, err
	}
	p.Tabs = []tab{{"All", "", counts.Total, p.Filter == ""}}
	for _, status := range statuses() {
		p.Tabs = append(p.Tabs, tab{string(status), string(status), counts.ByStatus[status], p.Filter == string(status)})
	}
	p.Tabs = append(p.Tabs, tab{"Needs attention", "attention", counts.Attention, p.Filter == "attention"})
	return p, nil
}

func sortedKeys(v url.Values) []string { return slices.Sorted(maps.Keys(v)) }
