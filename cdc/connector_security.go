package cdc

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// securityOf reads how to reach Kafka from a connector's options
// producer.override.*; ok is false when they do not say.
func securityOf(options map[string]string) (s Security, ok bool, err error) {
	const prefix = "producer.override."
	given := func(name string) (string, bool) { v, ok := options[prefix+name]; return strings.TrimSpace(v), ok }
	get := func(name string) string { v, _ := given(name); return v }
	for name := range options {
		rest, override := strings.CutPrefix(name, prefix)
		ok = ok || override && (strings.HasPrefix(rest, "sasl.") || strings.HasPrefix(rest, "ssl.") || rest == "security.protocol")
	}
	if !ok {
		return s, false, nil
	}
	switch protocol := strings.ToUpper(get("security.protocol")); protocol {
	case "", "PLAINTEXT":
		return s, true, nil
	case "SSL", "SASL_SSL":
		s.TLS = true
		if err := s.readStores(given); err != nil {
			return s, true, err
		}
		if protocol == "SSL" {
			return s, true, nil
		}
	case "SASL_PLAINTEXT":
	default:
		return s, true, fmt.Errorf("%ssecurity.protocol %q is not known", prefix, protocol)
	}
	s.SASL = get("sasl.mechanism")
	if s.SASL == "" {
		return s, true, errors.New(prefix + "sasl.mechanism is missing; Kafka's own default, GSSAPI, is not supported")
	}
	s.User, s.Password, err = credentials(get("sasl.jaas.config"))
	if err != nil {
		return s, true, fmt.Errorf("%ssasl.jaas.config: %w", prefix, err)
	}
	return s, true, nil
}

// readStores reads what ssl.* says of certificates, in PEM.
func (s *Security) readStores(given func(string) (string, bool)) error {
	get := func(name string) string { v, _ := given(name); return v }
	for _, store := range []string{"ssl.truststore", "ssl.keystore"} {
		location, kind := get(store+".location"), strings.ToUpper(get(store+".type"))
		if location == "" {
			continue
		}
		if kind != "PEM" {
			return fmt.Errorf("producer.override.%s.location is of type %s, and only PEM is read: convert it (keytool -exportcert, openssl pkcs12) and set %s.type=PEM", store, orJKS(kind), store)
		}
		if store == "ssl.truststore" {
			s.CA = location
			continue
		}
		b, err := os.ReadFile(location) // certificate and key, one behind the other
		if err != nil {
			return err
		}
		s.Pair = [2][]byte{b, b}
	}
	if text := get("ssl.truststore.certificates"); text != "" {
		s.Authorities = []byte(text)
	}
	if chain, key := get("ssl.keystore.certificate.chain"), get("ssl.keystore.key"); chain != "" || key != "" {
		s.Pair = [2][]byte{[]byte(chain), []byte(key)}
	}
	if v, ok := given("ssl.endpoint.identification.algorithm"); ok && v == "" {
		s.AnyName = true
	}
	if get("ssl.key.password") != "" {
		return errors.New("producer.override.ssl.key.password: an encrypted key is not read")
	}
	return nil
}

func orJKS(kind string) string {
	if kind == "" {
		return "JKS"
	}
	return kind
}

// loginModule is the form of sasl.jaas.config for the mechanisms that are known.
var (
	loginModule = regexp.MustCompile(`^\s*[\w.]*\.(PlainLoginModule|ScramLoginModule)\s+required\s`)
	loginOption = regexp.MustCompile(`(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))`)
	escaped     = regexp.MustCompile(`\\(.)`)
)

// credentials reads user and password. Its errors hold nothing of the text.
func credentials(jaas string) (user, password string, err error) {
	if !loginModule.MatchString(jaas) {
		return "", "", errors.New("it is not of the form …PlainLoginModule required username=\"…\" password=\"…\"; (or ScramLoginModule)")
	}
	for _, m := range loginOption.FindAllStringSubmatch(jaas, -1) {
		value := m[3]
		if value == "" {
			value = escaped.ReplaceAllString(m[2], "$1")
		}
		switch m[1] {
		case "username":
			user = value
		case "password":
			password = value
		}
	}
	if user == "" || password == "" {
		return "", "", errors.New("no username or no password in it")
	}
	return user, password, nil
}
