// Package local is the whole of chorus on this machine: `chorus up` (D3). It prepares the databases, topics and
// schemas, and has package cluster run every process as a child of its own.
//
// Everything it keeps is in one data folder: PostgreSQL's files, the broker's log, the processes' logs, the ports
// and the secret from which the roles' passwords are derived. A crash anywhere leaves a folder that the next start takes up.
package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"chorus/internal/intent"
	"chorus/internal/provider"
	"chorus/internal/web"
)

// Config is what `chorus up` can be told.
type Config struct {
	Data        string         `help:"Data folder; everything is kept in it." default:".chorus" type:"path" env:"CHORUS_DATA"`
	Port        int            `help:"Port of the front address: console and API." default:"8080" env:"CHORUS_PORT"`
	Fresh       bool           `help:"Start over: delete what the data folder holds."`
	Kafka       []string       `help:"Use these Kafka brokers instead of the embedded one." placeholder:"HOST:PORT" env:"CHORUS_UP_KAFKA"`
	Registry    string         `help:"Use this schema registry (Confluent's REST interface); missing schemas are registered." placeholder:"URL" env:"CHORUS_UP_REGISTRY"`
	Postgres    string         `help:"Use this PostgreSQL server (URL of a superuser; wal_level=logical) instead of a private one." placeholder:"URL" env:"CHORUS_UP_POSTGRES"`
	Partitions  int32          `help:"Partitions of each topic, when it is made." default:"3" env:"CHORUS_PARTITIONS"`
	Format      string         `help:"How services write the values of facts: avro or json. Everybody reads both, so it may be changed at any start." enum:"avro,json" default:"avro" env:"CHORUS_FORMAT"`
	Scale       map[string]int `help:"Processes of a service, as in billing=3." placeholder:"SERVICE=N"`
	Deadline    time.Duration  `help:"How long an order may take to be confirmed." default:"15m" env:"CHORUS_DEADLINE"`
	Calls       intent.Config  `embed:"" prefix:"call-"`
	CallTimeout time.Duration  `help:"Longest exchange with a provider." default:"5s"`

	ProvidersFile string `help:"Providers and routes (YAML) instead of the simulated ones; checked before anything starts." placeholder:"FILE" type:"path" env:"CHORUS_PROVIDERS_FILE"`
	NoSync        bool   `help:"Do not wait for the disk: faster, and a power failure may damage the data folder." env:"CHORUS_NO_SYNC"`
	Verbose       bool   `help:"Log every decision of every service." short:"v" env:"CHORUS_VERBOSE"`
}

// services are the processes that can be scaled: replicas share a database and a consumer group.
var services = []string{"orders", "inventory", "fraud", "shipping", "billing", "notifications"}

func (c Config) check() error {
	var faults []error
	if c.Port < 1 || c.Port > 65535 {
		faults = append(faults, fmt.Errorf("port %d: want 1 to 65535", c.Port))
	}
	if c.Partitions < 1 || c.Partitions > 1000 {
		faults = append(faults, fmt.Errorf("partitions %d: want 1 to 1000", c.Partitions))
	}
	if c.Registry != "" && len(c.Kafka) == 0 {
		faults = append(faults, errors.New("a registry of your own goes with Kafka of your own: the embedded broker brings its registry"))
	}
	if c.Fresh && (len(c.Kafka) > 0 || c.Postgres != "") {
		faults = append(faults, errors.New("--fresh empties the data folder alone: the facts and orders that servers of your own still hold would be taken for new ones; delete their topics and databases, and start with a new folder"))
	}
	for name, n := range c.Scale {
		if !contains(services, name) {
			faults = append(faults, fmt.Errorf("scale %s=%d: want one of %v", name, n, services))
		} else if n < 1 || n > 20 {
			faults = append(faults, fmt.Errorf("scale %s=%d: want 1 to 20", name, n))
		}
	}
	faults = append(faults, c.checkProviders())
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuration of up: %w", err)
	}
	return nil
}

// checkProviders reads the providers file as the services will, and holds the deadline against the time that stock,
// shipment and payment may take one after the other (D4).
func (c Config) checkProviders() error {
	file, err := provider.Load(c.ProvidersFile)
	if err != nil {
		return err
	}
	if _, least := c.Calls.Budgets(file, c.CallTimeout); c.Deadline < least {
		return fmt.Errorf("deadline %s: three steps with all their attempts, look-ups and cancels by key may take %s; allow at least that, or give the calls less", c.Deadline, least)
	}
	return nil
}

// portFree tries the front port before anything starts: another cluster on it would answer in this one's name.
func (c Config) portFree(ctx context.Context) error {
	l, err := web.Listen(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("port %d is taken: choose another with --port (%w)", c.Port, err)
	}
	return l.Close()
}

func (c Config) replicas(service string) int { return max(1, c.Scale[service]) }

func (c Config) dir(name string) string { return filepath.Join(c.Data, name) }

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
