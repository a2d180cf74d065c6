package cdc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// load adds what is in File: sources to those that are there, settings where
// the file has them.
func (c Config) load() (Config, error) {
	if c.File == "" {
		return c, nil
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return c, err
	}
	if c, err = c.read(text); err != nil {
		return c, fmt.Errorf("%s: %w", c.File, err)
	}
	return c, nil
}

// read is load for the text of a file.
func (c Config) read(text []byte) (Config, error) {
	connector, ok, err := readConnector(text)
	switch {
	case err != nil:
		return c, err
	case ok:
		c.Sources = append(c.Sources, connector)
		if servers := connector.Debezium["producer.override.bootstrap.servers"]; servers != "" && len(c.Brokers) == 0 {
			c.Brokers = strings.Split(strings.ReplaceAll(servers, " ", ""), ",")
		}
		if kafka, ok, err := securityOf(connector.Debezium); err != nil {
			return c, err
		} else if ok {
			c.Kafka = kafka // of the tools too
		}
		return c, nil
	}
	sources := c.Sources
	c.Sources = nil
	if err := readYAML(text, &c); err != nil {
		return c, err
	}
	if c.Kafka.Password, err = resolve(c.Kafka.Password); err != nil {
		return c, fmt.Errorf("kafka: %w", err)
	}
	for i, s := range c.Sources {
		if c.Sources[i], err = s.resolved(); err != nil {
			return c, fmt.Errorf("source %q: %w", s.Name, err)
		}
	}
	c.Sources = append(sources, c.Sources...)
	return c, nil
}

// readYAML is strict. The library panics at some texts that are no YAML.
func readYAML(text []byte, c *Config) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("this is no YAML: %v", why)
		}
	}()
	return yaml.UnmarshalWithOptions(text, c, yaml.Strict())
}

// readConnector reads what is posted to Kafka Connect, {"name", "config"}, or
// the config alone. ok is false for something else.
func readConnector(text []byte) (s Source, ok bool, err error) {
	var whole struct {
		Name   string         `json:"name"`
		Config map[string]any `json:"config"`
	}
	if json.Unmarshal(text, &whole) != nil {
		return s, false, nil // YAML
	}
	options := whole.Config
	if options == nil {
		if err := json.Unmarshal(text, &options); err != nil {
			return s, false, err
		}
	}
	if options["connector.class"] == nil {
		return s, false, nil
	}
	s = Source{Name: whole.Name, Debezium: map[string]string{}}
	for name, value := range options {
		switch v := value.(type) {
		case string:
			s.Debezium[name] = v
		case bool, float64:
			s.Debezium[name] = fmt.Sprint(v)
		case nil:
		default:
			return s, true, fmt.Errorf("option %s is neither text, number nor boolean", name)
		}
	}
	if s.Name == "" {
		s.Name = s.Debezium["topic.prefix"]
	}
	if s, err = s.resolved(); err == nil {
		s.DSN, err = databaseURL(s.Debezium)
	}
	return s, true, err
}

// resolved replaces ${provider:…} in the options and the DSN, as the config
// providers of a Connect worker do that go by these names.
func (s Source) resolved() (Source, error) {
	var faults []error
	replace := func(text string) string {
		text, err := resolve(text)
		if err != nil {
			faults = append(faults, err)
		}
		return text
	}
	for name, v := range s.Debezium {
		if !strings.HasPrefix(name, "transforms.") { // ${routedByValue} is another thing
			s.Debezium[name] = replace(v)
		}
	}
	s.DSN = replace(s.DSN)
	return s, errors.Join(faults...)
}

func resolve(text string) (string, error) {
	var faults []error
	text = reference.ReplaceAllStringFunc(text, func(r string) string {
		v, err := lookUpReference(r[2 : len(r)-1])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", r, err))
		}
		return v
	})
	return text, errors.Join(faults...)
}

var reference = regexp.MustCompile(`\$\{[A-Za-z]+:[^}]*\}`)

func lookUpReference(text string) (string, error) {
	provider, what, _ := strings.Cut(text, ":")
	switch strings.ToLower(provider) {
	case "env", "envvar", "envvars":
		v, ok := os.LookupEnv(strings.TrimPrefix(what, ":"))
		if !ok {
			return "", errors.New("is not set")
		}
		return v, nil
	case "directory", "dir":
		dir, file, _ := strings.Cut(what, ":")
		b, err := os.ReadFile(filepath.Join(dir, file))
		return strings.TrimRight(string(b), "\r\n"), err
	case "file":
		path, key, _ := strings.Cut(what, ":")
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.TrimSpace(k) == key {
				return strings.TrimSpace(v), nil
			}
		}
		return "", fmt.Errorf("no %s in it", key)
	}
	return "", errors.New("no such config provider: env, file and directory are known")
}

// databaseURL makes the DSN of a connector's database.* options.
func databaseURL(options map[string]string) (string, error) {
	host, name := options["database.hostname"], options["database.dbname"]
	if host == "" || name == "" {
		return "", errors.New("no database.hostname or no database.dbname")
	}
	query := url.Values{}
	for option, parameter := range map[string]string{"database.sslmode": "sslmode", "database.sslrootcert": "sslrootcert",
		"database.sslcert": "sslcert", "database.sslkey": "sslkey", "database.sslpassword": "sslpassword"} {
		if v := options[option]; v != "" {
			query.Set(parameter, v)
		}
	}
	port := options["database.port"]
	if port == "" {
		port = "5432"
	}
	u := url.URL{Scheme: "postgres", Host: host + ":" + port, Path: "/" + name, RawQuery: query.Encode()}
	if user := options["database.user"]; user != "" {
		u.User = url.UserPassword(user, options["database.password"])
	}
	return u.String(), nil
}
