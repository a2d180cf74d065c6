package cdc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecurityOfAConnector(t *testing.T) {
	t.Parallel()
	const plainJAAS = `org.apache.kafka.common.security.plain.PlainLoginModule required username="cdc" password="a \"b\" = c";`
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options string // name=value, a line each, behind producer.override.
		want    Security
		ok      bool
		fault   string
	}{
		"nothing":         {"acks=all\ncompression.type=lz4", Security{}, false, ""},
		"plaintext":       {"security.protocol=PLAINTEXT", Security{}, true, ""},
		"SASL_SSL":        {"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=" + plainJAAS, Security{TLS: true, SASL: "PLAIN", User: "cdc", Password: `a "b" = c`}, true, ""},
		"SCRAM":           {"security.protocol=sasl_plaintext\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=cdc password=x ;", Security{SASL: "SCRAM-SHA-512", User: "cdc", Password: "x"}, true, ""},
		"PEM":             {"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=" + ca + "\nssl.endpoint.identification.algorithm=", Security{TLS: true, CA: ca, AnyName: true}, true, ""},
		"inline":          {"security.protocol=SSL\nssl.truststore.certificates=A\nssl.keystore.certificate.chain=B\nssl.keystore.key=C", Security{TLS: true, Authorities: []byte("A"), Pair: [2][]byte{[]byte("B"), []byte("C")}}, true, ""},
		"JKS":             {"security.protocol=SSL\nssl.truststore.location=/x.jks", Security{}, true, "only PEM is read"},
		"GSSAPI":          {"security.protocol=SASL_SSL", Security{}, true, "GSSAPI"},
		"unknown":         {"security.protocol=X", Security{}, true, "is not known"},
		"OAuth":           {"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required password=\"geheim\";", Security{}, true, "is not of the form"},
		"without a name":  {"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required password=\"geheim\";", Security{}, true, "no username"},
		"encrypted key":   {"security.protocol=SSL\nssl.key.password=geheim", Security{}, true, "encrypted key"},
		"only a keystore": {"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=" + ca, Security{TLS: true, Pair: [2][]byte{[]byte("none"), []byte("none")}}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := map[string]string{}
			for line := range strings.Lines(c.options) {
				k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				options["producer.override."+k] = v
			}
			got, ok, err := securityOf(options)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "geheim") {
					t.Errorf("%v, want one that speaks of %q", err, c.fault)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok || err != nil {
				t.Errorf("%t, %v, %s", ok, err, diff)
			}
		})
	}
}

func TestSecurityIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    Security
		want string
	}{
		{Security{}, ""},
		{Security{TLS: true}, ""},
		{Security{SASL: "GSSAPI", User: "u", Password: "geheim"}, "GSSAPI"},
		{Security{SASL: "PLAIN", User: "u"}, "password"},
		{Security{SASL: "PLAIN", Password: "geheim"}, "needs a user"},
		{Security{SASL: "PLAIN", User: "u", Password: "geheim", PasswordFile: "f"}, "one of them"},
		{Security{Password: "geheim"}, "no SASL mechanism"},
		{Security{Cert: "x"}, "go together"},
		{Security{CA: "/nowhere"}, "nowhere"},
		{Security{Authorities: []byte("geheim")}, "no certificate"},
	} {
		err := c.s.check()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim")) {
			t.Errorf("%s: %v, want one that speaks of %q", c.s, err, c.want)
		}
		if text := fmt.Sprintf("%v %+v %#v", c.s, c.s, Config{Kafka: c.s}); strings.Contains(text, "geheim") {
			t.Errorf("the password is printed: %s", text)
		}
	}
}
