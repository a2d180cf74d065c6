package cdc

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Security is how to reach Kafka: encrypted, and as whom. Files are read again
// for each session, and a password file for each connection, so that both may be
// replaced while the process runs.
type Security struct {
	TLS          bool   `yaml:"tls" kong:"help='Encrypt the connections to Kafka.'"`
	CA           string `yaml:"ca" kong:"type='path',placeholder='FILE',help='Certificates (PEM) that the brokers are checked by; those of the system by default. Turns TLS on, as do the next ones.'"`
	Cert         string `yaml:"cert" kong:"type='path',placeholder='FILE',help='Certificate (PEM) to show to the brokers.'"`
	Key          string `yaml:"key" kong:"type='path',placeholder='FILE',help='Its key (PEM, not encrypted).'"`
	ServerName   string `yaml:"server_name" kong:"placeholder='NAME',help='Name that the brokers must prove; that of their address by default.'"`
	SASL         string `yaml:"sasl" kong:"placeholder='MECHANISM',help='PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.'"`
	User         string `yaml:"user" kong:"placeholder='NAME',help='User of SASL.'"`
	Password     string `yaml:"password" kong:"placeholder='TEXT',help='Its password; better in the environment or a file: other users of the machine can read a command line.'"`
	PasswordFile string `yaml:"password_file" kong:"type='path',placeholder='FILE',help='File that holds the password.'"`

	// Of a connector's options.
	Authorities []byte    `yaml:"-" json:"-" kong:"-"` // as in CA
	Pair        [2][]byte `yaml:"-" json:"-" kong:"-"` // as in Cert and Key
	AnyName     bool      `yaml:"-" json:"-" kong:"-"` // ssl.endpoint.identification.algorithm is empty
}

// Mechanisms of SASL.
const (
	saslPlain  = "PLAIN"
	saslSHA256 = "SCRAM-SHA-256"
	saslSHA512 = "SCRAM-SHA-512"
)

// String leaves the password out: a configuration may come into a log.
func (s Security) String() string {
	return fmt.Sprintf("tls=%t sasl=%s user=%s", s.encrypted(), s.SASL, s.User)
}

// GoString is for %#v.
func (s Security) GoString() string { return s.String() }

func (s Security) encrypted() bool {
	return s.TLS || s.CA != "" || s.Cert != "" || s.ServerName != "" || s.Authorities != nil || s.Pair[0] != nil
}

// check reports what cannot work.
func (s Security) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch strings.ToUpper(s.SASL) {
	case saslPlain, saslSHA256, saslSHA512:
		switch {
		case s.User == "":
			fault("SASL needs a user")
		case s.Password == "" && s.PasswordFile == "":
			fault("SASL needs a password or a password file")
		case s.Password != "" && s.PasswordFile != "":
			fault("a password and a password file: one of them")
		}
	case "":
		if s.User != "" || s.Password != "" || s.PasswordFile != "" {
			fault("a user or a password, and no SASL mechanism")
		}
	default:
		fault("SASL mechanism %q is none of %s, %s, %s", s.SASL, saslPlain, saslSHA256, saslSHA512)
	}
	if (s.Cert == "") != (s.Key == "") {
		fault("a certificate and its key go together")
	}
	if _, err := s.options(); err != nil && len(faults) == 0 {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// options are those of a client.
func (s Security) options() (options []kgo.Opt, err error) {
	if s.encrypted() {
		cfg, err := s.tlsConfig()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(cfg))
	}
	switch strings.ToUpper(s.SASL) {
	case saslPlain:
		options = append(options, kgo.SASL(plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.password()
			return plain.Auth{User: s.User, Pass: password}, err
		})))
	case saslSHA256:
		options = append(options, kgo.SASL(scram.Sha256(s.scram)))
	case saslSHA512:
		options = append(options, kgo.SASL(scram.Sha512(s.scram)))
	}
	return options, nil
}

func (s Security) scram(context.Context) (scram.Auth, error) {
	password, err := s.password()
	return scram.Auth{User: s.User, Pass: password}, err
}

func (s Security) password() (string, error) {
	if s.PasswordFile == "" {
		return s.Password, nil
	}
	b, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read the password for Kafka: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

func (s Security) tlsConfig() (*tls.Config, error) {
	cfg := &tls.Config{ServerName: s.ServerName, MinVersion: tls.VersionTLS12}
	authorities := s.Authorities
	if s.CA != "" {
		b, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of authorities for Kafka: %w", err)
		}
		authorities = b
	}
	if authorities != nil {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("no certificate of an authority in %s", cmp.Or(s.CA, "the connector's options"))
		}
	}
	var own tls.Certificate
	var err error
	switch {
	case s.Cert != "" && s.Key != "":
		own, err = tls.LoadX509KeyPair(s.Cert, s.Key)
	case s.Pair[0] != nil:
		own, err = tls.X509KeyPair(s.Pair[0], s.Pair[1])
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate for Kafka: %w", err)
	}
	if own.Certificate != nil {
		cfg.Certificates = []tls.Certificate{own}
	}
	if s.AnyName {
		anyName(cfg)
	}
	return cfg, nil
}

// anyName has the brokers' certificates checked, but not their names.
func anyName(cfg *tls.Config) {
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: cfg.RootCAs, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}
