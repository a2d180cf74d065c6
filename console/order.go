package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"chorus/internal/event"
	"chorus/internal/tracker"
	"chorus/services/orders/order"
)

// orderPage is the page of one order.
type orderPage struct {
	page
	Number  event.OrderNo
	Known   bool     // the view has facts of it
	Trace   Trace    // when it is known
	Written *written // the orders service's own view; nil when it did not answer
	Ahead   bool     // the orders service says another status than the view
	Behind  string   // how far the view is behind what the visitor has just done
	Lines   []event.Line
	Actions []action
	Problem string // why an action was refused
}

// action is a button.
type action struct {
	Name string     // cancel, compensate, ship, deliver, resolve or retry
	Step event.Step // of resolve and retry
	Text string
}

// errNoOrder says that neither the view nor the orders service knows the order.
var errNoOrder = errors.New("there is no such order")

func (s *server) getOrder(w http.ResponseWriter, r *http.Request) {
	no, ok := s.number(w, r)
	if !ok {
		return
	}
	s.order(w, r, no, http.StatusOK, s.seen(r.Context(), r.URL.Query().Get("event")), "")
}

func (s *server) order(w http.ResponseWriter, r *http.Request, no event.OrderNo, status int, behind, problem string) {
	p, err := s.orderPage(r.Context(), no)
	switch {
	case errors.Is(err, errNoOrder):
		s.fault(w, http.StatusNotFound, "There is no order "+no.String()+".")
		return
	case err != nil:
		s.log.Warn("read order", "order", no, "err", err)
		s.fault(w, http.StatusServiceUnavailable, "Order "+no.String()+" cannot be read now.")
		return
	}
	p.Problem = problem
	if !p.Known {
		p.Behind = behind
	}
	s.show(w, status, "order", p)
}

func (s *server) liveOrder(w http.ResponseWriter, r *http.Request) {
	no, ok := s.number(w, r)
	if !ok {
		return
	}
	var last orderPage
	var asked time.Time
	s.live(w, r, "order", s.tracker.Subscribe(no), settle, func() (any, error) {
		if last.AtRest() && time.Since(asked) < restEvery {
			news, err := s.tracker.Facts(r.Context(), no, last.seq())
			if err != nil || len(news) == 0 {
				return last, err
			}
		}
		var err error
		last, err = s.orderPage(r.Context(), no)
		asked = time.Now()
		return last, err
	})
}

// restEvery is how often the services are asked about an order at rest for a page that is open: only its dead letters, late duplicates
// and the like can still change.
const restEvery = 5 * time.Second

// orderPage asks the view and the orders service. Either alone makes a page.
func (s *server) orderPage(ctx context.Context, no event.OrderNo) (orderPage, error) {
	p := orderPage{page: page{Title: "Order " + no.String(), Nav: "orders", Live: "/orders/" + no.String() + "/live"}, Number: no}
	t, told, err := s.trace(ctx, no)
	if errors.Is(err, tracker.ErrUnknown) {
		return p, errNoOrder
	}
	if err != nil {
		return p, err
	}
	p.Known, p.Trace, p.Written = !t.Unread, t, told
	for _, f := range t.Facts {
		if placed, ok := f.Said.(event.OrderPlaced); ok {
			p.Lines = placed.Lines
		}
	}
	if told != nil {
		p.Ahead = p.Known && told.Status != p.Trace.Status
		p.Actions = actions(told.Actions)
	}
	return p, nil
}

// actions turns what the orders service allows into buttons. What this version does not know is left out.
func actions(allowed []string) (buttons []action) {
	for _, name := range allowed {
		verb, step, _ := strings.Cut(name, ":")
		a := action{Name: verb, Step: event.Step(step)}
		switch verb {
		case "cancel":
			a.Text = "Cancel the order"
		case "compensate":
			a.Text = "Cancel as the operator"
		case "ship":
			a.Text = "Hand over to the carrier"
		case "deliver":
			a.Text = "Mark as delivered"
		case "resolve":
			a.Text = "Resolve the " + step
		case "retry":
			a.Text = "Have the " + step + " settled by its provider"
		default:
			continue
		}
		buttons = append(buttons, a)
	}
	return buttons
}

// postAction has the orders service do what a button says. Its refusal is shown on the order's page.
func (s *server) postAction(w http.ResponseWriter, r *http.Request) {
	no, ok := s.number(w, r)
	if !ok || !s.form(w, r) {
		return
	}
	name := r.PathValue("action")
	var body any
	switch name {
	case "cancel":
		body = map[string]string{"by": string(event.ByCustomer)}
	case "compensate":
		name, body = "cancel", map[string]string{"by": string(event.ByOperator), "reason": strings.TrimSpace(r.PostForm.Get("reason"))}
	case "ship", "deliver":
		body = struct{}{}
	case "resolve":
		body = map[string]any{
			"step": r.PostForm.Get("step"), "evidence": strings.TrimSpace(r.PostForm.Get("evidence")), "money_moved": r.PostForm.Get("money_moved") != "",
		}
	case "retry":
		body = map[string]string{"step": r.PostForm.Get("step"), "reason": strings.TrimSpace(r.PostForm.Get("reason"))}
	default:
		s.fault(w, http.StatusNotFound, "There is no action "+name+".")
		return
	}
	if err := s.act(by(r), no, name, body); err != nil {
		s.log.Info("action", "order", no, "action", name, "err", err)
		status, why := refusal("orders", err)
		s.order(w, r, no, status, "", why)
		return
	}
	http.Redirect(w, r, "/orders/"+no.String(), http.StatusSeeOther)
}

// Status is the newest that is known: the orders service's, or else the view's.
func (p orderPage) Status() order.Status {
	if p.Written != nil {
		return p.Written.Status
	}
	return p.Trace.Status
}

// StatusText is the text of Status.
func (p orderPage) StatusText() string {
	if p.Written != nil && (p.Ahead || !p.Known) {
		return p.Written.StatusText
	}
	return p.Trace.StatusText
}

// Attention reports whether a person is needed.
func (p orderPage) Attention() bool {
	return p.Trace.NeedsAttention || p.Written != nil && p.Written.NeedsAttention
}

// seq is that of the last fact which the page has.
func (p orderPage) seq() (last int64) {
	for _, f := range p.Trace.Facts {
		last = max(last, f.Seq)
	}
	return last
}

// AtRest reports that the order waits for nothing.
func (p orderPage) AtRest() bool { return p.Known && len(p.Trace.Waits) == 0 }
