package tools

import (
	"sync"
	"sync/atomic"
	"time"

	"chorus/internal/event"
	"chorus/internal/tracker"
	"chorus/services/orders/order"
)

// board is what is known of every order of a load.
type board struct {
	answered atomic.Bool   // the cluster has answered at least once
	rest     chan struct{} // closed when all are placed and at rest

	mu         sync.Mutex // guards all below
	byName     map[string]*tracked
	open       map[event.OrderNo]*tracked // placed and not at rest
	notPlaced  map[string]int             // by error, after all patience
	turnedDown map[string]int             // by the shop's answer
	complete   bool                       // nothing more will be placed
	decided    int                        // orders that are placed or never will be
	ended      int                        // of them, those at rest
}

// tracked is one order.
type tracked struct {
	name   string
	number event.OrderNo // 0 while it is not placed
	status order.Status
	person bool // at rest because it needs one
	took   time.Duration
	timed  bool
	wanted bool // to be cancelled, once it is confirmed
	asked  bool // the cancellation was asked for, or cannot be any more
	kept   bool // it could not be cancelled
	atRest bool
}

func newBoard() *board {
	return &board{
		rest: make(chan struct{}), byName: map[string]*tracked{}, open: map[event.OrderNo]*tracked{},
		notPlaced: map[string]int{}, turnedDown: map[string]int{},
	}
}

// of returns the order of a name; the cancellation may come before the order is placed. The caller holds mu.
func (b *board) of(name string) *tracked {
	t := b.byName[name]
	if t == nil {
		t = &tracked{name: name}
		b.byName[name] = t
	}
	return t
}

func (b *board) placed(name string, no event.OrderNo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of(name)
	t.number = no
	b.open[no] = t
	b.decided++
}

func (b *board) refused(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(name)
	b.decided++
	b.ended++
	b.turnedDown[shorten(err.Error(), 120)]++
}

func (b *board) failed(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(name)
	b.decided++
	b.ended++
	b.notPlaced[shorten(err.Error(), 120)]++
}

// wantCancelled notes that the order is to be cancelled. One that is at rest is taken up again.
func (b *board) wantCancelled(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of(name)
	t.wanted = true
	if t.atRest {
		t.atRest = false
		b.open[t.number] = t
		b.ended--
	}
}

func (b *board) allPlaced() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complete = true
	b.check()
}

// check closes rest when there is nothing to wait for. The caller holds mu.
func (b *board) check() {
	if b.complete && len(b.open) == 0 {
		select {
		case <-b.rest:
		default:
			close(b.rest)
		}
	}
}

// oldest is the lowest number that is not at rest.
func (b *board) oldest() (no event.OrderNo, any bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := range b.open {
		if !any || n < no {
			no, any = n, true
		}
	}
	return no, any
}

// saw takes what the tracker says of an order, and returns it when it is time to cancel it.
func (b *board) saw(e tracker.Entry) (cancel *tracked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.open[e.Number]
	if t == nil {
		return nil
	}
	t.status, t.person = e.Status, e.NeedsAttention
	if !t.timed && e.PlacedAt != nil && e.EndedAt != nil {
		t.took, t.timed = e.EndedAt.Sub(*e.PlacedAt), true
	}
	switch {
	case t.wanted && !t.asked && e.Status == order.Confirmed:
		return t
	case t.wanted && t.asked && !t.kept && e.Status == order.Confirmed:
		return nil // asked for; the tracker has not read of it yet
	case !atRest(e.Status) && !e.NeedsAttention:
		return nil
	}
	t.atRest = true
	b.ended++
	delete(b.open, e.Number)
	b.check()
	return nil
}

// cancelled notes that the cancellation was asked for; kept, that it was refused.
func (b *board) cancelled(t *tracked, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.asked, t.kept = true, kept
}

// counts are for the progress.
func (b *board) counts() (placed, ended int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.decided, b.ended
}
