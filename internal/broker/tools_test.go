package broker

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/brokertest"
)

func TestEnsureTopics(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"have": 3})
	brokers := []string{b.Addr()}
	want := map[string]int32{"have": 3, "a": 2, "b": 4}
	var racing sync.WaitGroup
	for range 3 {
		racing.Go(func() {
			if err := EnsureTopics(t.Context(), brokers, want); err != nil {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	topics, err := admin(t, b).ListTopics(t.Context(), "have", "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	for name, partitions := range want {
		if n := len(topics[name].Partitions); n != int(partitions) {
			t.Errorf("topic %s has %d partitions, want %d", name, n, partitions)
		}
	}
	if err := EnsureTopics(t.Context(), brokers, map[string]int32{"a": 1}); err != nil {
		t.Errorf("a topic with more partitions than wanted: %v", err)
	}
	if err := EnsureTopics(t.Context(), brokers, map[string]int32{"a": 3}); err == nil {
		t.Error("a topic with fewer partitions than wanted was accepted, or keys were moved")
	}
}

// TestGroupLag covers ops-anchors A.3: no commit is a state of its own, a commit beyond the end is not a negative lag, a foreign topic's commit is nobody's lag.
func TestGroupLag(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 3, "gone": 1})
	produce(t, b, "t", 0, 30, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	produce(t, b, "gone", 0, 5)
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, 4, -1)
	offsets.AddOffset("t", 1, 99, -1)
	offsets.AddOffset("gone", 0, 1, -1)
	if err := admin(t, b).CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	client, err := NewClient([]string{b.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got, err := GroupLag(t.Context(), client, "g", []string{"t"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Lag{
		{Topic: "t", Partition: 0, Committed: 4, End: 10, Behind: 6},
		{Topic: "t", Partition: 1, Committed: 99, End: 10, Behind: 0},
		{Topic: "t", Partition: 2, Committed: -1, End: 10, Behind: 10, NoCommit: true},
	}
	if diff := cmp.Diff(want, got.Lags); diff != "" {
		t.Errorf("lag (-want +got):\n%s", diff)
	}
	if got.State != "Empty" || got.Members != 0 {
		t.Errorf("state %s with %d members", got.State, got.Members)
	}
	unknown, err := GroupLag(t.Context(), client, "nobody", []string{"t"})
	if err != nil || unknown.State != "Dead" || len(unknown.Lags) != 3 || !unknown.Lags[0].NoCommit {
		t.Errorf("a group that never was: %+v, %v", unknown, err)
	}
	for group, protocol := range map[string]kgo.Opt{"classic": kgo.Balancers(kgo.CooperativeStickyBalancer()), "modern": kgo.ServerSideBalancer()} {
		member, err := kgo.NewClient(protocol, kgo.SeedBrokers(b.Addr()), kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "a member to be seen", func() bool {
			st, err := GroupLag(t.Context(), client, group, []string{"t"})
			return err == nil && st.Members == 1
		})
		member.Close()
	}
	if _, err := GroupLag(t.Context(), client, "g", []string{"missing"}); err == nil {
		t.Error("a missing topic has a lag")
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, map[string]int32{"t": 2, "empty": 1})
	produce(t, b, "t", 0, 20, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	count := func(last int64) (n int) {
		err := Tail(t.Context(), TailConfig{Brokers: []string{b.Addr()}, Topics: []string{"t", "empty"}, Last: last}, func(r Record) error {
			n++
			if r.TopicID == ([16]byte{}) || string(r.Key) != string(r.Value) {
				t.Errorf("record %+v", r)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	for last, want := range map[int64]int{-1: 20, 0: 0, 3: 6, 1000: 20} {
		if got := count(last); got != want {
			t.Errorf("the last %d of each partition: %d records, want %d", last, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- Tail(ctx, TailConfig{Brokers: []string{b.Addr()}, Topics: []string{"t"}, Follow: true}, func(r Record) error { seen <- string(r.Value); return nil })
	}()
	// What is written before the tail has found the end belongs to the past, so write until one is seen.
	n := 100
	eventually(t, "a record that is written later", func() bool { produce(t, b, "t", n, n+1); n++; return len(seen) > 0 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("a tail that was ended: %v", err)
	}
	stop := errors.New("enough")
	if err := Tail(t.Context(), TailConfig{Brokers: []string{b.Addr()}, Topics: []string{"t"}, Last: -1}, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a tail whose reader has had enough: %v", err)
	}
	if err := Tail(t.Context(), TailConfig{Brokers: []string{b.Addr()}, Topics: []string{"missing"}}, func(Record) error { return nil }); err == nil {
		t.Error("a missing topic can be read")
	}
}
