package matrix

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/internal/check"
)

// reader reads the topic from its beginning, all the time.
type reader struct {
	mu  sync.Mutex // guards all
	all []arrival
}

type arrival struct {
	key       string
	number    uint64
	partition int32
}

func startReader(t *testing.T, brokers []string) *reader {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(250*time.Millisecond), kgo.MetadataMinAge(250*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{}
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(rec *kgo.Record) { // an error is a broker that is away
				text, _, _ := strings.Cut(string(rec.Value), " ")
				n, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					t.Errorf("a record of %q", rec.Value)
				}
				r.mu.Lock()
				r.all = append(r.all, arrival{string(rec.Key), n, rec.Partition})
				r.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		client.Close()
	})
	return r
}

// judge waits until all that was committed has arrived, and says what is wrong.
func (s *stage) judge(round int) {
	s.t.Helper()
	deadline := time.Now().Add(within)
	want := s.committed()
	for {
		stream := check.NewStream()
		for _, row := range want {
			stream.Wrote(row.key, row.number)
		}
		s.reader.mu.Lock()
		for _, a := range s.reader.all {
			stream.Read(a.key, a.number, a.partition)
		}
		s.reader.mu.Unlock()
		if !stream.Complete() && time.Now().Before(deadline) {
			s.pause(100 * time.Millisecond)
			continue
		}
		s.rows, s.twice = stream.Written(), stream.Duplicates
		if f := stream.Faults(); len(f) > 0 {
			s.t.Fatalf("round %d, %d rows: %s", round, s.rows, strings.Join(f, "\n"))
		}
		if s.delivery == "exactly-once" && s.twice > 0 {
			s.t.Fatalf("round %d: %d of %d rows came twice", round, s.twice, s.rows)
		}
		return
	}
}

// committed is what the table holds. Nobody writes, and nothing is pruned.
func (s *stage) committed() (all []arrival) {
	s.t.Helper()
	db, err := pgx.Connect(s.t.Context(), s.postgres.DSN())
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close(context.Background())
	rows, err := db.Query(s.t.Context(), `SELECT aggregateid, split_part(convert_from(payload, 'UTF8'), ' ', 1)::bigint AS n FROM outbox ORDER BY aggregateid, n`)
	if err != nil {
		s.t.Fatal(err)
	}
	var a arrival
	if _, err := pgx.ForEachRow(rows, []any{&a.key, &a.number}, func() error {
		all = append(all, a)
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return all
}
