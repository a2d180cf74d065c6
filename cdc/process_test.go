package cdc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"chorus/cdc"
)

// childConfig makes this program a publisher that can be killed.
const childConfig = "CHORUS_CDC_TEST_CONFIG"

func TestMain(m *testing.M) {
	if text := os.Getenv(childConfig); text != "" {
		os.Exit(child(text))
	}
	os.Exit(m.Run())
}

func child(text string) int {
	var cfg cdc.Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGXFSZ) // a test limits its files
	if err := cdc.Run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)), cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// running is a publisher in this process.
type running struct {
	t      *testing.T
	addr   string
	cancel context.CancelFunc
	done   chan error
}

// start runs a publisher until stop, or until the test ends.
func (r *rig) start() *running {
	r.t.Helper()
	return r.startLogged(slog.New(slog.NewTextHandler(testWriter{r.t}, nil)))
}

func (r *rig) startLogged(log *slog.Logger) *running {
	r.t.Helper()
	cfg := r.cfg
	cfg.Listen = freeAddr(r.t)
	ctx, cancel := context.WithCancel(context.Background())
	p := &running{t: r.t, addr: cfg.Listen, cancel: cancel, done: make(chan error, 1)}
	go func() { p.done <- cdc.Run(ctx, log, cfg) }()
	r.t.Cleanup(func() {
		cancel()
		<-p.done
		close(p.done)
	})
	return p
}

// stop ends the publisher as SIGTERM does.
func (p *running) stop() {
	p.t.Helper()
	p.cancel()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Fatal(err)
		}
		p.done <- nil
	case <-time.After(within):
		p.t.Fatal("publisher does not stop")
	}
}

// process is a publisher that can be killed.
type process struct {
	*running
	cmd *exec.Cmd
}

func (r *rig) spawn() *process {
	r.t.Helper()
	return r.spawnProgram(os.Args[0])
}

func (r *rig) spawnProgram(program string) *process {
	r.t.Helper()
	cfg := r.cfg
	cfg.Listen = freeAddr(r.t)
	text, err := json.Marshal(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &process{running: &running{t: r.t, addr: cfg.Listen}, cmd: exec.Command(program)}
	p.cmd.Env = append(os.Environ(), childConfig+"="+string(text))
	p.cmd.Stderr = testWriter{r.t}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

type readiness struct {
	Ready   bool
	Sources []cdc.Status
}

// ready asks the publisher; ok is false when it does not answer.
func (p *running) ready() (r readiness, ok bool) {
	u := url.URL{Scheme: "http", Host: p.addr, Path: "/readyz"}
	resp, err := http.Get(u.String())
	if err != nil {
		return r, false
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		p.t.Fatal(err)
	}
	if r.Ready != (resp.StatusCode == http.StatusOK) {
		p.t.Fatalf("ready is %t with status %s", r.Ready, resp.Status)
	}
	return r, true
}

func (p *running) waitState(want cdc.State) {
	p.t.Helper()
	eventually(p.t, "state "+string(want), func() bool {
		r, ok := p.ready()
		return ok && r.Sources[0].State == want
	})
}

// waitStalled waits until the source is not ready for a reason that holds text.
func (p *running) waitStalled(text string) {
	p.t.Helper()
	var last readiness
	defer func() {
		if p.t.Failed() {
			p.t.Logf("last state: %+v", last)
		}
	}()
	eventually(p.t, "stalled by "+text, func() bool {
		r, ok := p.ready()
		last = r
		return ok && !r.Ready && strings.Contains(r.Sources[0].Reason, text)
	})
}

// metric reads the value of a series.
func (p *running) metric(series string) string {
	p.t.Helper()
	resp, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), series+" ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}
