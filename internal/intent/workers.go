package intent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/provider"
)

// Workers carry out the calls of one service: a lane for each provider, which leases what is due and
// makes the exchanges, and recorders, which bring their ends into the database and through the door.
type Workers struct {
	log       *slog.Logger
	cfg       Config
	pool      *pgxpool.Pool
	providers *provider.Set
	door      Door
	owner     string // this process, in leases, attempts and notifications
	lanes     []*lane
	done      chan finished
	many      chan struct{} // holds a token when enough has ended for a large record
	announce  chan struct{} // holds a token when other replicas are to be told of new work

	working    sync.WaitGroup  // counts exchanges
	mu         sync.Mutex      // guards exchanging
	exchanging context.Context // what exchanges run in; nil before the first may begin and after the last did
}

// recorders is how many transactions of answers run at a time. While they do, further ends gather for the next ones, so
// the dearer a commit is, the more share it.
const recorders = 2

// New checks cfg. The workers share pool with whoever else uses it; they hold at most one connection a lane and one a recorder,
// beside one of their own that listens.
func New(log *slog.Logger, cfg Config, pool *pgxpool.Pool, providers *provider.Set, door Door) (*Workers, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("configuration of calls: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name the workers: %w", err)
	}
	w := &Workers{
		log: log, cfg: cfg, pool: pool, providers: providers, door: door,
		owner:    fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:6]),
		done:     make(chan finished, maxBatch),
		many:     make(chan struct{}, 1),
		announce: make(chan struct{}, 1),
	}
	for _, name := range providers.Names() {
		limits := providers.Limits(name)
		w.lanes = append(w.lanes, &lane{
			Workers:  w,
			provider: name,
			lease:    limits.Timeout + cfg.LeaseMargin,
			timeout:  limits.Timeout,
			pace:     cfg.pace(limits),
			gate:     providers.Gate(name),
			slots:    make(chan struct{}, limits.Concurrency+limits.Concurrency/2),
			sending:  make(chan struct{}, limits.Concurrency),
			wake:     make(chan struct{}, 1),
			half:     make(chan struct{}, 1),
		})
	}
	return w, nil
}

// Wake has the lanes look for due calls at once, here and, a moment later, in other replicas. Call it after the
// commit of what was planned. It never blocks.
func (w *Workers) Wake() {
	w.wakeLanes()
	poke(w.announce)
}

func (w *Workers) wakeLanes() {
	for _, l := range w.lanes {
		poke(l.wake)
	}
}

// poke leaves a token, if there is none.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run works until ctx ends. It then claims nothing more, lets exchanges under way go on for the grace, breaks
// off the rest (their outcome is unknown, and recorded so), and returns when all is recorded, or
// after twice the grace; what is not recorded by then is found as if the process had crashed. Run it once.
func (w *Workers) Run(ctx context.Context) error {
	exchanging, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	recording, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	stopTimers := context.AfterFunc(ctx, func() {
		time.AfterFunc(w.cfg.Grace, breakOff)
		time.AfterFunc(2*w.cfg.Grace, abandon)
	})
	defer stopTimers()

	w.open(exchanging)
	var claiming, recorded sync.WaitGroup
	claiming.Go(func() { w.listen(ctx) })
	claiming.Go(func() { w.notify(ctx) })
	claiming.Go(func() { w.sweep(ctx) })
	for _, l := range w.lanes {
		claiming.Go(func() { l.run(ctx, exchanging) })
	}
	for range recorders {
		recorded.Go(func() { w.record(recording) })
	}
	<-ctx.Done()
	w.shut()
	claiming.Wait()
	w.working.Wait()
	close(w.done)
	recorded.Wait()
	w.providers.Close()
	if recording.Err() != nil {
		return errors.New("end the calls: the grace was over before all was recorded")
	}
	return nil
}

// open lets exchanges begin without a claim.
func (w *Workers) open(exchanging context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exchanging = exchanging
}

// shut lets no more of them begin.
func (w *Workers) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exchanging = nil
}

// trouble is a fault that may come again and again: the log hears of its begin and its end, and each time the pause is longer.
type trouble struct {
	log  *slog.Logger
	what string
	wait time.Duration // before the next try; 0 while all is well
}

// over is told that it works.
func (t *trouble) over() {
	if t.wait > 0 {
		t.log.Info(t.what + " works again")
	}
	t.wait = 0
}

// rest is told of a failure and waits, from 50 ms up to 2 s, or until the end of ctx.
func (t *trouble) rest(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if t.wait == 0 {
		t.log.Error(t.what+" does not work; it is tried again", "err", err)
	}
	t.wait = min(max(2*t.wait, 50*time.Millisecond), 2*time.Second)
	pause(ctx, t.wait)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
