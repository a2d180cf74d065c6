package cdc_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"chorus/cdc"
)

func TestConfigFromTheCommandLine(t *testing.T) {
	t.Parallel()
	var got cdc.Config
	parser, err := kong.New(&got)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{
		"--source=orders=postgres://cdc:p,w=1@h/orders?sslmode=disable", "--source=billing=host=h dbname=billing",
		"--brokers=a:1,b:2", "--prune-after=-1s"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cdc.Config{
		Sources: []cdc.Source{
			{Name: "orders", DSN: "postgres://cdc:p,w=1@h/orders?sslmode=disable"},
			{Name: "billing", DSN: "host=h dbname=billing"}},
		Brokers: []string{"a:1", "b:2"}, PruneAfter: -time.Second, StatusInterval: time.Second, DrainTimeout: 5 * time.Second,
	}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := parser.Parse([]string{"--source=postgres://cdc:hidden@h/orders"}); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("a source without a name: %v", err)
	}
}

func TestConfigFromYAML(t *testing.T) {
	t.Parallel()
	var got cdc.Config
	if err := yaml.UnmarshalWithOptions([]byte(`
sources:
  - name: orders
    dsn: postgres://h/orders
    slot: s
    publication: p
    table: app.outbox
brokers: [a:1]
listen: 127.0.0.1:9
prune_after: 1h
`), &got, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cdc.Config{
		Sources: []cdc.Source{{Name: "orders", DSN: "postgres://h/orders", Slot: "s", Publication: "p", Table: "app.outbox"}},
		Brokers: []string{"a:1"}, Listen: "127.0.0.1:9", PruneAfter: time.Hour,
	}, got); diff != "" {
		t.Error(diff)
	}
}

// All faults at once, and no password among them.
func TestRunRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	err := cdc.Run(context.Background(), slog.New(slog.DiscardHandler), cdc.Config{
		DrainTimeout: -1,
		Sources: []cdc.Source{
			{},
			{Name: "a", DSN: "postgres://u:hidden@h:none/d", Slot: "Upper", Table: "outbox"},
			{Name: "a", DSN: "postgres://h/d"},
		},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"drain timeout", "no Kafka broker", "no name", `slot "Upper"`, `table "outbox"`, "name is used twice", "cannot parse"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not speak of %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hidden") {
		t.Errorf("shows the password: %v", err)
	}
}
