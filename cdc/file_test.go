package cdc

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

func TestReadConnector(t *testing.T) {
	t.Setenv("CDC_TEST_PASSWORD", "p@ss/word")
	secrets := filepath.Join(t.TempDir(), "db.properties")
	if err := os.WriteFile(secrets, []byte("# of the database\nuser = cdc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, ok, err := readConnector([]byte(`{"name": "shop", "config": {"connector.class": "x", "database.hostname": "db", "database.dbname": "shop", "tasks.max": 1,
		"database.user": "${file:` + secrets + `:user}", "database.password": "${env:CDC_TEST_PASSWORD}", "database.sslmode": "require",
		"transforms.outbox.route.topic.replacement": "x.${routedByValue}", "slot.failover": true}}`))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	c, err := pgx.ParseConfig(s.DSN)
	if err != nil || c.Host != "db" || c.Port != 5432 || c.User != "cdc" || c.Password != "p@ss/word" || c.Database != "shop" || c.TLSConfig == nil {
		t.Errorf("%+v, %v", c, err)
	}
	if s.Name != "shop" || s.Debezium["tasks.max"] != "1" || s.Debezium["slot.failover"] != "true" || s.Debezium["transforms.outbox.route.topic.replacement"] != "x.${routedByValue}" {
		t.Errorf("%+v", s)
	}
}

func TestReadConnectorRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"connector.class": "x", "topic.prefix": "p"}`:                                           "database.hostname",
		`{"connector.class": "x", "database.password": "${vault:a:b}"}`:                           "no such config provider",
		`{"connector.class": "x", "database.password": "${env:CDC_TEST_NOT_SET}"}`:                "is not set",
		`{"connector.class": "x", "transforms": ["outbox"]}`:                                      "neither text",
		`{"connector.class": "x", "database.password": "${file:/nowhere/at/all:password}"}`:       "nowhere",
		`{"config": {"connector.class": "x", "database.password": "${directory:/nowhere:file}"}}`: "nowhere",
	} {
		if _, _, err := readConnector([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want one that speaks of %q", text, err, want)
		}
	}
	for _, text := range []string{`sources: []`, `{"sources": []}`, ``, `[]`} {
		if s, ok, _ := readConnector([]byte(text)); ok {
			t.Errorf("%q is a connector: %+v", text, s)
		}
	}
}

func FuzzReadConnector(f *testing.F) {
	f.Add([]byte(`{"name": "shop", "config": {"connector.class": "x", "database.hostname": "${env:X}", "database.dbname": 1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, ok, err := readConnector(text); ok && err == nil && s.DSN == "" {
			t.Errorf("a connector without a database: %+v", s)
		}
	})
}

// FuzzReadFile: whatever a file holds, it is refused or makes sources that have what they need.
func FuzzReadFile(f *testing.F) {
	f.Add([]byte("brokers: [a:1]\nsources:\n  - name: shop\n    dsn: postgres://db/shop\n    debezium: {route.by.field: x}\n    on_refused: quarantine\n"))
	f.Add([]byte("sources: [{name: a, dsn: 'host=b', table: x.y, position_table: none}]\nkafka: {tls: true, sasl: PLAIN, user: u, password: '${env:HOME}'}\nprune_after: 3h\nbrokers: [b]"))
	f.Add([]byte(`{"name": "shop", "config": {"connector.class": "x", "database.hostname": "db", "database.dbname": "shop", "topic.prefix": "p", "producer.override.bootstrap.servers": "k:1"}}`))
	m := newMetrics(prometheus.NewRegistry())
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Config{}.read(text)
		if err == nil {
			c, err = c.withDefaults()
		}
		if err != nil {
			return
		}
		for _, s := range c.Sources {
			if source := newSource(slog.New(slog.DiscardHandler), c, s, m); s.Debezium != nil {
				if source.becomeDropIn() != nil {
					return
				}
				s = source.cfg
			}
			if s.Name == "" || s.DSN == "" || !slotName.MatchString(s.Slot) || s.Publication == "" || s.Delivery == "" || s.OnRefused == "" {
				t.Errorf("a source that lacks something: %+v", s)
			}
		}
	})
}
