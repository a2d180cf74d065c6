package embedded

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

const (
	childEnv = "CHORUS_TEST_BROKER" // a Config as JSON: run as that broker process
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		os.Exit(child(text))
	}
	os.Exit(m.Run())
}

func child(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		log.Error("configuration", "err", err)
		return 2
	}
	if err := RunBroker(ctx, log, cfg); err != nil {
		log.Error("broker", "err", err)
		return 1
	}
	return 0
}

// process is a broker in a process of its own, which may be killed.
type process struct {
	t   *testing.T
	cfg Config
	cmd *exec.Cmd
}

func startProcess(t *testing.T, cfg Config) *process {
	t.Helper()
	p := &process{t: t, cfg: cfg}
	p.start()
	t.Cleanup(func() {
		if p.cmd != nil {
			p.end(syscall.SIGKILL)
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	text, err := json.Marshal(p.cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	p.cmd.Stderr = p.t.Output()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "broker process ready", func() bool {
		resp, err := http.Get("http://" + p.cfg.Registry + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// end signals the process and returns its exit code, -1 when the signal killed it.
func (p *process) end(sig syscall.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
	code := p.cmd.ProcessState.ExitCode()
	p.cmd = nil
	return code
}

// eventually waits for a condition, and fails the test when it does not come true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
