package cdc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"

	"chorus/cdc"
	"chorus/internal/pgtest"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key = newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes name.pem and name.key, for 127.0.0.1 or for another name.
func (a *authority) issue(name, host string) tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	b, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "PRIVATE KEY", b)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

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
	ca := newAuthority(t)
	server, elsewhere := ca.issue("server", "127.0.0.1"), ca.issue("elsewhere", "kafka.example")
	ca.issue("client", "client")
	password := ca.path("password")
	if err := os.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	encrypted := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}})
	mutual := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	for name, c := range map[string]struct {
		broker []kfake.Opt
		with   cdc.Security
		reason string // for which it stalls; empty when it works
	}{
		"plain":             {[]kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "cdc", secret)}, cdc.Security{SASL: "PLAIN", User: "cdc", Password: secret}, ""},
		"scram 256":         {[]kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "cdc", secret)}, cdc.Security{SASL: "SCRAM-SHA-256", User: "cdc", PasswordFile: password}, ""},
		"scram 512, TLS":    {[]kfake.Opt{encrypted, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "cdc", secret)}, cdc.Security{CA: ca.path("ca.pem"), SASL: "scram-sha-512", User: "cdc", Password: secret}, ""},
		"certificate":       {[]kfake.Opt{mutual}, cdc.Security{CA: ca.path("ca.pem"), Cert: ca.path("client.pem"), Key: ca.path("client.key")}, ""},
		"no certificate":    {[]kfake.Opt{mutual}, cdc.Security{CA: ca.path("ca.pem")}, "certificate"},
		"unknown authority": {[]kfake.Opt{encrypted}, cdc.Security{TLS: true}, "certificate signed by unknown authority"},
		"another name":      {[]kfake.Opt{kfake.TLS(&tls.Config{Certificates: []tls.Certificate{elsewhere}})}, cdc.Security{CA: ca.path("ca.pem")}, "certificate"},
		"named":             {[]kfake.Opt{kfake.TLS(&tls.Config{Certificates: []tls.Certificate{elsewhere}})}, cdc.Security{CA: ca.path("ca.pem"), ServerName: "kafka.example"}, ""},
		"any name":          {[]kfake.Opt{kfake.TLS(&tls.Config{Certificates: []tls.Certificate{elsewhere}})}, cdc.Security{CA: ca.path("ca.pem"), AnyName: true}, ""},
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
	ca := newAuthority(t)
	ca.issue("postgres", "127.0.0.1")
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
		b, err := os.ReadFile(ca.path(name))
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
	r.cfg.Sources[0].DSN = dsn + ca.path("ca.pem")
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
	other := newAuthority(t)
	r.cfg.Sources[0].DSN = dsn + other.path("ca.pem")
	r.start().waitStalled("certificate")
}
