package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
)

// child is what a consumer process is told.
type child struct{ Which, Broker, Postgres, Provider string }

const childEnv = "CONFORMANCE_TEST_CHILD"

// TestMain runs the tests, or, in a process that a test has started, one of two consumers until SIGTERM.
func TestMain(m *testing.M) {
	told := os.Getenv(childEnv)
	if told == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	var c child
	err := json.Unmarshal([]byte(told), &c)
	if err == nil {
		err = map[string]func(context.Context, child) error{"sound": sound, "naive": naive}[c.Which](ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, c.Which, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const tables = `
CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, fact text, key text);
CREATE TABLE calls (n bigint GENERATED ALWAYS AS IDENTITY, fact text PRIMARY KEY, done boolean NOT NULL DEFAULT false);`

// sound is a consumer on inbox, which plans its calls in the handler's transaction and makes them afterwards, under the fact's id.
func sound(ctx context.Context, c child) error {
	var calling sync.WaitGroup
	defer calling.Wait()
	wake := make(chan struct{}, 1)
	if c.Provider != "" {
		calling.Go(func() { callAll(ctx, c, wake) })
	}
	return inbox.Run(ctx, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), inbox.Config{
		Brokers: []string{c.Broker}, Group: "sound", Topics: []string{topic}, Postgres: c.Postgres, BatchRecords: 50,
		SessionTimeout: 6 * time.Second, RebalanceTimeout: 10 * time.Second, Drain: 5 * time.Second,
		Committed: func([]inbox.Fact, []inbox.Verdict) {
			select {
			case wake <- struct{}{}:
			default:
			}
		},
	}, func(ctx context.Context, tx pgx.Tx, facts []inbox.Fact) ([]inbox.Verdict, error) {
		verdicts := make([]inbox.Verdict, len(facts))
		var ids, keys []string
		for i, f := range facts {
			var value struct{ N *int }
			if err := json.Unmarshal(f.Value, &value); err != nil || value.N == nil {
				verdicts[i] = inbox.DeadVerdict("undecodable", fmt.Sprint(err))
				continue
			}
			id := hex.EncodeToString(f.ID[:])
			ids, keys = append(ids, id[:8]+"-"+id[8:12]+"-"+id[12:16]+"-"+id[16:20]+"-"+id[20:]), append(keys, f.Key)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO effects (fact, key) SELECT * FROM unnest($1::text[], $2::text[])`, ids, keys); err != nil {
			return nil, err
		}
		_, err := tx.Exec(ctx, `INSERT INTO calls (fact) SELECT * FROM unnest($1::text[])`, ids)
		return verdicts, err
	})
}

// callAll makes planned calls until each has an answer. Replicas may make one twice, under the same key.
func callAll(ctx context.Context, c child, wake <-chan struct{}) {
	pool, err := pgxpool.New(ctx, c.Postgres)
	if err != nil {
		return
	}
	defer pool.Close()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		rows, _ := pool.Query(ctx, `SELECT fact FROM calls WHERE NOT done ORDER BY n LIMIT 64`)
		facts, _ := pgx.CollectRows(rows, pgx.RowTo[string]) // tried again
		var calling sync.WaitGroup
		done := make(chan string, len(facts))
		for part := range 4 {
			calling.Go(func() {
				for i := part; i < len(facts); i += 4 {
					if post(ctx, c.Provider, facts[i], facts[i]) == nil {
						done <- facts[i]
					}
				}
			})
		}
		calling.Wait()
		close(done)
		var answered []string
		for fact := range done {
			answered = append(answered, fact)
		}
		if len(answered) > 0 {
			_, _ = pool.Exec(ctx, `UPDATE calls SET done = true WHERE fact = ANY ($1)`, answered) // else it is called again
			continue
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func post(ctx context.Context, url, key, fact string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(fmt.Appendf(nil, `{"fact":%q}`, fact)))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", key)
	req.GetBody = nil // net/http would send it again by itself when the connection breaks
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// naive is a consumer as they are often written: the effect first, then the call, then the offset; no books; what fails is logged and passed over.
func naive(ctx context.Context, c child) error {
	conn, err := pgx.Connect(ctx, c.Postgres)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Broker), kgo.ConsumerGroup("naive"), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		client.PollRecords(ctx, 500).EachRecord(func(r *kgo.Record) {
			var value struct{ N int }
			if err := json.Unmarshal(r.Value, &value); err != nil {
				return
			}
			id := ""
			for _, h := range r.Headers {
				if h.Key == "id" {
					id = string(h.Value)
				}
			}
			if _, err := conn.Exec(context.Background(), `INSERT INTO effects (fact, key) VALUES ($1, $2)`, id, string(r.Key)); err != nil {
				return
			}
			if c.Provider != "" {
				for range 3 {
					if post(ctx, c.Provider, rand.Text(), id) == nil {
						break
					}
				}
			}
		})
	}
	return nil
}
