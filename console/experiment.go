package console

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"chorus/internal/check"
	"chorus/internal/check/live"
	"chorus/internal/cluster"
	"chorus/internal/codec"
	"chorus/internal/experiment"
	"chorus/internal/inspect"
	"chorus/internal/provider/simulated"
)

// trials runs experiments for the page, one at a time: they change how the providers behave, which every order feels.
type trials struct {
	log  *slog.Logger
	lab  experiment.Lab
	next chan experiment.Experiment // to the goroutine that runs them

	mu   sync.Mutex // guards what is below
	now  string     // name of the one that runs
	told []string   // what it, or else the last one, has said
	last map[string]string
}

// newTrials returns nil for a console that has no supervisor: a cluster of one's own is not broken by a click.
func newTrials(log *slog.Logger, cfg Config, c *codec.Codec, http *http.Client) *trials {
	if cfg.Control == "" {
		return nil
	}
	client := func(base string) inspect.Client { return inspect.Client{Base: base, HTTP: http} }
	src := live.Sources{
		Orders: client(cfg.Services.Orders), Inventory: client(cfg.Services.Inventory), Fraud: client(cfg.Services.Fraud),
		Shipping: client(cfg.Services.Shipping), Billing: client(cfg.Services.Billing),
		Notifications: client(cfg.Services.Notifications),
		Providers:     simulated.NewClient(cfg.Services.Providers), Kafka: cfg.Kafka, Codec: c, Publisher: cfg.Services.CDC,
	}
	return &trials{
		log: log, next: make(chan experiment.Experiment), last: map[string]string{},
		lab: experiment.Lab{
			Front: client("http://" + cfg.Listen), Notifications: client(cfg.Services.Notifications), Providers: src.Providers,
			Supervisor: cluster.Client{URL: cfg.Control},
			Verify:     func(ctx context.Context) (*check.Report, error) { return live.Verify(ctx, log, src, live.Defaults()) },
		},
	}
}

// work runs what is asked for until ctx ends; the one under way then mends what it has broken.
func (t *trials) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-t.next:
			t.run(ctx, e)
		}
	}
}

func (t *trials) run(ctx context.Context, e experiment.Experiment) {
	t.mu.Lock()
	t.now, t.told = e.Name, nil
	t.mu.Unlock()
	r, err := experiment.Run(ctx, t.lab, e, t.tell)
	word := "as expected"
	switch {
	case err != nil:
		t.log.Warn("experiment", "name", e.Name, "err", err)
		t.tell("  " + err.Error())
		word = "not finished"
	case !r.OK:
		word = "NOT as expected"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now, t.last[e.Name] = "", word
}

func (t *trials) tell(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = append(t.told, line)
}

// start hands an experiment over; false while another one runs.
func (t *trials) start(e experiment.Experiment) bool {
	select {
	case t.next <- e:
		return true
	case <-time.After(handOver):
		return false
	}
}

// handOver is how long the goroutine that runs experiments may take to be there. It is there at once, or busy for seconds.
const handOver = 100 * time.Millisecond

// trialsPage is the page of the experiments.
type trialsPage struct {
	page
	Off  bool // this cluster has no supervisor
	Now  string
	Told []string
	All  []trialRow
}

type trialRow struct {
	experiment.Experiment
	Last string
}

func (s *server) trialsPage() trialsPage {
	p := trialsPage{page: page{Title: "Experiments", Nav: "experiments"}, Off: s.trials == nil}
	if p.Off {
		return p
	}
	p.Live = "/experiments/live"
	s.trials.mu.Lock()
	defer s.trials.mu.Unlock()
	p.Now, p.Told = s.trials.now, slices.Clone(s.trials.told)
	for _, e := range experiment.All() {
		p.All = append(p.All, trialRow{e, s.trials.last[e.Name]})
	}
	return p
}

func (s *server) getTrials(w http.ResponseWriter, _ *http.Request) {
	s.show(w, http.StatusOK, "experiments", s.trialsPage())
}

func (s *server) liveTrials(w http.ResponseWriter, r *http.Request) {
	s.live(w, r, "experiments", s.tracker.Subscribe(0), settle, func() (any, error) { return s.trialsPage(), nil })
}

// postTrial starts one.
func (s *server) postTrial(w http.ResponseWriter, r *http.Request) {
	if s.trials == nil {
		s.fault(w, http.StatusNotFound, "Experiments work on a chorus up, whose supervisor can kill and freeze its processes.")
		return
	}
	e, err := experiment.Find(r.PathValue("name"))
	switch {
	case err != nil:
		s.fault(w, http.StatusNotFound, strings.ToUpper(err.Error()[:1])+err.Error()[1:]+".")
	case e.Alone:
		s.fault(w, http.StatusConflict, "This one has processes of its own: bin/chorus experiment run "+e.Name+".")
	case !s.trials.start(e):
		s.fault(w, http.StatusConflict, "Another experiment is under way; one at a time.")
	default:
		http.Redirect(w, r, "/experiments", http.StatusSeeOther)
	}
}
