package cdc_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"

	"chorus/cdc"
	"chorus/internal/certtest"
	"chorus/internal/pgtest"
)

// secretLog fails the test when a line holds a secret.
type secretLog struct {
	testWriter
	secret string
	mu     sync.Mutex
}

func (w *secretLog) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(string(b), w.secret) {
		w.t.Errorf("a secret in the log: %s", b)
	}
	return w.testWriter.Write(b)
}

const secret = `geheim "7\x`

// startSecurely runs a publisher whose log must not hold the secret.
func (r *rig) startSecurely() *running {
	r.t.Helper()
	return r.startLogged(slog.New(slog.NewTextHandler(&secretLog{testWriter: testWriter{r.t}, secret: "geheim"}, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

func newSecureBroker(t *testing.T, options ...kfake.Opt) (addr string) {
	t.Helper()
	cluster, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders.events"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

func TestSASLAndTLSToKafka(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	server, elsewhere := ca.Issue("server", "127.0.0.1"), ca.Issue("elsewhere", "kafka.example")
	ca.Issue("client", "client")
	password := ca.Path("password")
	if err := os.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	encrypted := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}})
	mutual := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()})
	for name, c := range map[string]struct {
		broker []kfake.Opt
		with   cdc.Security
		reason string // for which it stalls; empty when it works
	}{
		"plain":             {[]kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "cdc", secret)}, cdc.Security{SASL: "PLAIN", User: "cdc", Password: secret}, ""},
		"scram 256":         {[]kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "cdc", secret)}, cdc.Security{SASL: "SCRAM-SHA-256", User: "cdc", PasswordFile: password}, ""},
		"scram 512, TLS":    {[]kfake.Opt{encrypted, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "cdc", secret)}, cdc.Security{CA: ca.Path("ca.pem"), SASL: "scram-sha-512", User: "cdc", Password: secret}, ""},
		"certificate":       {[]kfake.Opt{mutual}, cdc.Security{CA: ca.Path("ca.pem"), Cert: ca.Path("client.pem"), Key: ca.Path("client.key")}, ""},
		"no certificate":    {[]kfake.Opt{mutual}, cdc.Security{CA: ca.Path("ca.pem")}, "certificate"},
		"unknown authority": {[]kfake.Opt{encrypted}, cdc.Security{TLS: true}, "certificate signed by unknown authority"},
		"another name":      {[]kfake.Opt{kfake.TLS(&tls.Config{Certificates: []tls.Certificate{elsewhere}})}, cdc.Security{CA: ca.Path("ca.pem")}, "certificate"},
		"named":             {[]kfake.Opt{kfake.TLS(&tls.Config{Certificates: []tls.Certificate{elsewhere}})}, cdc.Security{CA: ca.Path("ca.pem"), ServerName: "kafka.example"}, ""},
		"any name":          {[]kfake.Opt{kfake.TLS(&tls.Config{Certificates: []tls.Certificate{elsewhere}})}, cdc.Security{CA: ca.Path("ca.pem"), AnyName: true}, ""},
		"wrong password":    {[]kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "cdc", "other")}, cdc.Security{SASL: "SCRAM-SHA-512", User: "cdc", Password: secret}, "topic orders.events"}, // this broker hangs up
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.cfg.Brokers, r.cfg.Kafka = []string{newSecureBroker(t, c.broker...)}, c.with
			p := r.startSecurely()
			r.insert(1, "1")
			if c.reason != "" {
				p.waitStalled(c.reason)
				return
			}
			end := r.end()
			r.waitConfirmed(end)
			p.waitState(cdc.CaughtUp)
			if n := p.metric(`chorus_cdc_records_total{source="orders"}`); n != "1" {
				t.Errorf("%s records published", n)
			}
		})
	}
}

// TLS to PostgreSQL, for the stream and the connections beside it, over an interruption and a stop.
func TestTLSToPostgreSQL(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	ca.Issue("postgres", "127.0.0.1")
	server := pgtest.Server(t)
	r := newRigOn(t, server.DSN())
	var dir string
	if err := r.db.QueryRow(t.Context(), `SHOW data_directory`).Scan(&dir); err != nil {
		t.Fatal(err)
	}
	owner, err := os.Stat(filepath.Join(dir, "PG_VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres.pem", "postgres.key"} {
		b, err := os.ReadFile(ca.Path(name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err == nil {
			err = chownLike(filepath.Join(dir, name), owner)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]string{"ssl_cert_file": "postgres.pem", "ssl_key_file": "postgres.key", "ssl": "on"} {
		r.exec(fmt.Sprintf(`ALTER SYSTEM SET %s = '%s'`, key, value))
	}
	r.exec(`SELECT pg_reload_conf()`)
	eventually(t, "TLS", func() bool {
		var on string
		return r.db.QueryRow(t.Context(), `SHOW ssl`).Scan(&on) == nil && on == "on"
	})
	c, err := pgx.ParseConfig(server.TCP())
	if err != nil {
		t.Fatal(err)
	}
	dsn := fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s user=%s password='%s' sslmode=verify-full sslrootcert=", c.Port, c.Database, c.User, c.Password)
	r.cfg.Sources[0].DSN = dsn + ca.Path("ca.pem")
	want := map[string][]int64{"1": r.insert(2, "1")}
	p := r.start()
	topic := r.read()
	topic.complete(want)
	want["1"] = append(want["1"], r.insert(500, "1")...)
	topic.complete(want)
	var encrypted, all int
	if err := r.db.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE ssl), count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'chorus cdc'`).Scan(&encrypted, &all); err != nil || all < 2 || encrypted != all {
		t.Errorf("%d of %d connections are encrypted (%v)", encrypted, all, err)
	}
	r.exec(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active`)
	want["1"] = append(want["1"], r.insert(2, "1")...)
	topic.complete(want)
	p.stop()
	if n := topic.complete(want); n != 0 {
		t.Logf("%d rows came twice", n)
	}
	other := certtest.New(t)
	r.cfg.Sources[0].DSN = dsn + other.Path("ca.pem")
	r.start().waitStalled("certificate")
}
