package cdc

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
	"chorus/e2e/kafka"
	"chorus/internal/certtest"
)

// secure is a broker that wants TLS, and a password or a certificate. Its plain listener is for the test alone.
type secure struct {
	ca                     *certtest.Authority
	plain, password, tlsed string // addresses: no security, SASL_SSL, SSL with a certificate of the client
	admin                  *kadm.Client
}

const (
	goodPassword = "geheim 7,=x"
	badPassword  = "geraten"
)

func startSecure(t *testing.T) *secure {
	t.Helper()
	ca := certtest.New(t)
	ca.Issue("broker", "127.0.0.1")
	ca.Issue("client", "client")
	first, err := kafka.FreePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	address := func(n int) string { return "127.0.0.1:" + strconv.Itoa(first+n) }
	s := &secure{ca: ca, plain: address(0), password: address(2), tlsed: address(3)}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cluster, err := kafka.StartAt(ctx, t.TempDir(), first, 1,
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s,SASL_SSL://%s,SSL://%s", s.plain, address(1), s.password, s.tlsed),
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
		"ssl.keystore.type=PEM", "ssl.keystore.location="+ca.Path("broker.both"),
		"ssl.truststore.type=PEM", "ssl.truststore.location="+ca.Path("ca.pem"),
		"listener.name.ssl.ssl.client.auth=required",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		fmt.Sprintf(`listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_cdc="%s";`, goodPassword),
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop(context.Background()) })
	s.admin = kadm.NewClient(s.client(t))
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} { // a request may name a user once
		changed, err := s.admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "cdc", Mechanism: mechanism, Iterations: 4096, Password: goodPassword}})
		if err == nil {
			err = changed.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *secure) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(options, kgo.SeedBrokers(s.plain))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// complete waits until each row is in the topic, and demands them once and in order.
func (s *secure) complete(t *testing.T, r *rig) {
	t.Helper()
	c := s.client(t, kgo.ConsumeTopics(r.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	got := map[string][]int{}
	for n := 0; n < r.next; {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records", n, r.next)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			number, _ := strconv.Atoi(strings.TrimSpace(string(rec.Value)))
			got[string(rec.Key)] = append(got[string(rec.Key)], number)
			n++
		})
	}
	for key, want := range r.want {
		if !slices.Equal(got[key], want) {
			t.Errorf("key %s: %v, want %v", key, got[key], want)
		}
	}
}

// TLS and SASL of Apache Kafka itself: by our own settings and by those of a connector, with both deliveries; and what
// is said when the broker does not let the publisher in.
func TestSecurityOfApacheKafka(t *testing.T) {
	t.Parallel()
	s := startSecure(t)
	file := s.ca.Path("password")
	if err := os.WriteFile(file, []byte(goodPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trusted := s.ca.Path("ca.pem")
	connector := func(mechanism, module string) map[string]string {
		return map[string]string{
			"producer.override.security.protocol": "SASL_SSL", "producer.override.sasl.mechanism": mechanism,
			"producer.override.sasl.jaas.config":        fmt.Sprintf(`org.apache.kafka.common.security.%s required username="cdc" password="%s";`, module, goodPassword),
			"producer.override.ssl.truststore.type":     "PEM",
			"producer.override.ssl.truststore.location": trusted,
		}
	}
	for name, c := range map[string]struct {
		broker   string
		delivery string
		with     cdc.Security
		debezium map[string]string
		reason   string // for which it stands still; empty when it works
	}{
		"PLAIN":                        {s.password, cdc.AtLeastOnce, cdc.Security{CA: trusted, SASL: "PLAIN", User: "cdc", Password: goodPassword}, nil, ""},
		"SCRAM-SHA-256":                {s.password, cdc.AtLeastOnce, cdc.Security{CA: trusted, SASL: "SCRAM-SHA-256", User: "cdc", Password: goodPassword}, nil, ""},
		"SCRAM-SHA-512, exactly once":  {s.password, cdc.ExactlyOnce, cdc.Security{CA: trusted, SASL: "SCRAM-SHA-512", User: "cdc", PasswordFile: file}, nil, ""},
		"certificate, exactly once":    {s.tlsed, cdc.ExactlyOnce, cdc.Security{CA: trusted, Cert: s.ca.Path("client.pem"), Key: s.ca.Path("client.key")}, nil, ""},
		"a connector's PLAIN":          {s.password, cdc.AtLeastOnce, cdc.Security{}, connector("PLAIN", "plain.PlainLoginModule"), ""},
		"a connector's SCRAM-SHA-512":  {s.password, cdc.AtLeastOnce, cdc.Security{}, connector("SCRAM-SHA-512", "scram.ScramLoginModule"), ""},
		"PLAIN, wrong password":        {s.password, cdc.AtLeastOnce, cdc.Security{CA: trusted, SASL: "PLAIN", User: "cdc", Password: badPassword}, nil, "SASL"},
		"SCRAM, wrong password":        {s.password, cdc.AtLeastOnce, cdc.Security{CA: trusted, SASL: "SCRAM-SHA-512", User: "cdc", Password: badPassword}, nil, "SASL"},
		"SCRAM, exactly once, nobody":  {s.password, cdc.ExactlyOnce, cdc.Security{CA: trusted, SASL: "SCRAM-SHA-512", User: "nobody", Password: goodPassword}, nil, "SASL"},
		"no certificate":               {s.tlsed, cdc.AtLeastOnce, cdc.Security{CA: trusted}, nil, "certificate"},
		"an authority that is unknown": {s.password, cdc.AtLeastOnce, cdc.Security{CA: certtest.New(t).Path("ca.pem"), SASL: "PLAIN", User: "cdc", Password: goodPassword}, nil, "certificate"},
		"no TLS":                       {s.password, cdc.AtLeastOnce, cdc.Security{SASL: "PLAIN", User: "cdc", Password: goodPassword}, nil, "tls alert"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.debezium != nil)
			r.cfg.Brokers, r.cfg.Delivery, r.cfg.Kafka = []string{c.broker}, c.delivery, c.with
			if c.debezium != nil {
				r.cfg.Sources[0].Debezium = c.debezium
			}
			if _, err := s.admin.CreateTopic(t.Context(), 3, 1, nil, r.topic); err != nil {
				t.Fatal(err)
			}
			p := r.spawn()
			r.insert(r.db, 20, keys...)
			if c.reason != "" {
				p.waitStalled(c.reason)
				if st, ok := p.status(); ok && (strings.Contains(st.Reason, badPassword) || strings.Contains(st.Reason, goodPassword)) {
					t.Errorf("a password in the reason: %s", st.Reason)
				}
				return
			}
			s.complete(t, r)
			p.waitState(cdc.CaughtUp) // the slot is made
			p.stop()
			// And again, with new connections.
			p = r.spawn()
			r.insert(r.db, 20, keys...)
			s.complete(t, r)
			p.stop()
		})
	}
}
