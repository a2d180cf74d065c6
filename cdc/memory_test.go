package cdc_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"chorus/cdc"
)

// One transaction of 100,000 rows: no more than a bounded number is in flight,
// memory does not grow with it, and it is confirmed as a whole.
func TestLargeTransactionInBoundedMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.spawnProgram(plain(t))
	p.waitState(cdc.CaughtUp)
	first := map[string][]int64{"0": r.insert(1, "0")}
	topic := r.read()
	topic.complete(first)
	resume := r.pause()
	const rows = 100_000
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
	        SELECT ('00000000-0000-0000-0001-' || lpad(n::text, 12, '0'))::uuid, 'orders', (n % 10)::text, 'T', convert_to(n + 1000 || ' ' || repeat('x', 1000), 'UTF8')
	          FROM generate_series(1, 100000) AS n`)
	end := r.end()
	eventually(t, "records in flight", func() bool {
		s, ok := p.ready()
		return ok && s.Sources[0].Unacknowledged >= 10_000
	})
	if s, _ := p.ready(); s.Sources[0].Unacknowledged > 10_000 {
		t.Errorf("%d records in flight", s.Sources[0].Unacknowledged)
	}
	resume()
	want := map[string][]int64{}
	for n := range int64(rows) {
		key := strconv.FormatInt((n+1)%10, 10)
		want[key] = append(want[key], n+1+1000)
	}
	want["0"] = append(first["0"], want["0"]...)
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
	r.waitConfirmed(end)
	if mb := p.peak(); mb > 120 { // as it is some 85; with nothing bounded 245
		t.Errorf("the publisher took %d MB", mb)
	} else {
		t.Logf("the publisher took %d MB", mb)
	}
}

// peak is the largest memory the process had, in MB.
func (p *process) peak() int {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		p.t.Fatal(err)
	}
	return kb >> 10
}

// plain builds this test's program without the race detector, whose memory would hide the publisher's.
func plain(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "publisher")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the publisher: %v\n%s", err, out)
	}
	return path
}
