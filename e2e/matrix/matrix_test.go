// Package matrix kills, freezes and restarts what publishes, what stores and what takes the records, at random, while rows are written in every
// way that a transaction can be: the publisher is the real process.
//
//	go test -v ./e2e/matrix                                    a short form on the embedded broker
//	make kill-matrix                                           200 rounds of each delivery on Apache Kafka
//	CHORUS_MATRIX_SEED=7 CHORUS_MATRIX_ROUNDS=50 go test …     the same order of faults again
package matrix

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// within bounds each wait; the machine may be busy.
const within = 3 * time.Minute

var binary string // chorus

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "chorus-matrix")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "chorus")
		if out, err := exec.Command("go", "build", "-o", binary, "chorus/cmd/chorus").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build chorus: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// rounds is how many faults there are in a run, and its seed.
func rounds(t *testing.T) (n int, seed uint64) {
	t.Helper()
	n, seed = 12, uint64(time.Now().UnixNano())
	for name, set := range map[string]func(uint64){
		"CHORUS_MATRIX_ROUNDS": func(v uint64) { n = int(v) },
		"CHORUS_MATRIX_SEED":   func(v uint64) { seed = v },
	} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		set(v)
	}
	return n, seed
}

// G2, G3, E1–E13, E16, E23–E25, CDC-10, CDC-19, CDC-21: whatever dies, freezes or restarts, every committed row arrives, those of a key in the
// order of their commits, and nothing that was rolled back; with exactly-once none comes twice.
func TestKillMatrix(t *testing.T) {
	for _, delivery := range []string{"at-least-once", "exactly-once"} {
		t.Run(delivery, func(t *testing.T) {
			onKafka := os.Getenv("CHORUS_E2E_KAFKA") != ""
			if delivery == "exactly-once" && !onKafka {
				t.Skip("runs on Apache Kafka: CHORUS_E2E_KAFKA=1")
			}
			n, seed := rounds(t)
			t.Logf("seed %d, %d rounds", seed, n)
			random := rand.New(rand.NewPCG(seed, 0))
			s := newStage(t, delivery, onKafka)
			w := startWriters(s, random)
			var next []int // each fault once, in any order, before one comes again
			for round := 1; round <= n; round++ {
				s.pause(time.Duration(random.IntN(400)) * time.Millisecond)
				if len(next) == 0 {
					next = random.Perm(len(faults))
				}
				f := faults[next[0]]
				next = next[1:]
				t.Logf("round %d: %s", round, f.name)
				f.do(s, random)
				if round%10 == 0 || round == n {
					w.rest(func() { s.judge(round) })
				}
			}
			w.stop()
			t.Logf("%d rows of %s, %d records twice", s.rows, w.kinds(), s.twice)
		})
	}
}

// fault is something that happens to the system.
type fault struct {
	name string
	do   func(s *stage, random *rand.Rand)
}

var faults = []fault{
	{"kill -9 of a publisher", func(s *stage, random *rand.Rand) { s.publisher(random).kill() }},
	{"kill -9 of a publisher, twice", func(s *stage, random *rand.Rand) {
		p := s.publisher(random)
		p.kill()
		s.pause(time.Duration(random.IntN(1500)) * time.Millisecond)
		p.kill()
	}},
	{"freeze of a publisher", func(s *stage, random *rand.Rand) {
		p := s.publisher(random)
		thaw := p.freeze()
		s.pause(time.Duration(random.IntN(5000)) * time.Millisecond) // the sender's timeout is 3 s
		thaw()
	}},
	{"restart of the broker", func(s *stage, random *rand.Rand) { s.restartBroker(random.IntN(2) == 0) }},
	{"restart of PostgreSQL", func(s *stage, _ *rand.Rand) { s.restartPostgres(false) }},
	{"immediate shutdown of PostgreSQL", func(s *stage, _ *rand.Rand) { s.restartPostgres(true) }},
}

// pause lets the system run on for a while.
func (s *stage) pause(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	<-ctx.Done()
}
