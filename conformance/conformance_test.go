package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
	"chorus/internal/brokertest"
	"chorus/internal/pgtest"
)

const topic = "conformance"

// subject is one of the two consumers, on a broker and a database of its own.
func subject(t *testing.T, which string, provider *Provider) Subject {
	t.Helper()
	broker, dsn := brokertest.Start(t, nil), pgtest.Database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), inbox.Schema+tables); err != nil {
		t.Fatal(err)
	}
	c := child{Which: which, Broker: broker.Addr(), Postgres: dsn}
	if provider != nil {
		server := httptest.NewServer(provider)
		t.Cleanup(server.Close)
		c.Provider = server.URL
	}
	told, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return Subject{
		Brokers: []string{broker.Addr()}, Topic: topic, Provider: provider, Scale: 200,
		Start: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMain$")
			cmd.Env = append(os.Environ(), childEnv+"="+string(told))
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			return cmd
		},
		Effects: func(ctx context.Context) ([]Effect, error) {
			rows, _ := conn.Query(ctx, `SELECT fact, key FROM effects ORDER BY n`)
			return pgx.CollectRows(rows, pgx.RowToStructByPos[Effect])
		},
		Aside: func(ctx context.Context) (n int, err error) {
			err = conn.QueryRow(ctx, `SELECT count(*) FROM dead_letters`).Scan(&n)
			return n, err
		},
		Rewind: func(ctx context.Context) error {
			client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()))
			if err != nil {
				return err
			}
			defer client.Close()
			admin := kadm.NewClient(client)
			topics, err := admin.ListTopics(ctx, topic)
			if err != nil {
				return err
			}
			if which == "naive" {
				_, err := admin.DeleteGroup(ctx, "naive")
				return err
			}
			for p := range topics[topic].Partitions {
				if _, err := inbox.Rewind(ctx, conn, inbox.RewindRequest{Consumer: "sound", Topic: topic, Partition: p, TopicID: topics[topic].ID}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// TestInboxConforms holds our own inbox to the suite, with a provider that loses answers (G4, G5, G11).
func TestInboxConforms(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), subject(t, "sound", &Provider{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", report)
	if report.Failed() {
		t.Error("inbox does not conform")
	}
	if got, want := len(report.Results), len(harms)+1; got != want {
		t.Errorf("%d kinds of harm were done, want %d", got, want)
	}
	for _, r := range report.Results {
		if r.Facts == 0 {
			t.Errorf("%s was done with no facts", r.Kind)
		}
	}
}

// TestNaiveConsumerFails: a suite that such a consumer passes is broken.
func TestNaiveConsumerFails(t *testing.T) {
	t.Parallel()
	s := subject(t, "naive", nil)
	s.Patience = 15 * time.Second // it will not get better
	report, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", report)
	for kind, want := range map[Kind]string{
		Duplicates: "facts took effect more than once",
		Kill:       "facts took effect more than once",
		Poison:     "0 records are set aside",
		Storm:      "0 records are set aside",
		Strangers:  "of unknown facts took effect",
		Replay:     "facts took effect more than once",
		Afterwards: "facts took effect more than once",
	} {
		if got := fmt.Sprint(report.Faults(kind)); !strings.Contains(got, want) {
			t.Errorf("%s: faults %s, want %q", kind, got, want)
		}
	}
	if faults := report.Faults(History); len(faults) > 0 {
		t.Errorf("without harm it fails too: %v", faults)
	}
}

// TestNaiveCallsFail: who takes a new key for each attempt has the thing done twice when an answer is lost.
func TestNaiveCallsFail(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), subject(t, "naive", &Provider{}), History)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(report.Faults(History)); !strings.Contains(got, "done by the provider more than once") {
		t.Errorf("faults %s", got)
	}
}

// TestTopicOfOthers: a topic that is there already is not touched.
func TestTopicOfOthers(t *testing.T) {
	t.Parallel()
	s := subject(t, "naive", nil)
	s.Brokers = []string{brokertest.Start(t, map[string]int32{topic: 1}).Addr()}
	if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "has to be the suite's own") {
		t.Errorf("got %v", err)
	}
}
