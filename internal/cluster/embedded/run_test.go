package embedded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// The process is ended in the middle of a stream of records. Those that were acknowledged must be there, in their order; the rest may be there too, and
// a record that was being retried may be there twice.
func TestAcknowledgedRecordsAndOffsetsSurvive(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(end.String(), func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, Config{Dir: t.TempDir(), Listen: freeAddr(t), Registry: freeAddr(t)})
			s := newStream(t, p.cfg.Listen)
			for range 3 {
				s.start()
				target := s.acked.Load() + 200
				eventually(t, "records acknowledged", func() bool { return s.acked.Load() >= target })
				code := p.end(end)
				if end == syscall.SIGTERM && code != 0 {
					t.Errorf("exit code %d after SIGTERM", code)
				}
				_, err := os.Stat(filepath.Join(p.cfg.Dir, "unclean"))
				if left := err == nil; left != (end == syscall.SIGKILL) {
					t.Errorf("mark of an unclean stop after %v: %v", end, left)
				}
				p.start()
				s.stop()
				s.verify()
			}
		})
	}
}

// stream writes the numbers 0, 1, 2, … to one partition and commits the offset behind each acknowledged one.
type stream struct {
	t      *testing.T
	client *kgo.Client
	admin  *kadm.Client
	acked  atomic.Int64 // numbers below this are acknowledged
	commit atomic.Int64 // highest acknowledged committed offset
	cancel context.CancelFunc
	done   chan struct{}
}

func newStream(t *testing.T, addr string) *stream {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(50*time.Millisecond), kgo.DefaultProduceTopic("facts"),
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &stream{t: t, client: client, admin: kadm.NewClient(client)}
	if _, err := s.admin.CreateTopic(deadline(t), 1, 1, nil, "facts"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stream) start() {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.cancel, s.done = cancel, make(chan struct{})
	go func() {
		defer close(s.done)
		for ctx.Err() == nil {
			s.step(ctx)
		}
	}()
}

func (s *stream) step(ctx context.Context) {
	n := s.acked.Load()
	r, err := s.client.ProduceSync(ctx, &kgo.Record{Value: fmt.Append(nil, n)}).First()
	if err != nil {
		return // the same number again
	}
	s.acked.Add(1)
	offsets := kadm.Offsets{}
	offsets.AddOffset("facts", 0, r.Offset+1, -1)
	if err := s.admin.CommitAllOffsets(ctx, "readers", offsets); err == nil {
		s.commit.Store(r.Offset + 1)
	}
}

func (s *stream) stop() {
	s.cancel()
	<-s.done
}

func (s *stream) verify() {
	s.t.Helper()
	got := s.read()
	next := int64(0)
	for _, v := range got {
		if v == next {
			next++
		} else if v > next {
			s.t.Fatalf("number %d is missing, %d found instead", next, v)
		}
	}
	if next < s.acked.Load() {
		s.t.Fatalf("%d numbers acknowledged, %d found", s.acked.Load(), next)
	}
	offsets, err := s.admin.FetchOffsets(deadline(s.t), "readers")
	if err != nil {
		s.t.Fatal(err)
	}
	if o, _ := offsets.Lookup("facts", 0); o.At < s.commit.Load() {
		s.t.Fatalf("committed offset went back from %d to %d", s.commit.Load(), o.At)
	}
}

func (s *stream) read() (values []int64) {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(deadline(s.t), "facts")
	if err != nil {
		s.t.Fatal(err)
	}
	end, _ := ends.Lookup("facts", 0)
	reader, err := kgo.NewClient(kgo.SeedBrokers(s.client.OptValue(kgo.SeedBrokers).([]string)...),
		kgo.ConsumeTopics("facts"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer reader.Close()
	for ctx, last := deadline(s.t), int64(-1); last < end.Offset-1; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			s.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var v int64
			if _, err := fmt.Sscan(string(r.Value), &v); err != nil {
				s.t.Fatal(err)
			}
			values, last = append(values, v), r.Offset
		})
	}
	return values
}

func TestSecondBrokerOnTheFolderIsRefused(t *testing.T) {
	t.Parallel()
	p := startProcess(t, Config{Dir: t.TempDir(), Listen: freeAddr(t), Registry: freeAddr(t)})
	err := RunBroker(deadline(t), discard, Config{Dir: p.cfg.Dir, Listen: "127.0.0.1:0", Registry: "127.0.0.1:0"})
	if want := fmt.Sprintf("in use by process %d", p.cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one that says %q", err, want)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"", "127.0.0.1", "0.0.0.0:9092", ":9092", "example.org:9092", "127.0.0.1:nine", "127.0.0.1:70000"} {
		if b, err := OpenBroker(deadline(t), discard, t.TempDir(), addr); err == nil {
			b.Close()
			t.Errorf("%q was accepted", addr)
		}
	}
}
