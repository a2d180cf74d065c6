package console

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/services/orders/order"
)

// flow is the map: where orders are, what they wait for, and who reacts to what.
type flow struct {
	page
	Boxes     []box
	Arrows    []arrow
	Waiting   []waiting
	Person    int64
	Overdue   int64
	Total     int64
	Reactions []reactions
}

// box is a status in the picture, in its units.
type box struct {
	Status order.Status
	Count  int64
	X, Y   int
}

// arrow is a transition, as the path of an SVG.
type arrow struct{ Path string }

// waiting is a step with how many orders wait for it.
type waiting struct {
	Owner event.Participant
	Step  event.Step
	Count int64
}

// reactions are what one participant does.
type reactions struct {
	Who  event.Participant
	Rows []choreography.Reaction
}

// The picture: forward along the top, the ways back below.
const (
	boxWidth  = 132
	boxHeight = 56
	colGap    = 190
	rowGap    = 84
	arrowHead = 7
)

func boxes(counts map[order.Status]int64) []box {
	at := func(s order.Status, col, row int) box { return box{s, counts[s], 10 + col*colGap, 10 + row*rowGap} }
	return []box{
		at(order.Placed, 0, 0), at(order.Confirmed, 1, 0), at(order.Shipped, 2, 0), at(order.Delivered, 3, 0),
		at(order.Cancelling, 1, 1), at(order.Cancelled, 2, 1),
		at(order.Compensating, 1, 2), at(order.Failed, 2, 2),
		at(order.Rejected, 1, 3),
	}
}

// arrows joins the boxes by D4's transitions.
func arrows(all []box) []arrow {
	find := map[order.Status]box{}
	for _, b := range all {
		find[b.Status] = b
	}
	var out []arrow
	for _, way := range [][2]order.Status{
		{order.Placed, order.Confirmed}, {order.Confirmed, order.Shipped}, {order.Shipped, order.Delivered},
		{order.Placed, order.Cancelling}, {order.Confirmed, order.Cancelling}, {order.Cancelling, order.Cancelled},
		{order.Placed, order.Compensating}, {order.Compensating, order.Failed}, {order.Placed, order.Rejected},
	} {
		from, to := find[way[0]], find[way[1]]
		middle := to.Y + boxHeight/2
		switch {
		case from.X == to.X: // straight down
			out = append(out, arrow{fmt.Sprintf("M%d %dV%d", from.X+boxWidth/2, from.Y+boxHeight, to.Y-arrowHead)})
		case from.Y == to.Y: // straight on
			out = append(out, arrow{fmt.Sprintf("M%d %dH%d", from.X+boxWidth, middle, to.X-arrowHead)})
		default: // down and over
			out = append(out, arrow{fmt.Sprintf("M%d %dV%dH%d", from.X+boxWidth/2, from.Y+boxHeight, middle, to.X-arrowHead)})
		}
	}
	return out
}

func (s *server) getFlow(w http.ResponseWriter, r *http.Request) {
	p, err := s.flow(r.Context())
	if err != nil {
		s.log.Warn("count orders", "err", err)
		s.fault(w, http.StatusServiceUnavailable, "The tracker's database cannot be asked now.")
		return
	}
	s.show(w, http.StatusOK, "flow", p)
}

func (s *server) liveFlow(w http.ResponseWriter, r *http.Request) {
	s.live(w, r, "flow", s.tracker.Subscribe(0), settle, func() (any, error) { return s.flow(r.Context()) })
}

func (s *server) flow(ctx context.Context) (flow, error) {
	counts, err := s.tracker.Counts(ctx)
	if err != nil {
		return flow{}, err
	}
	p := flow{page: page{Title: "Flow", Nav: "flow", Live: "/flow/live"}, Person: counts.Person, Overdue: counts.Overdue, Total: counts.Total}
	p.Boxes = boxes(counts.ByStatus)
	p.Arrows = arrows(p.Boxes)
	seen := map[string]bool{}
	for _, d := range choreography.Debts(choreography.DefaultDurations()) {
		name := string(d.Owner)
		if d.Step != "" {
			name += "/" + string(d.Step)
		}
		if !seen[name] {
			seen[name] = true
			p.Waiting = append(p.Waiting, waiting{d.Owner, d.Step, counts.Waiting[name]})
		}
	}
	for _, who := range choreography.Participants() {
		part := reactions{Who: who}
		for _, row := range choreography.Table() {
			if row.Who == who {
				part.Rows = append(part.Rows, row)
			}
		}
		p.Reactions = append(p.Reactions, part)
	}
	return p, nil
}

// lagPage is who is behind, and what work is under way.
type lagPage struct {
	page
	Groups  []groupLag
	Figures []told[inspect.Figures]
	Ready   readiness
}

func (s *server) lagPage(ctx context.Context) lagPage {
	return lagPage{page{Title: "Lag", Nav: "lag", Live: "/lag/live"}, s.lags(ctx), s.figures(ctx), s.readiness(ctx)}
}

func (s *server) getLagPage(w http.ResponseWriter, r *http.Request) {
	s.show(w, http.StatusOK, "lag", s.lagPage(r.Context()))
}

// lookEvery is how often the lag is observed for a page that is open: it asks the broker and every service.
const lookEvery = 3 * time.Second

func (s *server) liveLag(w http.ResponseWriter, r *http.Request) {
	s.live(w, r, "lag", s.tracker.Subscribe(0), lookEvery, func() (any, error) { return s.lagPage(r.Context()), nil })
}
