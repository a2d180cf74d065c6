package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func client(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func produce(t *testing.T, c *kgo.Client, topic string, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := c.ProduceSync(deadline(t), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatalf("produce %s: %v", v, err)
		}
	}
}

func read(t *testing.T, b *Broker, topic string, n int) []string {
	t.Helper()
	c := client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	for ctx := deadline(t); len(got) < n; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(got), n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

func TestAcknowledgedStateSurvives(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]func(*Broker){"stop": (*Broker).Stop, "crash": (*Broker).Crash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := Start(t, map[string]int32{"facts": 1})
			addr, c := b.Addr(), client(t, b)
			adm := kadm.NewClient(c)
			before, err := adm.ListTopics(deadline(t), "facts")
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for round := range 3 {
				v := fmt.Sprint("round ", round)
				want = append(want, v)
				produce(t, c, "facts", v)
				commit := kadm.Offsets{}
				commit.AddOffset("facts", 0, int64(round+1), -1)
				if err := adm.CommitAllOffsets(deadline(t), "readers", commit); err != nil {
					t.Fatal(err)
				}
				down(b)
				b.Restart()
				if unclean := name == "crash"; b.b.Unclean() != unclean {
					t.Errorf("unclean = %v after %s", b.b.Unclean(), name)
				}
				if diff := cmp.Diff(want, read(t, b, "facts", len(want))); diff != "" {
					t.Fatalf("records after %s %d (-want +got):\n%s", name, round, diff)
				}
				offsets, err := adm.FetchOffsets(deadline(t), "readers")
				if err != nil {
					t.Fatal(err)
				}
				if o, _ := offsets.Lookup("facts", 0); o.At != int64(round+1) {
					t.Fatalf("committed offset %d after %s, want %d", o.At, name, round+1)
				}
			}
			after, err := adm.ListTopics(deadline(t), "facts")
			if err != nil {
				t.Fatal(err)
			}
			if after["facts"].ID != before["facts"].ID || b.Addr() != addr {
				t.Errorf("topic id %v at %s became %v at %s", before["facts"].ID, addr, after["facts"].ID, b.Addr())
			}
		})
	}
}

func TestClientsGoOnAfterACrash(t *testing.T) {
	t.Parallel()
	b := Start(t, map[string]int32{"facts": 1})
	c := client(t, b)
	produce(t, c, "facts", "one")
	b.Crash()
	if err := client(t, b, kgo.RequestRetries(0)).Ping(deadline(t)); err == nil {
		t.Fatal("a crashed broker answers")
	}
	b.Restart()
	produce(t, c, "facts", "two")
	if diff := cmp.Diff([]string{"one", "two"}, read(t, b, "facts", 2)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// Of two batches on their way when the broker dies, the second may be the first to reach the next one, which does not know that
// there was another: it must not be taken, or what one producer sent is out of order.
func TestNoBatchOvertakesAnotherOverACrash(t *testing.T) {
	t.Parallel()
	b := Start(t, map[string]int32{"facts": 1})
	var sent []*kmsg.ProduceRequest
	b.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		p := *r.(*kmsg.ProduceRequest)
		p.Topics = slices.Clone(p.Topics)
		p.Topics[0].Partitions = slices.Clone(p.Topics[0].Partitions)
		p.Topics[0].Partitions[0].Records = slices.Clone(p.Topics[0].Partitions[0].Records)
		sent = append(sent, &p)
		return nil, nil, false
	})
	produce(t, client(t, b), "facts", "one", "two")
	b.Crash()
	b.Restart()
	c := client(t, b)
	answer, err := c.Broker(0).Request(deadline(t), sent[1])
	if err != nil {
		t.Fatal(err)
	}
	if code := answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != kerr.UnknownProducerID.Code {
		t.Errorf("the second batch of a producer that the broker does not know: code %d, want %d", code, kerr.UnknownProducerID.Code)
	}
	produce(t, c, "facts", "three")
	if diff := cmp.Diff([]string{"one", "two", "three"}, read(t, b, "facts", 3)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestUnknownTopicIsNotCreated(t *testing.T) {
	t.Parallel()
	b := Start(t, nil)
	c := client(t, b, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
	err := c.ProduceSync(deadline(t), &kgo.Record{Topic: "nobody.events"}).FirstErr()
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("produce to an unknown topic: %v", err)
	}
}

func TestControlKeySeesEveryRequest(t *testing.T) {
	t.Parallel()
	b := Start(t, map[string]int32{"facts": 1})
	const failures = 3
	seen := 0
	b.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		seen++
		return nil, errors.New("connection lost"), seen <= failures
	})
	produce(t, client(t, b), "facts", "at last")
	b.Stop()
	if seen != failures+1 {
		t.Errorf("%d produce requests seen, want %d", seen, failures+1)
	}
}
