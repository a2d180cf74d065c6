package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"chorus/internal/experiment"
)

// TestNoExperimentsWithoutASupervisor: a console that is not told of a supervisor breaks nothing, and says why.
func TestNoExperimentsWithoutASupervisor(t *testing.T) {
	t.Parallel()
	r := start(t)
	if text := r.get("/experiments", http.StatusOK); !strings.Contains(text, "chorus up") || strings.Contains(text, "<button>Run") {
		t.Errorf("the page: %s", text)
	}
	r.do(http.MethodPost, "/experiments/happy-path", url.Values{}, http.StatusNotFound)
}

// TestExperimentsComeOneAtATime: the page offers all of them, starts one, and refuses another meanwhile, unknown ones, and those that have
// processes of their own.
func TestExperimentsComeOneAtATime(t *testing.T) {
	t.Parallel()
	pages, err := parsePages()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{log: slog.New(slog.DiscardHandler), pages: pages}
	s.trials = newTrials(s.log, Config{Control: "http://127.0.0.1:1", Listen: "127.0.0.1:1", Services: Services{Providers: "http://127.0.0.1:1"}}, nil, nil)
	post := func(name string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/experiments/"+name, nil)
		r.SetPathValue("name", name)
		s.postTrial(w, r)
		return w.Code
	}
	page := func() string {
		w := httptest.NewRecorder()
		s.getTrials(w, nil)
		return w.Body.String()
	}
	if got := post("happy-path"); got != http.StatusConflict { // whoever runs them is busy
		t.Errorf("a second experiment: %d", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.trials.work(ctx) })
	defer wg.Wait()
	defer stop()
	for name, want := range map[string]int{"no-such": http.StatusNotFound, "naive-gap": http.StatusConflict} {
		if got := post(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := post("happy-path"); got != http.StatusSeeOther {
		t.Errorf("the first experiment: %d", got)
	}
	// Nobody answers at these addresses, so it does not get far, and says so.
	deadline := time.Now().Add(patience)
	for !strings.Contains(page(), "not finished") {
		if time.Now().After(deadline) {
			t.Fatalf("the page: %s", page())
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
	if text := page(); strings.Count(text, "<button>Run") != len(experiment.All())-2 || !strings.Contains(text, "bin/chorus experiment run naive-gap") {
		t.Errorf("the page: %s", text)
	}
}
